"""A training step of small kernels on a CUDA device, beside torch.profiler in the same processes.

Needs a GPU: ``make bench-gpu``.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from blocks import block_ns
from common import column_s, in_children
from rows import Row, exact_row, faster_row, share_row

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable

PROCESSES = 10
TURNS = 12
STEPS = 4  # a block
EVENTS = 300_000


def training_step() -> Callable[[], None]:
    """Return a step of an MLP whose kernels are so small that the host sets the pace."""
    layers = [item for _ in range(8) for item in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    inputs = torch.randn(32, 64, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def profiler_of(who: str) -> Any:
    """Return a profiler of the host and the device."""
    if who == "torch":
        activity = torch.profiler.ProfilerActivity
        return torch.profiler.profile(activities=[activity.CPU, activity.CUDA])
    activities = [stepscope.ProfilerActivity.CPU, stepscope.ProfilerActivity.CUDA]
    return stepscope.profile(activities=activities)


def measure(turns: int) -> dict[str, float]:
    """Return the ns of a step under each profiler, in this process."""
    step = training_step()

    def steps() -> None:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()

    observers = {"bare": contextlib.nullcontext} | {
        who: functools.partial(profiler_of, who) for who in ("ours", "torch")
    }
    times = block_ns(observers, steps, turns, time.perf_counter_ns)
    return {name: taken / STEPS for name, taken in times.items()}


def step_rows(processes: int, turns: int) -> list[Row]:
    """Compare the time of a step, and what of it each has added."""
    runs = in_children(processes, "cuda", str(turns))
    bare, ours, theirs = (column_s(runs, who) for who in ("bare", "ours", "torch"))
    ours_added, theirs_added = (
        [time_s - bare_s for time_s, bare_s in zip(times, bare, strict=True)]
        for times in (ours, theirs)
    )
    return [
        share_row("step, operators + CUDA", ours, bare, "bare", 1.25),
        share_row("the same, time added", ours_added, theirs_added, "torch.profiler", 0.5),
    ]


def table_row(step: Callable[[], None], events: int) -> Row:
    """Compare the time from stop() to the first table."""

    def until_table(who: str) -> tuple[float, int]:
        prof = profiler_of(who)
        prof.start()
        for _ in range(events // 950):
            step()
        torch.cuda.synchronize()
        began = time.perf_counter()
        prof.stop()
        prof.key_averages().table(sort_by="self_cuda_time_total", row_limit=10)
        return time.perf_counter() - began, len(prof.events())

    turns = [(until_table("ours"), until_table("torch")) for _ in range(2)]
    what = f"stop() + table, {turns[0][0][1] // 1000}k events"
    ours, theirs = ([turn[who][0] for turn in turns] for who in (0, 1))
    return faster_row(what, ours, theirs, "torch.profiler", 100)


def equal_row(step: Callable[[], None]) -> Row:
    """Compare the kernels by name and count."""
    counts = {}
    for who in ("ours", "torch"):
        with profiler_of(who) as prof:
            step()
            torch.cuda.synchronize()
        on_device = [e for e in prof.events() if str(e.device_type).endswith("CUDA")]
        # torch shows the user's ranges on the device as events, too.
        counts[who] = Counter(e.name for e in on_device if not e.is_user_annotation)
    same = counts["ours"] == counts["torch"]
    ours, theirs = (str(counts[who].total()) for who in ("ours", "torch"))
    return exact_row("kernels, names and counts", ours, theirs, "equal", same)


def million_row() -> Row:
    """Launch a million kernels: what is kept and what is counted as lost add up."""
    x = torch.zeros(1, device="cuda")
    x.add_(1)
    torch.cuda.synchronize()
    limit = stepscope.MemoryLimit(32 << 20)
    device = [stepscope.ProfilerActivity.CUDA]
    with stepscope.profile(activities=device, memory_limit=limit) as prof:
        for _ in range(1_000_000):
            x.add_(1)
    remaining, lost = len(prof.trace.slices), prof.trace.losses.events
    whole = np.isclose(remaining + lost, 2_000_000, atol=4)
    what = "1M kernels: events kept + lost"
    return exact_row(what, f"{remaining} + {lost}", "", "2,000,000", bool(whole))


def rows(quick: bool = False) -> list[Row]:
    """Compare everything."""
    processes, turns, events = (3, 3, EVENTS // 10) if quick else (PROCESSES, TURNS, EVENTS)
    step = training_step()
    for _ in range(20):
        step()
    return [
        *step_rows(processes, turns),
        table_row(step, events),
        equal_row(step),
        million_row(),
    ]


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
