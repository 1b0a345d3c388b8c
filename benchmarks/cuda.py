"""A training step of small kernels on a CUDA device, beside torch.profiler in the same process.

Needs a GPU: ``make bench-gpu``.
"""

from __future__ import annotations

import time
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from common import Row, interleaved_ns, seconds, timed_ns

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 60
STEPS = 20
EVENTS = 300_000


def training_step() -> Callable[[], None]:
    """Return a step of an MLP whose kernels are so small that the host sets the pace."""
    layers = [each for _ in range(8) for each in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
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


def step_rows(step: Callable[[], None]) -> list[Row]:
    """Compare the time of a step."""

    def steps() -> None:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()

    def under(who: str) -> Callable[[], int]:
        def run() -> int:
            with profiler_of(who):
                return timed_ns(steps)

        return run

    steps()
    variants = {"bare": lambda: timed_ns(steps), "ours": under("ours"), "torch": under("torch")}
    typical = interleaved_ns(variants, ROUNDS, median)
    bare, ours, theirs = (typical[who] / STEPS for who in ("bare", "ours", "torch"))
    slower, added = ours / bare, (ours - bare) / (theirs - bare)
    shown = (seconds(ours / 1e9), seconds(theirs / 1e9))
    return [
        Row(
            "step, operators + CUDA, over bare", *shown, f"{slower:.2f}×", "≤ 1.25×", slower <= 1.25
        ),
        Row("the same, time added", *shown, f"{added:.2f}×", "≤ 0.5×", added <= 0.5),
    ]


def table_row(step: Callable[[], None]) -> Row:
    """Compare the time from stop() to the first table."""

    def until_table(who: str) -> tuple[float, int]:
        prof = profiler_of(who)
        prof.start()
        for _ in range(EVENTS // 950):
            step()
        torch.cuda.synchronize()
        began = time.perf_counter()
        prof.stop()
        prof.key_averages().table(sort_by="self_cuda_time_total", row_limit=10)
        return time.perf_counter() - began, len(prof.events())

    ours = [until_table("ours") for _ in range(3)]
    theirs = until_table("torch")
    best = min(taken for taken, _ in ours)
    ratio = theirs[0] / best
    what = f"stop() + table, {ours[0][1] // 1000}k events"
    return Row(what, seconds(best), seconds(theirs[0]), f"{ratio:.0f}×", "≥ 100×", ratio >= 100)


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
    shown = [str(counts[who].total()) for who in ("ours", "torch")]
    return Row("kernels, names and counts", *shown, "equal" if same else "differ", "equal", same)


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
    kept, lost = len(prof.trace.slices), prof.trace.losses.events
    whole = np.isclose(kept + lost, 2_000_000, atol=4)
    return Row(
        "1M kernels: events kept + lost", f"{kept} + {lost}", "", "", "2,000,000", bool(whole)
    )


def rows() -> list[Row]:
    """Compare everything."""
    step = training_step()
    for _ in range(20):
        step()
    return [*step_rows(step), table_row(step), equal_row(step), million_row()]
