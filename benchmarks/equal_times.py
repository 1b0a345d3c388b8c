"""How close our times are to torch.profiler's, both recording the same training steps.

torch calls its observers one after the other, in the same order at an operator's begin and at its
end. Both recorders thus see the same stretch, shifted by the other's cost, and both times hold the
costs of both for every operator inside. So durations are compared, call by call, and not self
times, in which those costs would fall apart. What a busy machine runs between two readings of the
clock is in one of the times only: the figure is that of a quiet machine.
"""

from __future__ import annotations

import json
import sys

import torch
from common import in_children
from rows import Row, limit_row

import stepscope

PROCESSES = 5
STEPS = 30
APART_SHARE, APART_NS = 0.05, 2_000  # a call counts as equal within either of them
BAR = 0.1


def measure(steps: int) -> dict[str, float]:
    """Return the share of calls whose two times are apart."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters())
    inputs = torch.randn(32, 64)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()

    with stepscope.profile():  # what is done once in a process is done before
        step()
    theirs = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with theirs, stepscope.profile() as ours:
        for _ in range(steps):
            step()
    raw = [e for e in theirs.profiler.kineto_results.events() if not e.is_hidden_event()]
    raw.sort(key=lambda event: (event.start_ns(), -event.end_ns()))
    assert [event.name() for event in raw] == list(ours.trace.names())
    apart = sum(
        abs(mine_ns - event.duration_ns()) > max(APART_SHARE * event.duration_ns(), APART_NS)
        for mine_ns, event in zip(ours.trace.slices.duration_ns.tolist(), raw, strict=True)
    )
    return {"calls": len(raw), "apart": apart / len(raw)}


def rows(quick: bool = False) -> list[Row]:
    """Compare, in processes of their own."""
    runs = in_children(2 if quick else PROCESSES, "equal_times", str(STEPS))
    what = f"calls whose time is not torch.profiler's within 5 % or 2 µs, of {runs[0]['calls']}"
    return [limit_row(what, [run["apart"] for run in runs], BAR, lambda share: f"{share:.1%}")]


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
