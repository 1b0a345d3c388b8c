"""What sampling all threads every millisecond costs the program, and how true the samples are.

Other samplers are run beside it where they are installed: pyinstrument inside the program, py-spy
and austin around it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from common import in_child, in_children
from rows import Row, limit_row, note_row, share_row

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "sampled_program"
PROCESSES = 8
TURNS = 8
SLOWER = {1: 1.01, 16: 1.03}
OWN_SHARE = {1: 0.025, 16: 0.04}
BUDGET = 0.03
POINTS = 2.0

_AROUND = {
    "py-spy": ("py-spy", "record", "-r", "1000", "-f", "raw", "-o", "{out}", "--"),
    "austin": ("austin", "-i", "1ms", "-o", "{out}"),
}


def rows(quick: bool = False) -> list[Row]:
    """Measure one busy thread and 16, then 200, then how true the shares are."""
    processes, turns = (2, 3) if quick else (PROCESSES, TURNS)
    collected = []
    for count in SLOWER:
        collected += _threads(count, processes, turns)
        collected += _peers(count, processes, turns)
    many = in_children(max(2, processes // 2), PROGRAM, "many")
    collected.append(_share("the sampler's own CPU, 200 threads", many, BUDGET))
    collected.append(_error("shares of two functions in 200 threads, off by", many))
    shares = in_children(2 if quick else 3, PROGRAM, "shares")
    collected.append(_error("shares of ten functions, 10 s, the worst is off by", shares))
    return collected


def _threads(count: int, processes: int, turns: int) -> list[Row]:
    runs = in_children(processes, PROGRAM, "threads", "stepscope", str(count), str(turns))
    what = f"sampled every ms, {_threads_text(count)}"
    return [
        share_row(what, _of(runs, "sampled"), _of(runs, "bare"), "bare", SLOWER[count]),
        _share(f"the sampler's own CPU, {_threads_text(count)}", runs, OWN_SHARE[count]),
    ]


def _peers(count: int, processes: int, turns: int) -> list[Row]:
    collected = []
    if importlib.util.find_spec("pyinstrument"):
        runs = in_children(processes, PROGRAM, "threads", "pyinstrument", str(count), str(turns))
        what = f"pyinstrument at 1 ms, {_threads_text(count)}"
        collected.append(share_row(what, _of(runs, "sampled"), _of(runs, "bare"), "bare", None))
    else:
        collected.append(note_row("pyinstrument", "it is not installed"))
    for name, command in _AROUND.items():
        what = f"{name} at 1 ms, {_threads_text(count)}"
        if shutil.which(command[0]) is None:
            collected.append(note_row(what, "it is not installed"))
            continue
        args = ("threads", "none", str(count), str(turns))
        around = [_around(command, *args) for _ in range(processes)]
        if None in around:
            collected.append(note_row(what, "it may not look into other processes here"))
            continue
        sampled = [run["bare"] for run in around if run]
        bare = [in_child(PROGRAM, *args)["bare"] for _ in range(processes)]
        own = sum(run["own_share"] for run in around if run) / processes
        row = share_row(f"{what}; its own CPU {own:.1%}", sampled, bare, "bare", None)
        collected.append(row)
    return collected


def _around(command: Sequence[str], *args: str) -> dict[str, float] | None:
    """Run the program under a sampler; None when that fails."""
    folder = Path(__file__).parent
    with tempfile.TemporaryDirectory() as place:
        words = [word.format(out=f"{place}/out") for word in command]
        program = [sys.executable, str(folder / f"{PROGRAM}.py"), *args]
        before = os.times()
        done = subprocess.run([*words, *program], check=False, capture_output=True, text=True)
        after = os.times()
    line = next(
        (splitline for splitline in done.stdout.splitlines() if splitline.startswith("{")), None
    )
    if line is None:
        return None
    parsed: dict[str, float] = json.loads(line)
    cpu_s = after.children_user + after.children_system
    cpu_s -= before.children_user + before.children_system
    own_s = max(cpu_s - parsed["cpu_s"], 0)
    return {**parsed, "own_share": own_s / (after.elapsed - before.elapsed)}


def _of(runs: Sequence[dict[str, float]], name: str) -> list[float]:
    return [run[name] for run in runs]


def _share(what: str, runs: Sequence[dict[str, float]], at_most: float) -> Row:
    return limit_row(what, _of(runs, "share"), at_most, lambda value: f"{value:.2%}")


def _error(what: str, runs: Sequence[dict[str, float]]) -> Row:
    return limit_row(what, _of(runs, "error"), POINTS, lambda value: f"{value:.2f} points")


def _threads_text(count: int) -> str:
    return "one busy thread" if count == 1 else f"{count} busy threads"
