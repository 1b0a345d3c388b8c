"""The operators of an average step: what the first table shows.

Only the steady steps count, and the threads that work for them. Without steps it is the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope import _native
from stepscope.analysis.base.intervals import union
from stepscope.analysis.base.sums import with_children
from stepscope.analysis.base.table import Table
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.steps.parts import host_parts
from stepscope.analysis.steps.phases import import_rows
from stepscope.analysis.steps.steps import steady_steps, step_table
from stepscope.analysis.work.work import device_work
from stepscope.trace.measures import Sums, measured
from stepscope.trace.model import NO_PARENT, Bool, Float64, Int64, SliceFlags, SliceKind, Trace

_WHOLE = 0.9
# The kinds to compare by; a trace without operators and ranges has functions or others.
_SHOWN = ((SliceKind.OPERATOR, SliceKind.RANGE), (SliceKind.PYTHON,), (SliceKind.OTHER,))


@dataclass(frozen=True, slots=True)
class StepOperators(Table):
    """One row per name, the longest first, with the times and calls of an average step."""

    name: tuple[str, ...]
    self_ns: Float64
    total_ns: Float64  # nested calls of one name count once
    device_ns: Float64  # of the work that it launched itself
    calls: Float64
    measures: Mapping[str, Float64]  # added ones, of the slice and of the work that it launched


def step_operators(trace: Trace) -> StepOperators:
    """Return what ran in an average steady step."""
    slices = trace.slices
    steps, steady = step_table(trace), steady_steps(trace)
    count = max(int(steady.sum()), 1)
    wanted = np.zeros(len(slices), np.bool_)
    for kinds in _SHOWN:
        if not wanted.any():
            wanted = np.isin(slices.kind, kinds) & (slices.flags & SliceFlags.ASYNC == 0)
            wanted[import_rows(trace)] = False
    inside = wanted & ~_spans_all(trace)
    wanted = inside if inside.any() else wanted
    if len(steps):
        time = union(steps.start_ns[steady], steps.end_ns[steady])
        wanted &= time.contain(slices.start_ns) & _of_steps(trace)
    rows = np.flatnonzero(wanted)
    again = _inside_same_name(trace, wanted)[rows]
    names, which = np.unique(slices.name[rows], return_inverse=True)
    which = which.reshape(-1)

    def summed(values: NDArray[np.generic]) -> Float64:
        return np.bincount(which, values.astype(np.float64), len(names)) / count

    self_ns = summed(slices.self_ns[rows])
    total_ns = summed(np.where(again, 0, slices.duration_ns[rows]))
    whole_ns = (slices.ends_of(rows).max() - slices.start_ns[rows].min()) if len(rows) else 0
    for name in np.flatnonzero(total_ns * count > whole_ns):  # tasks that take turns on a thread
        ran_ns = _ran_ns(trace, rows[which == name]) / count
        total_ns[name] = min(total_ns[name], ran_ns)
        self_ns[name] = min(self_ns[name], ran_ns)
    order = np.argsort(-self_ns, kind="stable")
    return StepOperators(
        tuple(trace.strings[int(name)] for name in names[order]),
        self_ns[order],
        total_ns[order],
        summed(_launched(trace, slices.duration_ns)[rows])[order],
        summed(np.ones(len(rows)))[order],
        {
            added.name: summed((values + _launched(trace, values))[rows])[order]
            for added, values in measured(slices)
            if added.sums is Sums.ADDED
        },
    )


def _ran_ns(trace: Trace, rows: Int64) -> float:
    """Return how long any of the slices ran, summed over threads."""
    slices = trace.slices
    tracks = slices.track[rows]
    return float(
        sum(
            union(slices.start_ns[mine], slices.ends_of(mine)).total_ns
            for mine in (rows[tracks == track] for track in np.unique(tracks))
        )
    )


def _spans_all(trace: Trace) -> Bool:
    """Return a mask of the range that `stepscope run` puts around the whole program."""
    slices, info = trace.slices, trace.info
    whole_ns = max(info.end_ns - info.start_ns, 1)
    spans_all: Bool = (slices.depth == 0) & (slices.kind == SliceKind.RANGE)
    return spans_all & (slices.duration_ns > _WHOLE * whole_ns)


def _of_steps(trace: Trace) -> Bool:
    """Return the slices of the steps' threads and of their backward threads."""
    slices, steps = trace.slices, step_table(trace)
    tracks = set(np.unique(steps.track).tolist())
    processes = {trace.tracks[track].pid for track in tracks}
    backward = np.unique(slices.track[host_parts(trace) == Part.BACKWARD]).tolist()
    tracks |= {track for track in backward if trace.tracks[track].pid in processes}
    is_of_steps: Bool = np.isin(slices.track, list(tracks))
    return is_of_steps


def _inside_same_name(trace: Trace, wanted: Bool) -> Bool:
    """Return a mask of the slices inside a wanted slice of the same name."""
    slices = trace.slices
    is_inside = _native.inside_same(slices.parent, slices.name, wanted.view(np.uint8))
    return is_inside.view(np.bool_)


def _launched(trace: Trace, values: Int64) -> Int64:
    """Return for each slice the sum of a column over the device work that it launched itself."""
    slices = trace.slices
    # A runtime call's is its operator's, too.
    handed = np.where(slices.kind == SliceKind.RUNTIME, slices.parent, NO_PARENT)
    return with_children(handed.astype(np.int32), device_work(trace).launched(values))
