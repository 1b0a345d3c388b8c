"""The slices that count as events, and how they nest.

torch.profiler hides some names, and folds a call and its only child into one event if both have
the same name. Module calls, which torch.profiler does not record, are hidden too. All of this
changes parents and hence self times; the Trace itself keeps every slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stepscope import _native
from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import around, summed
from stepscope.trace.model import (
    DEVICE_KINDS,
    NO_PARENT,
    Bool,
    Int32,
    Int64,
    SliceFlags,
    SliceKind,
    Trace,
    UInt8,
    UInt32,
)
from stepscope.trace.strings import Strings

_Scalar = TypeVar("_Scalar", bound=np.generic)

# Kineto's name for the slice that spans a whole recording; it is not an event.
SPAN_CATEGORY = "Trace"


@dataclass(frozen=True, slots=True)
class EventMemory:
    """Bytes allocated less bytes freed by each event of a CallTree."""

    cpu: Int64  # children included
    self_cpu: Int64
    device: Int64
    self_device: Int64


@dataclass(frozen=True, slots=True)
class CallTree:
    """Events as rows of slices. Host events nest, device events do not."""

    trace: Trace
    rows: UInt32 | None  # the slice of each event; None: event i is slice i
    parent: Int32  # the event that encloses it, always an earlier one; NO_PARENT at the top
    start_ns: Int64  # ascending
    self_ns: Int64  # duration without direct children; 0 for slices that end on another thread
    is_device: Bool | None  # None: all of them ran on the host
    memory: EventMemory | None = None  # None: not recorded, or not asked for

    def __len__(self) -> int:
        return len(self.parent)

    def of(self, column: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """Return a column of the slices, one value per event."""
        return column if self.rows is None else column.take(self.rows)

    def row(self, event: int) -> int:
        return event if self.rows is None else int(self.rows[event])

    def events_around(self, slices: Int32) -> Int32:
        """Return the innermost event that is or encloses each slice, NO_PARENT if none."""
        event = np.full(len(self.trace.slices) + 1, NO_PARENT, np.int32)  # the last for no slice
        event[slice(len(self)) if self.rows is None else self.rows] = np.arange(len(self))
        is_event = event[:-1] != NO_PARENT
        return event[around(self.trace.slices.parent, slices, is_event, itself=True)]

    def sums_of(self, values: Int64) -> Int64:
        """Sum a column of the slices by event; a folded slice counts for the event around it."""
        rows = np.flatnonzero(values).astype(np.int32)
        return summed(self.events_around(rows), values[rows], len(self))

    def children(self, event: int) -> Int64:
        """Return the direct children of an event, in time order."""
        slices = self.trace.slices
        row = self.row(event)
        end_ns = slices.start_ns[row] + slices.duration_ns[row]
        # A child starts no later than its parent ends, and events stand in the order of starts.
        last = int(np.searchsorted(self.start_ns, end_ns, side="right"))
        return np.flatnonzero(self.parent[event + 1 : last] == event) + event + 1


@shared
def call_tree(trace: Trace, *, modules: bool = False, fold: bool = True) -> CallTree:
    """Drop hidden slices, fold only children with their parent's name, and nest the rest.

    The calls of modules count as events only where ``modules`` asks for them. Without ``fold``,
    same-named only children stay.
    """
    slices = trace.slices
    is_device = _device_mask(trace)
    parent = slices.parent if is_device is None else np.where(is_device, NO_PARENT, slices.parent)
    drop = _hidden_mask(trace)
    if not modules:
        drop = _either(drop, _kind_mask(slices.kind, SliceKind.MODULE))
    if drop is not None:
        parent = _climbed(parent, drop)
    folded = _folded_rows(slices.name, parent, drop) if fold else ()
    if len(folded):
        drop = np.zeros(len(slices), np.bool_) if drop is None else drop
        drop[folded] = True
        parent = _climbed(parent, drop)
    self_ns = _without_async(slices.self_ns, slices.flags)
    if drop is None:
        return CallTree(trace, None, parent, slices.start_ns, self_ns, is_device)
    rows = np.flatnonzero(~drop).astype(np.uint32)
    return CallTree(
        trace,
        rows,
        _renumbered(parent.take(rows), drop),
        slices.start_ns.take(rows),
        _handed_up(self_ns, parent, drop).take(rows),
        None if is_device is None else is_device[rows],
    )


def levels(depth: Int32) -> Iterator[Int64]:
    """Yield the rows of each depth, the outermost first; there are few depths and many rows."""
    if not len(depth):
        return
    deepest = int(depth.max())
    # numpy sorts 16-bit integers in linear time
    order = np.argsort(depth.astype(np.int16) if deepest < 2**15 else depth, kind="stable")
    ends = np.cumsum(np.bincount(depth, minlength=deepest + 1))
    yield from np.split(order, ends[:-1])


def outermost(trace: Trace, rows: Int64) -> Int64:
    """Return those slices that are in none of the others."""
    if not len(rows):
        return rows
    marked = np.zeros(len(trace.slices), np.bool_)
    marked[rows] = True
    alone: Bool = around(trace.slices.parent, rows, marked) == NO_PARENT
    return rows[alone]


@shared
def framework_operators(trace: Trace) -> Bool:
    """Return a mask of a framework's own operators, judged by their names."""
    prefixes = landmarks().operator_prefixes
    return is_named(trace, lambda name: name.startswith(prefixes))


def rows_named(trace: Trace, wanted: Callable[[str], object]) -> Int64:
    return np.flatnonzero(is_named(trace, wanted))


def is_named(trace: Trace, wanted: Callable[[str], object]) -> Bool:
    return has_text(trace.slices.name, trace.strings, wanted)


def has_text(ids: UInt32, strings: Strings, predicate: Callable[[str], object]) -> Bool:
    """Return a mask of the ids whose text satisfies the predicate."""
    mask = _mask(ids, ids_where(ids, strings, predicate))
    return np.zeros(len(ids), np.bool_) if mask is None else mask


def ids_where(ids: UInt32, strings: Strings, predicate: Callable[[str], object]) -> Int64:
    """Return the distinct ids whose text satisfies the predicate (returns something truthy)."""
    present = distinct_ids(ids)
    texts = strings.texts_of(present.tolist())
    return present[np.fromiter(map(predicate, texts), np.bool_, len(texts))]


def distinct_ids(ids: UInt32) -> Int64:
    """Return the distinct ids of a column, ascending, without sorting it."""
    return _native.present(ids)


def _mask(ids: UInt32, wanted: Int64) -> Bool | None:
    if not len(wanted):
        return None
    table = np.zeros(int(ids.max()) + 1, np.bool_)  # there are few texts and many rows
    table[wanted] = True
    return table.take(ids)


def _hidden_mask(trace: Trace) -> Bool | None:
    slices, strings = trace.slices, trace.strings
    hidden = _mask(slices.name, ids_where(slices.name, strings, landmarks().hidden.__contains__))
    return _either(hidden, span_mask(trace))


def span_mask(trace: Trace) -> Bool | None:
    """Return a mask of the slices that span a whole recording; None if there are none."""
    category = trace.slices.category
    return _mask(category, ids_where(category, trace.strings, SPAN_CATEGORY.__eq__))


def _either(one: Bool | None, other: Bool | None) -> Bool | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _device_mask(trace: Trace) -> Bool | None:
    return _kind_mask(trace.slices.kind, *DEVICE_KINDS)


def _kind_mask(kind: UInt8, *wanted: SliceKind) -> Bool | None:
    """Return a mask of the slices of the wanted kinds; None if there are none."""
    if not len(kind) or kind.max() < min(wanted):
        return None
    table = np.zeros(256, np.bool_)
    table[list(wanted)] = True
    mask = table.take(kind)
    return mask if mask.any() else None


def _climbed(parent: Int32, drop: Bool) -> Int32:
    """Return each row's nearest ancestor that is not dropped."""
    parent = parent.copy()
    below = _below(parent, drop)
    while len(below):
        parent[below] = parent[parent[below]]
        below = below[_below(parent[below], drop)]
    return parent


def _below(parent: Int32, marked: Bool) -> Int64:
    """Return the rows whose parent is marked."""
    inside = marked.take(parent, mode="clip")
    inside &= parent >= 0  # "clip" reads the first row for rows without a parent
    return np.flatnonzero(inside)


def _folded_rows(name: UInt32, parent: Int32, drop: Bool | None) -> Int64:
    """Return the rows that are the only child of a parent with the same name.

    Folding one never makes or unmakes another: the grandchildren that a fold hands up were the only
    child of a same-named slice before exactly when they are after.
    """
    same = name.take(parent, mode="clip") == name
    same &= parent >= 0
    if drop is not None:
        same &= ~drop
    candidates = np.flatnonzero(same)
    if not len(candidates):
        return candidates
    asked = np.zeros(len(parent), np.bool_)
    asked[parent[candidates]] = True
    siblings = _below(parent, asked)
    if drop is not None:
        siblings = siblings[~drop[siblings]]
    children = np.bincount(parent[siblings])
    alone: Bool = children[parent[candidates]] == 1
    return candidates[alone]


def _renumbered(parent: Int32, drop: Bool) -> Int32:
    """Turn slice rows into event indices."""
    index = np.cumsum(~drop, dtype=np.int32)
    index -= 1
    renumbered = index.take(parent, mode="clip")
    renumbered[parent < 0] = NO_PARENT
    return renumbered


def _handed_up(self_ns: Int64, parent: Int32, drop: Bool) -> Int64:
    """Add the self time of dropped rows to their nearest kept ancestor."""
    gone = np.flatnonzero(drop)
    return self_ns + summed(parent[gone], self_ns[gone], len(self_ns))


def _without_async(self_ns: Int64, flags: UInt8) -> Int64:
    """Clear the self time of events that ended on another thread, where it is unknown."""
    ended_elsewhere = np.flatnonzero(flags & np.uint8(SliceFlags.ASYNC))
    if len(ended_elsewhere):
        self_ns = self_ns.copy()
        self_ns[ended_elsewhere] = 0
    return self_ns


def lanes(trace: Trace) -> Int32:
    """Return each slice's line within its track: its depth, or a free line below.

    Nested slices are at their depth. Where slices overlap without nesting (streams that share a
    track, asynchronous ranges), each takes the first free line below its parent, so none is hidden.
    """
    slices = trace.slices
    return _native.lanes(slices.start_ns, slices.duration_ns, slices.track, slices.parent)
