"""The program of ``benchmarks/diff.py``: a small training loop, with a slowdown planted or not.

A run is a forked child of a process that has imported torch already: a fresh process each, with
memory, caches and scheduling of its own, at a tenth of the price of starting Python.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = 200
WARM_UP = 20


class Model(nn.Module):
    """Three layers; a plant adds work to the second or beside it."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.first = nn.Linear(128, 256)
        self.second = nn.Linear(256, 256)
        self.third = nn.Linear(256, 16)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return 16 numbers a row."""
        return self.third(torch.relu(self.second(torch.relu(self.first(rows)))))


def train(steps: int, plant: str = "", amount: int = 0) -> list[int]:
    """Train for some steps; return when each ended."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows, wanted = torch.randn(48, 128), torch.randn(48, 16)
    do_planted = planted(plant, amount)
    slow = plant == "slower operator"
    ends = []
    for _ in range(steps):
        optimizer.zero_grad()
        if slow:
            noise = torch.cumsum(torch.ones(20_000 + amount), 0)
        else:
            noise = torch.cumsum(torch.ones(20_000), 0)
        do_planted()
        loss = ((model(rows) - wanted) ** 2).mean() + 0 * noise[0]
        loss.backward()
        optimizer.step()
        ends.append(time.monotonic_ns())
    return ends


def planted(plant: str, amount: int) -> Callable[[], object]:
    """Return what a step does besides: one operator more, a loop, or nothing."""
    if plant == "extra operator":
        values = torch.rand(max(amount, 1))
        return lambda: torch.erf(values)
    if plant == "Python loop":
        return lambda: _count(amount)
    return lambda: None


def _count(number: int) -> int:
    total = 0
    for i in range(number):
        total += i & 3
    return total


def in_child(work: Callable[[], None]) -> None:
    """Do something in a forked process, and wait for it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(f"a run failed with status {status}")


def record(path: Path, plant: str = "", amount: int = 0) -> None:
    """Run the program as ``stepscope run`` does, and save its trace."""
    from stepscope.record.options import RecordOptions
    from stepscope.record.recorder import Recorder
    from stepscope.record.session import Session
    from stepscope.record.source import known_options, make_sources

    defaults = {
        name: option.run_default
        for name, option in known_options().items()
        if option.run_default is not None
    }
    session = Session(Recorder(make_sources(RecordOptions(**defaults), None), None))
    session.start()
    train(STEPS + WARM_UP, plant, amount)
    session.stop()
    assert session.trace is not None
    session.trace.save(path)
