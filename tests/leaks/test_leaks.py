"""Memory that grows has the line that allocated it, in a run without options."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_SECONDS = 180
QUICK = {"registry", "native"}
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))


def growth_of(program: Path, folder: Path) -> dict[str, Any]:
    answer = folder / "answer.json"
    options = ["--quiet", "--no-report", "-o", folder / "run.stepscope", "--json", answer]
    subprocess.run(
        [sys.executable, "-m", "stepscope", "run", *options, program],
        check=True,
        timeout=TIMEOUT_SECONDS,
        stdout=subprocess.DEVNULL,
    )
    findings = json.loads(answer.read_text())["findings"]
    (growth,) = [finding for finding in findings if finding["id"] == "memory-growth"]
    return dict(growth)


def lines_marked(program: Path, mark: str) -> set[int]:
    lines = program.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}")}


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_growth_has_the_line_that_allocates(name: str, tmp_path: Path) -> None:
    program = PROGRAMS / f"{name}.py"
    text = program.read_text()
    for package in ("numpy", "torch"):
        if f"import {package}" in text:
            pytest.importorskip(package)
    growth = growth_of(program, tmp_path)
    allocates = lines_marked(program, "allocates")
    named = {int(line) for line in re.findall(rf"{name}\.py:(\d+)", json.dumps(growth))}
    assert not named & lines_marked(program, "never runs")
    if allocates:
        assert growth["line"] in allocates
    else:
        assert growth["title"].endswith("line unknown")
        assert not growth["places"]
