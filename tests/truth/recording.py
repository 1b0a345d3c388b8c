"""Run a program under `stepscope run`, and gather what it says of itself and what is told of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from .catalog import Program

SAMPLES = "select state, stack, sum(duration_ns) as ns from samples group by state, stack"
TIMEOUT_SECONDS = 180
LINES_OF_AN_ERROR = 5


class ProgramFailedError(RuntimeError):
    """The program, or the answer about it, ended with an error."""


@dataclass
class Recording:
    """What a program knows of itself, one record a process, and the answer about it."""

    processes: list[dict[str, Any]]
    answer: dict[str, Any]
    samples: list[dict[str, Any]]

    @property
    def truth(self) -> dict[str, Any]:
        """The record of the first process: children end, and write theirs, before it does."""
        return self.processes[-1]


def record(program: Program, folder: Path, python: str = sys.executable) -> Recording:
    truth, answer = folder / "truth.jsonl", folder / "answer.json"
    trace = folder / "run.stepscope"
    stepscope = [python, "-m", "stepscope"]
    options = ["--quiet", "--no-report", "-o", trace, "--json", answer]
    _run(
        [*stepscope, "run", *options, program.path, program.argument],
        TRUTH_FILE=str(truth),
    )
    if not answer.is_file():
        raise ProgramFailedError(f"{program.name}: stepscope run wrote no answer")
    samples = json.loads(_run([*stepscope, "sql", trace, "--json", SAMPLES]))["rows"]
    processes = [json.loads(line) for line in truth.read_text().splitlines()]
    return Recording(processes, json.loads(answer.read_text()), samples)


def _run(command: list[str | Path], **environment: str) -> str:
    result = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if result.returncode:
        words = " ".join(map(str, command))
        last_lines = "\n".join(result.stderr.splitlines()[-LINES_OF_AN_ERROR:])
        raise ProgramFailedError(f"{words} ended with {result.returncode}:\n{last_lines}")
    return result.stdout
