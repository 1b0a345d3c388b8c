"""Every test here runs one program twice: on torch.profiler, and on Stepscope in its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Program = Callable[[], Any]
    Both = Callable[[Program], Any]

pytest.importorskip("torch")


@pytest.fixture
def both() -> Both:
    """Run a program on both, compare what it returns, and return that."""

    def run(program: Program) -> Any:
        theirs = program()
        with stepscope.patch_torch():
            ours = program()
        assert ours == theirs
        return theirs

    return run


@pytest.fixture
def exported(tmp_path: Path) -> Callable[[Any], dict[str, Any]]:
    """Return what a profiler writes as Chrome JSON."""

    def export(profiler: Any) -> dict[str, Any]:
        path = tmp_path / "trace.json"
        profiler.export_chrome_trace(str(path))
        text: dict[str, Any] = json.loads(path.read_text())
        return text

    return export
