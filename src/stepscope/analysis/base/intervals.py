"""Sets of time intervals, and timelines: which slice of a thread or device has each moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope import _native
from stepscope.trace.model import NO_SLICE, Bool, Int64, Trace


@dataclass(frozen=True, slots=True)
class Intervals:
    """Sorted, non-empty time intervals that do not touch each other; ends are exclusive."""

    start_ns: Int64
    end_ns: Int64

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def total_ns(self) -> int:
        return int((self.end_ns - self.start_ns).sum())

    def covered(self, from_ns: Int64, to_ns: Int64) -> Int64:
        """Return how much of each interval ``from_ns`` .. ``to_ns`` is covered."""
        covered = self._covered_before(to_ns)
        covered -= self._covered_before(from_ns)
        return covered

    def contain(self, time_ns: Int64) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return a mask of the moments inside; starts are included, ends are not."""
        if not len(self):
            return np.zeros(len(time_ns), np.bool_)
        at = np.searchsorted(self.start_ns, time_ns, side="right") - 1
        return (at >= 0) & (time_ns < self.end_ns[at])

    def shared_with(self, other: Intervals) -> Intervals:
        """Return the intersection."""
        # Both are in order and apart, so the one that opens last and the one that closes first
        # pair up: a shared stretch begins where the number of open intervals reaches two.
        times = np.concatenate([self.start_ns, other.start_ns, self.end_ns, other.end_ns])
        opens = len(self) + len(other)
        order = np.argsort(times, kind="stable")
        change = np.where(order < opens, 1, -1)
        deep = np.flatnonzero(np.cumsum(change) == 2)
        deep = deep[change[deep] == 1]
        starts, ends = times[order[deep]], times[order[deep + 1]]
        not_empty = starts < ends
        return Intervals(starts[not_empty], ends[not_empty])

    def gaps(self, from_ns: int, to_ns: int) -> Intervals:
        starts = np.concatenate([[from_ns], np.clip(self.end_ns, from_ns, to_ns)])
        ends = np.concatenate([np.clip(self.start_ns, from_ns, to_ns), [to_ns]])
        not_empty = starts < ends
        return Intervals(starts[not_empty], ends[not_empty])

    def _covered_before(self, time_ns: Int64) -> Int64:
        times = np.asarray(time_ns, np.int64)
        return _native.covered_before(self.start_ns, self.end_ns, times)


def union(start_ns: Int64, end_ns: Int64) -> Intervals:
    """Return the union of intervals, which need not be sorted.

    Intervals that touch are merged, empty ones are dropped.
    """
    not_empty = end_ns > start_ns
    if not not_empty.all():
        start_ns, end_ns = start_ns[not_empty], end_ns[not_empty]
    if not len(start_ns):
        return Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))
    if (start_ns[1:] < start_ns[:-1]).any():
        order = np.argsort(start_ns, kind="stable")
        start_ns, end_ns = start_ns[order], end_ns[order]
    reached = np.maximum.accumulate(end_ns)
    begins = np.concatenate([[True], start_ns[1:] > reached[:-1]])
    last = np.concatenate([np.flatnonzero(begins)[1:] - 1, [len(start_ns) - 1]])
    return Intervals(start_ns[begins], reached[last])


@dataclass(frozen=True, slots=True)
class Timeline:
    """The owner of the time from each point to the next; nobody before the first."""

    time_ns: Int64  # ascending
    owner: Int64

    def over(self, other: Timeline) -> Timeline:
        """Fill this timeline's unowned time from another."""
        if not len(self.time_ns) or not len(other.time_ns):
            return self if len(self.time_ns) else other
        times = np.concatenate([self.time_ns, other.time_ns])
        order = np.argsort(times, kind="stable")  # two ascending runs: it merges them
        count = len(self.time_ns)
        mine = _latest(self.owner, order, order < count)
        theirs = _latest(other.owner, order - count, order >= count)
        return Timeline(times[order], np.where(mine == NO_SLICE, theirs, mine))

    def within(self, start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64, Int64, Int64]:
        """Cut the timeline to intervals; return each piece's interval, owner, start and length."""
        # At equal times the owner's point comes first, then ends, then starts.
        times = np.concatenate([self.time_ns, end_ns, start_ns])
        order = np.argsort(times, kind="stable")
        times = times[order]
        count, intervals = len(self.time_ns), len(start_ns)
        owner = _latest(self.owner, order, order < count)
        is_start = order >= count + intervals
        place = np.cumsum(is_start) - 1
        inside = place - (np.cumsum((order >= count) & ~is_start) - 1) > 0
        lengths = np.diff(times, append=times[-1:])
        pieces = np.flatnonzero(inside & (lengths > 0))
        return place[pieces], owner[pieces], times[pieces], lengths[pieces]


def _latest(owner: Int64, order: Int64, is_own: Bool) -> Int64:
    """Return a timeline's owner at each merged point."""
    at = np.maximum.accumulate(np.where(is_own, order, -1))
    return np.append(owner, NO_SLICE)[at]


def innermost(trace: Trace, rows: Int64) -> Timeline:
    """Return the innermost of some slices of one thread, given in order of starts."""
    slices = trace.slices
    start_ns, end_ns = slices.start_ns[rows], slices.ends_of(rows)
    # Of equal ends, those of slices that began last come first: they are further inside.
    by_end = len(rows) - 1 - np.argsort(end_ns[::-1], kind="stable")
    times = np.concatenate([end_ns[by_end], start_ns])
    chosen = np.zeros(len(slices) + 1, np.bool_)
    chosen[rows] = True
    outer = slices.parent[rows[by_end]].astype(np.int64)
    while len(hidden := np.flatnonzero((outer != NO_SLICE) & ~chosen[outer])):
        outer[hidden] = slices.parent[outer[hidden]]
    owners = np.concatenate([outer, rows])
    order = np.argsort(times, kind="stable")  # of simultaneous points, ends come first
    return Timeline(times[order], owners[order])
