"""The program's lines whose kernels and copies keep devices busy.

An operator with a recorded stack tells its line. Where stacks were sampled, a device that limits
the program leaves the host little to be sampled in each single operator, but steps repeat: all
calls of an operator from the same place of the call tree share the lines that samples saw in them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.intervals import union
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import around
from stepscope.analysis.calls.launches import captured_nodes
from stepscope.analysis.calls.module_calls import forward_rows
from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.code.sampled_stacks import own_path, sampled_stacks
from stepscope.analysis.steps.steps import steady_steps, step_table
from stepscope.analysis.work.work import device_work
from stepscope.trace.model import NO_PARENT, NO_SLICE, NO_STACK, Float64, Int64, SliceKind, Trace

Path = tuple[Place, ...]
Weights = dict[Hashable, dict[Path, float]]


def device_lines(trace: Trace) -> dict[Place, float]:
    """Return the device time of each line in an average steady step; without steps, in the run.

    What the backward pass does for an operator counts for the operator's line. What cannot be tied
    to a line is left out.
    """
    work, slices = device_work(trace), trace.slices
    steps, steady = step_table(trace), steady_steps(trace)
    launcher = work.operator[work.rows]
    captured = captured_nodes(trace)[work.rows]
    origin = np.where(captured != NO_SLICE, captured, launcher)
    counted = origin != NO_SLICE
    began = np.where(work.call != NO_SLICE, work.call, origin)
    origin = _forward(trace, origin)
    if len(steps):
        time = union(steps.start_ns[steady], steps.end_ns[steady])
        counted &= time.contain(slices.start_ns[began])
    times: defaultdict[Place, float] = defaultdict(float)
    for path, ns in launching_paths(trace, origin[counted], work.duration_ns[counted]).items():
        times[path[-1]] += ns / max(int(steady.sum()), 1)
    return dict(times)


def launching_paths(trace: Trace, operators: Int64, ns: NDArray[np.generic]) -> dict[Path, float]:
    """Divide device time among the program's frames that called the operators.

    The outermost frame comes first.
    """
    rows, which = np.unique(operators, return_inverse=True)
    each_ns = np.bincount(which.reshape(-1), ns, len(rows))
    has_stack = trace.slices.stack[rows] != NO_STACK
    times: defaultdict[Path, float] = defaultdict(float)
    for path, spent in (
        *_by_stack(trace, rows[has_stack], each_ns[has_stack]),
        *_by_samples(trace, rows[~has_stack], each_ns[~has_stack]),
    ):
        times[path] += spent
    return dict(times)


def _forward(trace: Trace, rows: Int64) -> Int64:
    """Return the forward operators of slices in the backward pass, and the others as they are."""
    tied_to = forward_rows(trace)
    function = around(trace.slices.parent, rows, tied_to != NO_SLICE, itself=True)
    return np.where(function != NO_SLICE, tied_to[function], rows)


def _by_stack(trace: Trace, rows: Int64, ns: Float64) -> Iterator[tuple[Path, float]]:
    """Yield the frames of operators whose own stack was recorded."""
    stacks, which = np.unique(trace.slices.stack[rows], return_inverse=True)
    sums = np.bincount(which.reshape(-1), ns, len(stacks))
    for stack, spent in zip(stacks.tolist(), sums.tolist(), strict=True):
        if path := own_path(trace, stack):
            yield path, spent


def _by_samples(trace: Trace, rows: Int64, ns: Float64) -> Iterator[tuple[Path, float]]:
    """Yield the frames that samples saw in calls of the same operators."""
    if not len(rows) or not len(trace.samples):
        return
    weights = _sampled_paths(trace)
    for keys, spent in zip(_keys(trace, rows), ns.tolist(), strict=True):
        paths = next((weights[key] for key in keys if key in weights), {})
        whole = sum(paths.values())
        for path, weight in paths.items():
            yield path, spent * weight / whole


@shared
def _sampled_paths(trace: Trace) -> Weights:
    """Return how long samples saw each path in operators, by each of the operators' keys."""
    samples, stacks = trace.samples, sampled_stacks(trace)
    seen = np.flatnonzero(samples.slice != NO_SLICE)
    slices = trace.slices
    is_operator = slices.kind == SliceKind.OPERATOR
    inside = around(slices.parent, samples.slice[seen], is_operator, itself=True)
    seen, inside = seen[inside != NO_PARENT], inside[inside != NO_PARENT]
    weights: defaultdict[Hashable, defaultdict[Path, float]]
    weights = defaultdict(lambda: defaultdict(float))
    for keys, stack, weight in zip(
        _keys(trace, inside),
        samples.stack[seen].tolist(),
        samples.duration_ns[seen].tolist(),
        strict=True,
    ):
        path = stacks[stack].own
        for key in keys if path else ():
            weights[key][path] += weight
    return {key: dict(paths) for key, paths in weights.items()}


def _keys(trace: Trace, rows: Int64) -> Iterator[tuple[Hashable, ...]]:
    """Yield keys for a call's place in the call tree, the most exact first."""
    slices = trace.slices
    parent = slices.parent[rows]
    above = np.where(parent != NO_PARENT, slices.name[parent], 0)
    outermost = slices.name[_outermost(trace, rows)]
    yield from (
        ((name, over, outer), (name, outer), outer)
        for name, over, outer in zip(
            slices.name[rows].tolist(), above.tolist(), outermost.tolist(), strict=True
        )
    )


def _outermost(trace: Trace, rows: Int64) -> Int64:
    """Return the outermost operator around each of some slices, or the slice itself."""
    slices, outermost = trace.slices, rows.astype(np.int64)
    climbing = np.arange(len(outermost))
    while len(climbing):
        parent = slices.parent[outermost[climbing]]
        is_operator = (parent != NO_PARENT) & (slices.kind[parent] == SliceKind.OPERATOR)
        climbing, parent = climbing[is_operator], parent[is_operator]
        outermost[climbing] = parent
    return outermost
