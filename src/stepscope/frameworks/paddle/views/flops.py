"""Writes the layers, operators, times and flops that follow a summary ``with_flops``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepscope.analysis.base.tree import ids_where
from stepscope.analysis.flops.count import flops_of
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.views.forest import Forest
from stepscope.text.layout import printable
from stepscope.trace.model import Bool, Int64, Trace

_WIDTH = 100
_TIMES = {"s": 1e9, "ms": 1e6, "us": 1e3}
_COUNTS = {"T": 1e12, "G": 1e9, "M": 1e6, "K": 1e3}
_ENDINGS = (" compute", " dygraph", " pybind_imperative_func")  # suffixes of operators in Paddle


def flops_text(trace: Trace) -> str:
    """Return the layers of the first forward pass, between Paddle's two rules.

    Paddle's own text is empty: it has no shapes to count from, and skips the first thread.
    """
    lines = [
        f"{'  ' * row.level}{_plain(row.name)} latency: {_scaled(row.duration_ns, _TIMES, 'ns')}, "
        f"FLOPs: {_scaled(row.flops, _COUNTS)}, "
        f"FLOPS: {_scaled(row.flops * 1e9 / max(row.duration_ns, 1), _COUNTS)}"
        for row in layer_rows(trace)
    ]
    begin, end = " Flops Profiler Begin ", "- Flops Profiler End -"
    body = lines or ["No layer was recorded."]
    return "".join(
        f"{line}\n" for line in [begin.center(_WIDTH, "-"), *body, end.center(_WIDTH, "-")]
    )


def _plain(name: str) -> str:
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return printable(name)


def _scaled(value: float, units: Mapping[str, float], least: str = "") -> str:
    """Format a number with the largest unit in which it is at least one."""
    for unit, size in units.items():
        if value >= size:
            return f"{round(value / size, 2)} {unit}"
    return f"{round(value, 2)} {least}".rstrip()


# ---- the rows

_GRADIENT = "GradNode"  # part of the names of backward functions


class LayerRow(NamedTuple):
    """A call of a layer or an operator."""

    name: str
    level: int  # the number of layers around it
    duration_ns: int
    flops: int  # including its children


def layer_rows(trace: Trace, *, passes: int = 1) -> list[LayerRow]:
    """Return the calls of a model's forward passes, by time.

    Only the thread of the first layer counts, and so many passes: one ends where the first
    outermost layer is called again.
    """
    forest = Forest(trace)
    layers = forest.of_type(TracerEventType.Forward)
    if not len(layers):
        return []
    rows = _shown(forest)
    rows = rows[trace.slices.track[rows] == trace.slices.track[layers[0]]]
    rows = rows[rows >= layers[0]]
    level = forest.counted_down(forest.types == TracerEventType.Forward)[rows]
    flops = forest.summed_up(flops_of(trace))
    again = np.flatnonzero((trace.slices.name[rows] == trace.slices.name[rows[0]]) & (level == 0))
    if len(again) > passes:
        rows, level = rows[: again[passes]], level[: again[passes]]
    return [
        LayerRow(trace.name_of(row), depth, duration_ns, count)
        for row, depth, duration_ns, count in zip(
            rows.tolist(),
            level.tolist(),
            trace.slices.duration_ns[rows].tolist(),
            flops[rows].tolist(),
            strict=True,
        )
    ]


def _shown(forest: Forest) -> Int64:
    """Return layers and outermost operators of forward passes."""
    slices = forest.trace.slices
    other: Bool = np.zeros(len(slices), np.bool_)
    other[forest.of_type(TracerEventType.Backward, TracerEventType.Optimization)] = True
    gradients = ids_where(slices.name, forest.trace.strings, lambda name: _GRADIENT in name)
    other |= np.isin(slices.name, gradients)
    closed = other.copy()
    closed[forest.of_type(TracerEventType.Operator)] = True
    rows = forest.of_type(TracerEventType.Forward, TracerEventType.Operator)
    return rows[~forest.inside(closed)[rows] & ~other[rows]]
