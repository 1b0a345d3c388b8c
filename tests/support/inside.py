"""Programs that record themselves from inside, as ``stepscope run`` has them do, without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stepscope
from stepscope._native import RecoveredStream
from stepscope.frameworks.python.operations import operations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_START = Path(stepscope.__file__).parent / "record" / "inside" / "start"

PLAN = {
    "memory": "1",
    "limit_bytes": str(64 << 20),
    "seconds": "0",
    "keep_newest": "0",
    "is_ring": "0",
    "gc_ns": "1000000",
    "held_memory": "1",
    "tasks": "1",
    "stacks": "none",
    "sample_ns": "1000000",
    "sample_budget": "0.03",
    "program_pid": str(os.getpid()),
    "program": "program",
    "options": "{}",
    "frameworks": "stepscope.frameworks.begin",
}


@dataclass(frozen=True)
class Ended:
    """A program that has recorded itself."""

    code: int
    out: str
    err: str
    folder: Path
    pid: int

    def pids(self) -> set[int]:
        """Return the processes that have recorded themselves."""
        return {int(path.name) for path in self.folder.iterdir() if path.name.isdigit()}

    def stream(self, pid: int = 0) -> RecoveredStream:
        """Return what a process recorded, by default the first."""
        process = pid or self.pid
        return RecoveredStream(f"{self.folder}/{process}", f"{self.folder}/disk/{process}.segments")

    def notes(self, pid: int = 0) -> Mapping[str, Any]:
        """Return what a process noted of itself, by name."""
        return {name: json.loads(text) for name, text in self.stream(pid).meta().items()}

    def names(self, pid: int = 0) -> list[str]:
        """Return what the slices of a process are called."""
        collected = []
        for recording in self.stream(pid).recordings():
            texts, pairs = bytes(recording["blob"]), list(pairwise(recording["offsets"].tolist()))
            collected += [texts[slice(*pairs[name])].decode() for name in recording["name"]]
        return collected


def environment(folder: Path, plan: Mapping[str, str], *paths: Path) -> dict[str, str]:
    """Return the environment in which Python records itself into a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "disk").mkdir(exist_ok=True)
    of_machine = {
        "python": str(sys.hexversion),
        "disk": str(folder / "disk"),
        "operations": bytes(operations()).hex(),
    }
    lines = (f"{name}={value}\n" for name, value in {**of_machine, **PLAN, **plan}.items())
    (folder / "plan").write_text("".join(lines), encoding="utf-8")
    path = os.pathsep.join(map(str, (_START, *paths)))
    return {**os.environ, "STEPSCOPE_RUN": str(folder), "PYTHONPATH": path}


def run_inside(
    folder: Path,
    words: Sequence[str],
    plan: Mapping[str, str] | None = None,
    paths: Sequence[Path] = (),
    **options: object,
) -> Ended:
    """Run Python with some words on its command line; ``options`` are those of the recording."""
    expected = {**(plan or {}), "options": json.dumps(options)}
    with subprocess.Popen(
        [sys.executable, *words],
        env=environment(folder, expected, *paths),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        out, err = process.communicate(timeout=300)
    return Ended(process.returncode, out, err, folder, process.pid)
