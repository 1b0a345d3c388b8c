"""The same program recorded in two ways: stopped by itself, and read from what it left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from inside import run_inside
from recording import SOURCE_DIR
from stepscope.record.read_back.family import Family
from stepscope.record.stream.places import StreamFolders
from stepscope.record.stream.processes import ProcessId
from stepscope.trace.model import SliceKind, Trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_RUNNER = """
import json, sys
from stepscope.frameworks.python.paths import set_paths
from stepscope.record.options import RecordOptions
from stepscope.record.recorder import Recorder
from stepscope.record.source import make_sources
path, trace, options = sys.argv[1:]
sys.path[0] = path.rpartition("/")[0]
set_paths()
with open(path) as file:
    program = compile(file.read(), path, "exec")
recorder = Recorder(make_sources(RecordOptions(**json.loads(options))))
recorder.start()
exec(program, {"__name__": "__main__"})
recorder.stop()
recorder.trace.save(trace, overwrite=True)
"""
# What the two ways do not share: who imports what, when Python collects, and the whole run.
_OF_THE_RECORDING = ("import ", "stepscope: ", "Python garbage collection", "program.py")

Row = tuple[str, str, str, str, str]


def stopped(folder: Path, code: str, **options: object) -> Trace:
    """Return the trace of a program that is recorded in its own process, and ends there."""
    program, trace = folder / "program.py", folder / "stopped.stepscope"
    program.write_text(code, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", _RUNNER, str(program), str(trace), json.dumps(options)],
        env={**os.environ, "PYTHONPATH": str(SOURCE_DIR)},
        check=True,
        timeout=300,
    )
    return Trace.load(trace)


def recovered(folder: Path, code: str, *, ends_with: int = 0, **options: object) -> Trace:
    """Return the trace that another process makes of what the program has left."""
    program, run = folder / "program.py", folder / "run"
    program.write_text(code, encoding="utf-8")
    plan = {"sample_ns": "0", "tasks": "0", "stacks": str(options.pop("stacks", "none"))}
    done = run_inside(run, [str(program)], plan, **options)
    assert done.code == ends_with, done.err
    assert done.notes().get("notices", {}).get("lines", []) == []
    family = Family(StreamFolders(str(run / "disk"), str(run), ProcessId.own()))
    member = family.program()
    assert member is not None
    return family.trace_of(member)


def rows_of(trace: Trace) -> Counter[Row]:
    """Return how often each slice is in a trace: kind, category, name, arguments and stack."""
    slices, texts = trace.slices, trace.strings
    return Counter(
        (
            SliceKind(int(slices.kind[row])).name,
            texts[int(slices.category[row])],
            name,
            json.dumps(comparable(slices.args.of_row(row, texts)), sort_keys=True),
            " < ".join(stack_of(trace, row)),
        )
        for row, name in enumerate(trace.names())
        if not name.startswith(_OF_THE_RECORDING)
    )


def memory_of(trace: Trace) -> Counter[tuple[str, int]]:
    """Return how often memory of each size was taken or given back, by device."""
    memory = trace.memory
    devices = (trace.strings[int(item)] for item in memory.device)
    return Counter(zip(devices, memory.size.tolist(), strict=True))


def stack_of(trace: Trace, row: int) -> list[str]:
    """Return the frames of a slice, the innermost first, up to the program's own."""
    stacks, at, frames = trace.stacks, int(trace.slices.stack[row]), []
    while at:
        frames.append(trace.strings[int(stacks.frame[at])])
        if "program.py" in frames[-1] and "<module>" in frames[-1]:
            break
        at = int(stacks.parent[at])
    return frames


# What differs from one run to the next.
_OF_ONE_RUN = ("External id", "Ev Idx", "Record function id", "Sequence number", "Fwd thread id")


def comparable(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key not in _OF_ONE_RUN}
