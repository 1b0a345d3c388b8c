"""Recording with shapes, memory and stacks, beside torch.profiler with the same options."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from blocks import Observers, added_ns
from common import column_s, in_child, in_children
from op_cost import mlp, operators_of
from rows import Row, faster_row, share_row

import stepscope
from stepscope import StackMode

PROCESSES = 12
TURNS = 6
PAIRS = 2  # torch.profiler takes more than a minute
EVENTS = 100_000
OPTIONS: dict[str, Any] = {"record_shapes": True, "profile_memory": True, "with_stack": True}
# Besides with_stack=True, which leaves out only the functions in C that libraries call.
OTHER_STACKS = {
    "stacks at operators only": StackMode.OPERATORS,
    "functions in C that libraries call, too": StackMode.ALL_CALLS,
}


def profiler_of(who: str) -> Any:
    """Return a profiler of the host with all options."""
    if who == "torch":
        cpu = [torch.profiler.ProfilerActivity.CPU]
        # Without "verbose", torch writes no stack into the file that it is asked for.
        verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
        return torch.profiler.profile(activities=cpu, experimental_config=verbose, **OPTIONS)
    return stepscope.profile(**{**OPTIONS, "with_stack": OTHER_STACKS.get(who, True)})


def measure(turns: int) -> dict[str, float]:
    """Return what each adds to an operator of an MLP's training step, in this process."""
    torch.set_num_threads(1)
    work = mlp(torch.optim.Adam)
    observers: Observers = {"bare": contextlib.nullcontext} | {
        who: functools.partial(profiler_of, who) for who in ("ours", *OTHER_STACKS, "torch")
    }
    return added_ns(observers, work, operators_of(work), turns)


def to_the_files(who: str, events: int) -> dict[str, float]:
    """Return the seconds from the first step to the table, and those of two exports."""
    torch.set_num_threads(1)
    work = mlp(torch.optim.Adam)
    steps = events // operators_of(work)
    if who == "bare":
        began = time.perf_counter()
        for _ in range(steps):
            work()
        return {"table": time.perf_counter() - began}
    with profiler_of(who) as warm_up:  # imports and lazy parts are not what is compared
        torch.ones(2) + 1
    warm_up.key_averages().table()
    began = time.perf_counter()
    profiler = profiler_of(who)
    profiler.start()
    for _ in range(steps):
        work()
    profiler.stop()
    assert "Self CPU time total" in profiler.key_averages().table(row_limit=20)
    result = {"table": time.perf_counter() - began}
    with tempfile.TemporaryDirectory() as folder:
        stacks, timeline = Path(folder) / "stacks.txt", Path(folder) / "memory.json.gz"
        began = time.perf_counter()
        profiler.export_stacks(str(stacks), "self_cpu_time_total")
        result["export_stacks"] = time.perf_counter() - began
        assert stacks.stat().st_size > 1000
        began = time.perf_counter()
        profiler.export_memory_timeline(str(timeline), device="cpu")
        result["export_memory_timeline"] = time.perf_counter() - began
        assert timeline.stat().st_size > 1000
    return result


def cost_rows(processes: int, turns: int) -> list[Row]:
    """Compare the added cost of an operator."""
    runs = in_children(processes, "options", str(turns))
    theirs = column_s(runs, "torch")
    whats = {"ours": "added to an operator with shapes, memory and stacks"}
    whats |= {which: f"the same, {which}" for which in OTHER_STACKS}
    return [
        share_row(
            what, column_s(runs, who), theirs, "torch.profiler", 0.5 if who == "ours" else None
        )
        for who, what in whats.items()
    ]


def file_rows(events: int) -> list[Row]:
    """Compare the time to the table, and that of the two files."""
    runs = [
        [in_child("options", who, str(events)) for who in ("bare", "ours", "torch")]
        for _ in range(PAIRS)
    ]
    for bare, *both in runs:
        for one in both:
            one["table"] -= bare["table"]
    return [
        faster_row(
            f"{name}, {events // 1000}k events",
            [mine[key] for _, mine, _ in runs],
            [torchs[key] for *_, torchs in runs],
            "torch.profiler",
            bar,
        )
        for key, name, bar in (
            ("table", "added to the run, with stop() and the table", 20),
            ("export_stacks", "export_stacks", 20),
            ("export_memory_timeline", "export_memory_timeline", 50),
        )
    ]


def rows(quick: bool = False) -> list[Row]:
    """Compare all."""
    processes, turns, events = (4, 2, 10_000) if quick else (PROCESSES, TURNS, EVENTS)
    return [*cost_rows(processes, turns), *file_rows(events)]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(to_the_files(sys.argv[1], int(sys.argv[2]))))
    else:
        print(json.dumps(measure(int(sys.argv[1]))))
