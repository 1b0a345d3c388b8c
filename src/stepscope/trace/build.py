"""Builds a Trace from the tables of a source or a reader: order, kinds, nesting, steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stepscope import _native
from stepscope.trace.crossing import nested
from stepscope.trace.kinds import WORK_KINDS, SliceFlags, SliceKind, kind_of_category, step_number
from stepscope.trace.model import with_info
from stepscope.trace.schema import (
    NO_PARENT,
    NO_SEQUENCE,
    NO_SLICE,
    NO_STEP,
    Captured,
    Held,
    Memory,
    Samples,
    Slices,
    TraceInfo,
    Uses,
)
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from stepscope.trace.model import Trace, Track
    from stepscope.trace.table import Bool, Int32, Int64, UInt8, UInt32

    BareKinds = Callable[[Slices, Sequence[Track], Strings], UInt8 | None]

_Events = TypeVar("_Events", Memory, Samples, Held, Uses)


def build(captured: Captured, info: TraceInfo, bare_kinds: BareKinds | None = None) -> Trace:
    """Order, classify and nest slices, number their steps, and assign memory to them.

    ``bare_kinds`` returns the kinds of slices without a category, None where it cannot tell.
    """
    raw = captured.slices
    order = _native.slice_order(raw.start_ns, raw.duration_ns)
    slices = raw if order is None else raw.take(order)
    bare = bare_kinds and bare_kinds(slices, captured.tracks, captured.strings)
    kind = _kinds(slices, captured.strings, bare)
    flags = np.ascontiguousarray(slices.flags)
    nesting, flags = nested(slices, kind, flags, captured.strings)
    parent, depth, self_ns, overlaps, _ = nesting
    if overlaps:
        info = replace(info, anomalies={**info.anomalies, "overlapping slices": overlaps})
    # Devices run work concurrently: overlapping work on a stream keeps all its time.
    self_ns = np.where(np.isin(kind, WORK_KINDS), slices.duration_ns, self_ns)
    slices = replace(
        slices,
        kind=kind,
        flags=flags,
        self_ns=self_ns,
        parent=parent,
        depth=depth,
        step=_steps(slices, kind, captured.strings),
        context=None,
        **_engine_ties(slices, parent),
    ).solid()
    memory = tied_to_slices(captured.memory, slices)
    samples = tied_to_slices(captured.samples, slices)
    held_blocks = tied_to_slices(captured.held, slices)
    uses = tied_to_slices(captured.uses, slices)
    tables = replace(
        captured, slices=slices, memory=memory, samples=samples, held=held_blocks, uses=uses
    )
    return with_info(tables, info)


def empty_trace() -> Trace:
    return build(Captured(Slices.empty(), (), Strings.of([""])), TraceInfo(""))


def since(captured: Captured, start_ns: int) -> Captured:
    """Drop what started before, except for memory that was allocated, its owners and uses."""
    return _of_times(
        captured, lambda times_ns: times_ns >= start_ns, staying=("held", "owners", "uses")
    )


def started_outside(captured: Captured, spans_ns: Sequence[tuple[int, int]]) -> Captured:
    """Drop what started within the spans, which are ordered and disjoint.

    Owners of memory stay, since they hold as long as the block exists. Marks stay, since devices
    are read once more when a pause begins, and again when it ends.
    """
    if not spans_ns:
        return captured
    begins, ends = np.array(spans_ns, np.int64).T

    def outside(times_ns: Int64) -> Bool:
        last = np.searchsorted(begins, times_ns, side="right") - 1
        mask: Bool = (last < 0) | (times_ns >= ends[last])
        return mask

    return _of_times(captured, outside, staying=("owners", "marks"))


def _of_times(
    captured: Captured, wanted: Callable[[Int64], Bool], staying: Collection[str]
) -> Captured:
    tables = {
        name: table.take(wanted(table.times_ns))
        for name, table in captured.tables().items()
        if name not in staying and table.times_ns is not None
    }
    return replace(captured, **tables)


def tied_to_slices(events: _Events, slices: Slices) -> _Events:
    """Order events by time, each with the innermost slice around it."""
    if not len(events):
        return events
    if (events.time_ns[1:] < events.time_ns[:-1]).any():
        events = events.take(np.argsort(events.time_ns, kind="stable"))
    return replace(events, slice=running_at(events.time_ns, events.track, slices))


def running_at(time_ns: Int64, track: UInt32, slices: Slices) -> Int32:
    """Return the innermost slice of a track around each moment, NO_SLICE for none."""
    innermost = np.full(len(time_ns), NO_SLICE, np.int32)
    ended_here = slices.flags & SliceFlags.ASYNC == 0
    for one_track in np.unique(track):
        rows = np.flatnonzero((slices.track == one_track) & ended_here)
        here = np.flatnonzero(track == one_track)
        at = np.searchsorted(slices.start_ns[rows], time_ns[here], side="right") - 1
        innermost[here[at >= 0]] = rows[at[at >= 0]]
    return _climbed_to_running(innermost, time_ns, slices)


def _engine_ties(slices: Slices, parent: Int32) -> dict[str, Any]:
    """Link the engine's slice around a backward function to the forward operator, too."""
    sequence, forward_thread = slices.sequence, slices.forward_thread
    inner = np.flatnonzero((slices.flags & SliceFlags.BACKWARD != 0) & (parent != NO_PARENT))
    inner = inner[(sequence[inner] >= 0) & (sequence[parent[inner]] == NO_SEQUENCE)]
    if not len(inner):
        return {}
    sequence, forward_thread = sequence.copy(), forward_thread.copy()
    sequence[parent[inner]] = sequence[inner]
    forward_thread[parent[inner]] = forward_thread[inner]
    return {"sequence": sequence, "forward_thread": forward_thread}


def _kinds(slices: Slices, strings: Strings, bare: UInt8 | None) -> UInt8:
    table = np.zeros(len(strings), np.uint8)
    for category in _native.present(slices.category):
        table[category] = kind_of_category(strings[int(category)])
    kind: UInt8 = table[slices.category]
    if bare is not None:
        kind = np.where(slices.category == 0, bare, kind)
    ranges = np.flatnonzero((kind == SliceKind.RANGE) | (kind == SliceKind.OPERATOR))
    is_step = np.zeros(len(strings), bool)
    for name in _native.present(slices.name[ranges]):
        is_step[name] = step_number(strings[int(name)]) is not None
    kind[ranges[is_step[slices.name[ranges]]]] = SliceKind.STEP
    return kind


def _steps(slices: Slices, kind: UInt8, strings: Strings) -> Int32:
    """Number every slice by the step in which it started, on any thread."""
    rows = np.flatnonzero(kind == SliceKind.STEP)
    numbers = np.array([step_number(strings[int(i)]) for i in slices.name[rows]], np.int32)
    return step_at(slices.start_ns, slices.start_ns[rows], slices.ends_of(rows), numbers)


def step_at(time_ns: Int64, start_ns: Int64, end_ns: Int64, numbers: Int32) -> Int32:
    """Return the number of the step around each moment; steps are ordered by start."""
    if not len(start_ns):
        return np.full(len(time_ns), NO_STEP, np.int32)
    at = np.searchsorted(start_ns, time_ns, side="right") - 1
    inside = (at >= 0) & (time_ns < end_ns[at])
    return np.where(inside, numbers[at], np.int32(NO_STEP))


def _climbed_to_running(rows: Int32, time_ns: Int64, slices: Slices) -> Int32:
    """Replace each slice that had ended by its nearest parent that had not."""
    end_ns = slices.end_ns
    over = np.flatnonzero(rows != NO_SLICE)
    while len(over := over[end_ns[rows[over]] < time_ns[over]]):
        rows[over] = slices.parent[rows[over]]
        over = over[rows[over] != NO_SLICE]
    return rows
