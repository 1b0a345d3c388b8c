"""Holds the roofline and the peak of memory against plain measurements, on a machine with a GPU.

An 8192^3 bfloat16 product and a copy of 1 GiB, measured twice: by the roofline of a recording, and
by CUDA events around the same calls without any profiler. Prints the difference in percent, and
whether the peak of memory is torch's to the byte. Exits with 1 where a bar is missed.

    python3 benchmarks/gpu_roofline.py            # 3 % and to the byte
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import stepscope
from stepscope.analysis import flops_of, memory_peak, roofline
from stepscope.cli.base.device import device_text
from stepscope.units import duration_text, scaled_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.analysis import Roofline
    from stepscope.trace.model import Trace

SIDE = 8192
COPY_BYTES = 1 << 30
RUNS = 20
WARM_UP = 10
BAR = 0.03


@dataclass(frozen=True)
class Task:
    """One call, and what it amounts to."""

    name: str  # the operator in the trace
    run: Callable[[], Any]
    amount: float  # operations or bytes of a call
    unit: str


def tasks(torch: Any) -> list[Task]:
    rest, right = (torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(rest)
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return [
        Task("aten::mm", lambda: torch.mm(rest, right, out=out), 2.0 * SIDE**3, "FLOP/s"),
        Task("aten::copy_", lambda: target.copy_(source), 2.0 * COPY_BYTES, "B/s"),
    ]


def by_events(torch: Any, task: Task) -> float:
    """Return the usual time of a call in seconds, between two CUDA events."""
    marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(RUNS)]
    for _ in range(WARM_UP):
        task.run()
    for begin, end in marks:
        begin.record()
        task.run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in marks) * 1e-3


def recorded(torch: Any, task: Task) -> Trace:
    for _ in range(WARM_UP):
        task.run()
    torch.cuda.synchronize()
    activities = [stepscope.ProfilerActivity.CPU, stepscope.ProfilerActivity.CUDA]
    with stepscope.profile(activities=activities, record_shapes=True) as prof:
        for _ in range(RUNS):
            task.run()
        torch.cuda.synchronize()
    return prof.trace


def compared(torch: Any, task: Task) -> bool:
    """Print what both say of a call; return whether they agree."""
    seconds = [by_events(torch, task)]
    trace = recorded(torch, task)
    seconds.append(by_events(torch, task))  # clocks change: before and after
    plain = task.amount / statistics.mean(seconds)
    rows: Roofline = roofline(trace)
    row = rows.operator.index(task.name)
    rates = rows.flops_per_second if task.unit == "FLOP/s" else rows.bytes_per_second
    result = float(rates[row])
    error = result / plain - 1
    item = duration_text(float(rows.device_ns[row]) / int(rows.calls[row]))
    print(
        f"{task.name:<12} roofline {scaled_text(result, task.unit)} ({item} a call, "
        f"{rows.share[row]:.1%} of its roof by {rows.limit[row] or 'no peak'}), "
        f"CUDA events {scaled_text(plain, task.unit)}: error {error:+.2%}"
    )
    print(device_text(trace, "roofline", 5))
    return abs(error) <= BAR and int(rows.calls[row]) == RUNS


def flops_agree(torch: Any) -> bool:
    """Compare the operations of a small network's step with torch's own count."""
    from torch.utils.flop_counter import FlopCounterMode

    heads = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, device="cuda")
    image = torch.nn.Conv2d(3, 16, 3, padding=1, device="cuda")
    words = torch.randn(4, 64, 256, device="cuda")
    pixels = torch.randn(2, 3, 32, 32, device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            (heads(words).sum() + image(pixels).sum()).backward()

    step()
    with FlopCounterMode(display=False) as counter:
        step()
    activities = [stepscope.ProfilerActivity.CPU, stepscope.ProfilerActivity.CUDA]
    with stepscope.profile(activities=activities, record_shapes=True) as prof:
        step()
        torch.cuda.synchronize()
    trace = prof.trace
    ours = sum(
        int(flops)
        for row, flops in enumerate(flops_of(trace))
        if flops and any(word in trace.name_of(row) for word in ("mm", "conv", "attention"))
    )
    theirs = counter.get_total_flops()
    print(f"operations   {ours:,} by Stepscope, {theirs:,} by FlopCounterMode")
    return ours == theirs


def memory_agrees(torch: Any) -> bool:
    """Compare the peak of a training step with the allocator's own."""
    model = torch.nn.Sequential(
        *(torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.GELU()) for _ in range(6))
    ).cuda()
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(torch.randn(512, 2048, device="cuda")).square().mean().backward()
        optimizer.step()

    step()  # what was there before the recording counts, too
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    activities = [stepscope.ProfilerActivity.CPU, stepscope.ProfilerActivity.CUDA]
    with stepscope.profile(activities=activities, profile_memory=True) as prof:
        for _ in range(3):
            step()
        torch.cuda.synchronize()
    theirs = torch.cuda.max_memory_allocated()
    peak = memory_peak(prof.trace, "cuda:0")
    ours = peak.bytes if peak else 0
    print(
        f"peak memory  {ours:,} bytes by Stepscope, {theirs:,} by torch: off by {ours - theirs:,}"
    )
    return ours == theirs


def main() -> int:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    import torch

    if not torch.cuda.is_available():
        print("this needs a GPU that torch can use", file=sys.stderr)
        return 2
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    checks = [compared(torch, task) for task in tasks(torch)]
    torch.cuda.empty_cache()
    checks += [flops_agree(torch), memory_agrees(torch)]
    print("all bars met" if all(checks) else "a bar was missed")
    return 0 if all(checks) else 1


if __name__ == "__main__":
    sys.exit(main())
