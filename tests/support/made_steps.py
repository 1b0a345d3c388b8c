"""Traces of marked steps, written down by hand, for comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from made_trace import Call, Sample, trace_of_calls

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

STEP = 1_000  # µs

BASE = [("net.first", "aten::mm", 200), ("net.second", "aten::mm", 300), ("", "aten::add", 50)]


def steps(
    calls: list[tuple[str, str, int]], count: int = 12, line: int = 7, longer: int = 0
) -> Trace:
    """Make marked steps of operators, each in a module (or none), one after the other.

    Between them runs a line of Python, of which samples are taken.
    """
    made: list[Call] = []
    samples: list[Sample] = []
    for i in range(count):
        start = i * (STEP + longer)
        made.append(Call(f"ProfilerStep#{i}", start, start + STEP + longer, "user_annotation"))
        at = start + 10
        for module, operator, took in calls:
            if module:
                made.append(Call(module, at, at + took + 4, "module"))
            made.append(Call(operator, at + 2, at + 2 + took))
            at += took + 10
        frames = (f"train.py({line}): main",)
        samples += [Sample(at + 20 * k, at + 20 * k + 20, frames) for k in range(4)]
    return trace_of_calls(made, samples=samples)
