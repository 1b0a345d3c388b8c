"""The tree that a file states, where times alone would give a different one.

Events of a thread may overlap, and events without a duration stand where one ends and the next
begins: only the file knows whose children they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stepscope import _native
from stepscope.trace.model import NO_PARENT, NO_SLICE

if TYPE_CHECKING:
    from stepscope.frameworks.paddle.columns import PaddleFile
    from stepscope.trace.model import Int32, Int64, Slices, Trace


def nested_as_told(trace: Trace, found: PaddleFile) -> Trace:
    """Return the trace of a file with the parents that the file tells.

    What it does not tell stays as times say; so does what cannot be: a parent that begins after its
    child, or on another thread.
    """
    if not _is_ambiguous(trace):
        return trace
    raw = found.captured.slices
    order = _native.slice_order(raw.start_ns, raw.duration_ns)
    told = found.parent if order is None else found.parent[order]
    row_of = np.arange(len(told))
    if order is not None:
        row_of[order] = np.arange(len(told))
    slices = _nested(trace.slices, _renumbered(told, row_of))
    memory = trace.memory
    if len(memory):
        by_time = np.argsort(found.captured.memory.time_ns, kind="stable")
        owner = _renumbered(found.memory_parent[by_time], row_of)
        owner = np.where(owner >= NO_PARENT, owner, memory.slice)
        owner = np.where(owner == NO_PARENT, NO_SLICE, owner)
        memory = replace(memory, slice=owner.astype(np.int32))
    return replace(trace, slices=slices, memory=memory)


def _is_ambiguous(trace: Trace) -> bool:
    """Tell whether times could make another tree than the file has."""
    slices = trace.slices
    if "overlapping slices" in trace.info.anomalies or (slices.duration_ns == 0).any():
        return True
    alike = (np.diff(slices.start_ns) == 0) & (np.diff(slices.duration_ns) == 0)
    return bool(alike.any())


def _renumbered(told: Int64, row_of: Int64) -> Int64:
    return np.where(told >= 0, row_of[told], told)


def _nested(slices: Slices, told: Int64) -> Slices:
    rows = np.arange(len(told))
    above = np.maximum(told, 0)
    can_be = (told == NO_PARENT) | ((told < rows) & (slices.track[above] == slices.track))
    parent = np.where((told >= NO_PARENT) & can_be, told, slices.parent).astype(np.int32)
    if np.array_equal(parent, slices.parent):
        return slices
    inside = np.flatnonzero(parent != NO_PARENT)
    below_ns = np.zeros(len(parent), np.int64)
    np.add.at(below_ns, parent[inside], slices.duration_ns[inside])
    self_ns = np.maximum(slices.duration_ns - below_ns, 0)
    return replace(slices, parent=parent, depth=_depths(parent), self_ns=self_ns)


def _depths(parent: Int32) -> Int32:
    depth = np.zeros(len(parent), np.int32)
    inside = np.flatnonzero(parent != NO_PARENT)
    while len(inside):
        deeper = depth[parent[inside]] + 1
        inside, deeper = inside[changed := deeper != depth[inside]], deeper[changed]
        depth[inside] = deeper
    return depth
