"""Calls as tables should add them up: a moment of a thread counts once for a name.

``key_averages()`` adds the durations of all calls of a name, as torch.profiler does; a function
that calls itself then takes longer than the program. Here a call inside a call of its own name adds
nothing to the total, and what lies outside of a window of time does not count at all. ``CallCells``
sums calls by thread and group once, so that tables of any threads are sums of few cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from stepscope import _native
from stepscope.analysis.base.intervals import Intervals
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import distinct, summed
from stepscope.analysis.base.tree import CallTree
from stepscope.analysis.host.averages import Averages
from stepscope.trace.measures import Sums
from stepscope.trace.model import Bool, Int32, Int64

_CALLED = "called"


def counted_columns(
    events: Averages, tree: CallTree, within: Intervals | None = None
) -> Iterator[tuple[str, Int64]]:
    """Yield the columns of single events that may be added up: nested calls count once.

    Of a call inside another of its group, ``cpu_ns``, ``device_ns`` and the bytes are 0; where two
    overlap, as those of asyncio tasks do, the moments that both have are the first one's.
    ``within`` cuts all times of the host to what lies in these intervals. They come one at a time:
    of a big trace, each is large.
    """
    end_ns = _ends(tree)
    from_ns, outermost = uncovered(events, tree)
    total_ns = end_ns - from_ns if within is None else within.covered(from_ns, end_ns)
    total_ns[events.is_device] = 0
    yield "cpu_ns", total_ns
    del total_ns
    if within is not None:
        yield "self_cpu_ns", np.where(events.is_device, 0, self_within(tree, within))
    measures = events.measures()
    for name, column in events.sums().items():
        if measures[name].sums is Sums.CALLS and name != "cpu_ns":
            yield name, np.where(outermost | events.is_device, column, 0)


@shared
def self_within(tree: CallTree, within: Intervals) -> Int64:
    """Return how much of each event's own time lies in some intervals."""
    return own_within(tree.start_ns, _ends(tree), tree.parent, tree.self_ns, within)


def own_within(
    start_ns: Int64, end_ns: Int64, parent: Int32, own_ns: Int64, within: Intervals
) -> Int64:
    """Return how much of the own time of nested calls lies in some intervals."""
    covered_ns = within.covered(start_ns, end_ns)
    rest_ns = covered_ns - _native.summed_at(parent, covered_ns, len(parent))
    # Calls that end on another thread, or whose children overlap, have no own time.
    own: Int64 = np.clip(rest_ns, 0, np.maximum(own_ns, 0))
    return own


def _key(events: Averages, tree: CallTree) -> Int64:
    key = tree.of(tree.trace.slices.track).astype(
        np.int64
    )  # changed in place, since it may be large
    key *= 4
    key += events.is_annotation
    key += events.is_device.astype(np.uint8) * np.uint8(2)
    key *= max(len(events.key.texts), 1)
    key += events.key.codes
    for extra in (events.input_shapes, events.overload_name, events.stack):
        if extra is not None:
            key = np.unique(key, return_inverse=True)[1] * len(extra.texts) + extra.codes
    return key


@shared
def _ends(tree: CallTree) -> Int64:
    return tree.start_ns + tree.of(tree.trace.slices.duration_ns)


@shared
def uncovered(events: Averages, tree: CallTree) -> tuple[Int64, Bool]:
    """Return where the part of each call begins that no earlier call of its key covers.

    Calls stand in the order of their starts, the longer first: the inner ones come later.
    """
    keys, key = distinct(_key(events, tree))
    from_ns, outermost = _native.uncovered(key, len(keys), tree.start_ns, _ends(tree))
    return from_ns, outermost.view(np.bool_)


class CallCells:
    """Calls within a time, summed in a cell for each thread and group."""

    def __init__(self, events: Averages, tree: CallTree, within: Intervals | None) -> None:
        """Sum the events that lie at least partly in ``within``; None for all."""
        self._events = events
        uncovered(
            events, tree
        )  # computed first, while memory is still free; later calls use the cached result
        key = events.key.codes.astype(np.int64)  # changed in place, since it may be large
        key *= 4
        key += events.is_annotation
        key += events.is_device.astype(np.uint8) * np.uint8(2)
        key = distinct(key)[1]
        key *= max(len(tree.trace.tracks), 1)
        key += tree.of(tree.trace.slices.track)
        if within is not None:
            key[~_in_time(tree, within)] = -1
        keys, cell = distinct(key)
        del key
        if len(keys) and keys[0] < 0:  # rows outside have no cell
            keys = keys[1:]
            cell -= 1
        self._group, self._track = np.divmod(keys, max(len(tree.trace.tracks), 1))
        self._first = _first_rows(cell, len(keys))
        self._sums = {
            name: _summed(cell, column, len(keys))
            for name, column in _columns(events, tree, within)
        }

    def grouped(self, tracks: tuple[int, ...] | None) -> tuple[Averages, Int64]:
        """Return the groups of some threads, and the total time of each group's calls.

        They stand in the order in which they were first seen; None: the groups of all threads.
        ``cpu_ns`` counts a moment once, the calls' time each call as it is.
        """
        cells = np.arange(len(self._track))
        if tracks is not None:
            cells = cells[np.isin(self._track, tracks)]
        groups, group = distinct(self._group[cells])
        first = np.full(len(groups), len(self._events), np.int64)
        np.minimum.at(first, group, self._first[cells])
        order = np.argsort(first, kind="stable")
        sums: dict[str, Any] = {
            name: summed(group, column[cells], len(groups))[order]
            for name, column in self._sums.items()
        }
        called_ns = sums.pop(_CALLED)
        rows = self._events.take(first[order])
        return rows.replaced({"first": first[order].astype(np.uint32), **sums}), called_ns


def _columns(
    events: Averages, tree: CallTree, within: Intervals | None
) -> Iterator[tuple[str, Int64]]:
    yield "count", events.count
    yield _CALLED, events.cpu_ns
    changed = set()
    for name, column in counted_columns(events, tree, within):
        changed.add(name)
        yield name, column
    yield from ((name, column) for name, column in events.sums().items() if name not in changed)


def _summed(cell: Int64, column: Int64, cells: int) -> Int64:
    if column.strides == (0,):  # one value for all
        value = int(column[0]) if len(column) else 0
        return np.bincount(cell + 1, minlength=cells + 1)[1:] * value
    return summed(cell, column, cells)


def _first_rows(cell: Int64, cells: int) -> Int64:
    first = np.empty(cells + 1, np.int64)  # the last for those without a cell
    first[cell[::-1]] = np.arange(len(cell) - 1, -1, -1)  # the last write wins
    return first[:-1]


def _in_time(tree: CallTree, within: Intervals) -> Bool:
    end_ns = tree.start_ns + tree.of(tree.trace.slices.duration_ns)
    inside: Bool = within.contain(tree.start_ns) | (within.covered(tree.start_ns, end_ns) > 0)
    return inside
