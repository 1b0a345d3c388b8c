"""Runs the command as a user does, in a process of its own, and in this one where that will do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import stepscope
from stepscope.trace.model import Trace

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE"}},
    "PYTHONPATH": str(Path(stepscope.__file__).parent.parent),  # whichever is being tested
    "COLUMNS": "120",
}

Done = subprocess.CompletedProcess[str]


def python(*words: str, cwd: Path, **environment: str) -> Done:
    """Run Python in a folder."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def stepscope_run(*words: str, cwd: Path, **environment: str) -> Done:
    """Call `stepscope run`."""
    return python("-m", "stepscope", "run", *words, cwd=cwd, **environment)


def script(folder: Path, code: str, name: str = "program.py") -> Path:
    """Write a program."""
    path = folder / name
    path.write_text(code, encoding="utf-8")
    return path


def saved_trace(folder: Path) -> Trace:
    """Load the one trace in a folder."""
    (path,) = folder.glob("*.stepscope")
    return Trace.load(path)
