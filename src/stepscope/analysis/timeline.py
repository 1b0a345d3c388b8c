"""Who owns the moments of a thread or a device: the innermost slice at each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.trace.model import NO_SLICE, Bool, Int64, Trace


@dataclass(frozen=True, slots=True)
class Timeline:
    """Who owns the time from each point to the next; nobody before the first."""

    time_ns: Int64  # ascending
    owner: Int64

    def over(self, other: Timeline) -> Timeline:
        """Return who owns the time where others have what this one leaves."""
        if not len(self.time_ns) or not len(other.time_ns):
            return self if len(self.time_ns) else other
        times = np.concatenate([self.time_ns, other.time_ns])
        order = np.argsort(times, kind="stable")  # two ascending runs: it merges them
        count = len(self.time_ns)
        mine = _latest(self.owner, order, order < count)
        theirs = _latest(other.owner, order - count, order >= count)
        return Timeline(times[order], np.where(mine == NO_SLICE, theirs, mine))

    def within(self, start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64, Int64, Int64]:
        """Cut it to some intervals; return each piece's interval, owner, start and length."""
        # Of what is at one time the owner's point comes first, then an end, then a start.
        times = np.concatenate([self.time_ns, end_ns, start_ns])
        order = np.argsort(times, kind="stable")
        times = times[order]
        count, intervals = len(self.time_ns), len(start_ns)
        owner = _latest(self.owner, order, order < count)
        is_start = order >= count + intervals
        place = np.cumsum(is_start) - 1
        inside = place - (np.cumsum((order >= count) & ~is_start) - 1) > 0
        lengths = np.diff(times, append=times[-1:])
        kept = np.flatnonzero(inside & (lengths > 0))
        return place[kept], owner[kept], times[kept], lengths[kept]


def _latest(owner: Int64, order: Int64, is_own: Bool) -> Int64:
    """Return the owner by the latest of a timeline's points, at each of the merged ones."""
    at = np.maximum.accumulate(np.where(is_own, order, -1))
    return np.append(owner, NO_SLICE)[at]


def innermost(trace: Trace, rows: Int64) -> Timeline:
    """Return the innermost of some slices of one thread, which stand in the order of starts."""
    slices = trace.slices
    start_ns, end_ns = slices.start_ns[rows], slices.ends_of(rows)
    # The ends of those that began last come first: they are further inside.
    by_end = len(rows) - 1 - np.argsort(end_ns[::-1], kind="stable")
    times = np.concatenate([end_ns[by_end], start_ns])
    chosen = np.zeros(len(slices) + 1, np.bool_)
    chosen[rows] = True
    outer = slices.parent[rows[by_end]].astype(np.int64)
    while len(hidden := np.flatnonzero((outer != NO_SLICE) & ~chosen[outer])):
        outer[hidden] = slices.parent[outer[hidden]]
    owners = np.concatenate([outer, rows])
    order = np.argsort(times, kind="stable")  # what ends does so before the next begins
    return Timeline(times[order], owners[order])
