"""Runs made by hand: steps of some operators, whose times are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from made_trace import Call, trace_of_calls

if TYPE_CHECKING:
    from stepscope.trace.model import Trace


def run(
    *,
    steps: int = 40,
    step_us: int = 1000,
    ops: int = 5,
    reads: int = 0,
    slow: int = 0,
    seed: int = 0,
) -> Trace:
    """Return a run with marked steps: a step has ``ops`` additions, and reads some values."""
    noise = np.random.default_rng(seed).normal(0, step_us / 100, steps).astype(int)
    calls, at = [], 0
    for number in range(steps):
        end = at + step_us + slow + int(noise[number])
        calls.append(Call(f"ProfilerStep#{number}", at, end, "user_annotation"))
        calls += [Call("aten::add", at + 10 * i + 1, at + 10 * i + 9) for i in range(ops)]
        read_at = at + 10 * ops + 10
        for i in range(reads):
            begin = read_at + 10 * i
            calls.append(
                Call(
                    "aten::_local_scalar_dense",
                    begin,
                    begin + 5,
                    stack=("train.py(11): train", "train.py(20): <module>"),
                )
            )
        if slow:
            calls.append(Call("aten::sort", end - slow - 300, end - 300))
        at = end
    return trace_of_calls(calls)
