"""Runs a step under everything that counts its flops."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import stepscope
from made_trace import Call, trace_of_calls
from stepscope.analysis.flops.count import flops_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import Trace

# What torch.utils.flop_counter knows, under the names that a trace has for it.
PRODUCTS = {
    *(f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "_addmm_activation")),
    *(f"aten::conv{rank}d" for rank in (1, 2, 3)),
    *(f"aten::conv_transpose{rank}d" for rank in (1, 2, 3)),
    *(f"aten::{name}" for name in ("convolution", "convolution_backward")),
}


@dataclass(frozen=True)
class Counted:
    """The flops of one step by operator: ours, and torch.profiler's."""

    ours: Counter[str]
    profiler: Counter[str]
    trace: Trace

    def of(self, *names: str) -> int:
        return sum(self.ours[name] for name in names)

    @property
    def products(self) -> int:
        return self.of(*PRODUCTS)

    @property
    def total(self) -> int:
        return sum(self.ours.values())


def counted(step: Callable[[], Any], folder: Path) -> Counted:
    """Record one step with torch.profiler, and count what its file says."""
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True
    ) as profiler:
        step()
    path = folder / "trace.json"
    profiler.export_chrome_trace(str(path))
    trace = stepscope.read_trace(path)
    theirs: Counter[str] = Counter()
    for event in profiler.events():
        theirs[event.name] += event.flops or 0
    return Counted(by_name(trace), +theirs, trace)


def by_name(trace: Trace) -> Counter[str]:
    flops = flops_of(trace)
    sums: Counter[str] = Counter()
    for row in np.flatnonzero(flops):
        sums[trace.name_of(int(row))] += int(flops[row])
    return sums


def flop_counter(step: Callable[[], Any]) -> int:
    """Return what torch.utils.flop_counter counts."""
    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_total_flops())


def training(module: torch.nn.Module, *shape: int) -> Callable[[], None]:
    """Return a step: forward and backward, down to the input."""
    given = torch.randn(*shape, requires_grad=True)

    def step() -> None:
        output = module(given)
        (output[0] if isinstance(output, tuple) else output).sum().backward()

    return step


def fragment(dims: Any, concrete: Any = None, types: Any = None) -> str:
    """Write the arguments of an operator as torch does."""
    pairs = {"Input Dims": dims, "Input type": types, "Concrete Inputs": concrete}
    return json.dumps({key: value for key, value in pairs.items() if value is not None})[1:-1]


def one_call(name: str, rest: str) -> int:
    """Return the flops of a single operator."""
    return int(flops_of(trace_of_calls([Call(name, 0, 10, rest=rest)]))[0])
