"""Layers of a model as they were called, the operators in them, and their floating-point work."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.tree import ids_where
from stepscope.frameworks.paddle.views.forest import Forest
from stepscope.trace.event_types import TracerEventType

if TYPE_CHECKING:
    from stepscope.trace.model import Bool, Int64, Trace

_GRADIENT = "GradNode"  # in the names of what belongs to a backward pass


class LayerRow(NamedTuple):
    """A call of a layer or an operator."""

    name: str
    level: int  # how many layers are around it
    duration_ns: int
    flops: int  # with all that is in it


def layer_rows(trace: Trace, *, passes: int = 1) -> list[LayerRow]:
    """Return what the forward passes of a model called, in the order of time.

    Only the thread of the first layer counts, and as many passes as are wanted: one ends where the
    outermost layer that came first is called again.
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
    """Return layers, and operators that are not in another one, of forward passes."""
    slices = forest.trace.slices
    other: Bool = np.zeros(len(slices), np.bool_)
    other[forest.of_type(TracerEventType.Backward, TracerEventType.Optimization)] = True
    gradients = ids_where(slices.name, forest.trace.strings, lambda name: _GRADIENT in name)
    other |= np.isin(slices.name, gradients)
    closed = other.copy()
    closed[forest.of_type(TracerEventType.Operator)] = True
    rows = forest.of_type(TracerEventType.Forward, TracerEventType.Operator)
    return rows[~forest.inside(closed)[rows] & ~other[rows]]
