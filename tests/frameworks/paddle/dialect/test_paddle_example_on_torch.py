"""The example of this dialect with PyTorch underneath."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recording import SOURCE_DIR

EXAMPLE = Path(__file__).parents[4] / "examples" / "paddle_dialect_on_torch.py"


@pytest.mark.slow
def test_a_pytorch_program_under_the_api_of_paddle(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "torch.pb"
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--steps", "12", "--out", str(path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE_DIR)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for part in ("Perf Summary", "Reader Ratio", "Model Summary", "Forward", "aten::linear"):
        assert part in done.stdout
    assert path.stat().st_size > 0
