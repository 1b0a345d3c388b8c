"""Recording with shapes, memory and stacks, beside torch.profiler with the same options."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from common import Row, in_child, interleaved_ns, seconds, timed_ns
from op_cost import compare, mlp

import stepscope
from stepscope import StackMode

if TYPE_CHECKING:
    from collections.abc import Callable

PROCESSES = 3
ROUNDS = 9
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


def added_ns() -> dict[str, float]:
    """Return what each adds to an operator of an MLP's training step, in this process."""
    torch.set_num_threads(1)
    work, operators = mlp(torch.optim.Adam)
    work()

    def under(who: str) -> Callable[[], int]:
        def run() -> int:
            with profiler_of(who):
                return timed_ns(work)

        return run

    variants = {"bare": lambda: timed_ns(work)}
    variants |= {who: under(who) for who in ("ours", *OTHER_STACKS, "torch")}
    typical = interleaved_ns(variants, ROUNDS, median)
    return {key: (value - typical["bare"]) / operators for key, value in typical.items()}


def to_the_files(who: str, events: int) -> dict[str, float]:
    """Return the seconds from the first step to the table, and those of two exports."""
    torch.set_num_threads(1)
    work, operators = mlp(torch.optim.Adam)
    work()
    if who == "bare":
        began = time.perf_counter()
        for _ in range(events // operators):
            work()
        return {"table": time.perf_counter() - began}
    with profiler_of(who) as warm_up:  # imports and lazy parts are not what is compared
        torch.ones(2) + 1
    warm_up.key_averages().table()
    began = time.perf_counter()
    profiler = profiler_of(who)
    profiler.start()
    for _ in range(events // operators):
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


def rows(events: int = EVENTS) -> list[Row]:
    """Compare the cost of an operator, the time to the table, and that of the two files."""
    runs = [in_child("options") for _ in range(PROCESSES)]
    cost = {key: seconds(median(run[key] for run in runs) * 1e-9) for key in runs[0]}
    ratio, text = compare(runs, "torch")
    theirs = f"torch.profiler {cost['torch']}"
    result = [
        Row(
            "added to an operator with shapes, memory and stacks",
            cost["ours"],
            theirs,
            text,
            "≤ 0.5 ×",
            ratio <= 0.5,
        ),
    ]
    for which in OTHER_STACKS:
        ratios = compare([{**run, "ours": run[which]} for run in runs], "torch")[1]
        result.append(Row(f"the same, {which}", cost[which], theirs, ratios, "", None))
    bare, mine, torchs = (
        in_child("options", who, str(events)) for who in ("bare", "ours", "torch")
    )
    for each in (mine, torchs):
        each["table"] -= bare["table"]
    steps = (
        ("table", "added to the run, with stop() and the table", 20),
        ("export_stacks", "export_stacks", 20),
        ("export_memory_timeline", "export_memory_timeline", 50),
    )
    for key, name, bar in steps:
        ratio = torchs[key] / mine[key]
        result.append(
            Row(
                f"{name}, {events // 1000}k events",
                seconds(mine[key]),
                f"torch.profiler {seconds(torchs[key])}",
                f"{ratio:.0f} × faster",
                f"≥ {bar} ×",
                ratio >= bar,
            )
        )
    return result


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(to_the_files(sys.argv[1], int(sys.argv[2]))))
    else:
        print(json.dumps(added_ns()))
