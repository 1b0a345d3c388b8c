"""The clocks of the ranks, aligned by the ends of collectives, which all ranks reach together.

A rank's clock has an offset and a drift. A synchronising collective ends at one moment for all
ranks, except for the time of its last message and random delays of the scheduler. So the offset and
drift that bring the ends of most collectives together are the clock's. The remaining residual
limits what can be said. Ranks of one host keep one clock unless the residual contradicts that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.job.collectives import SYNCHRONISING
from stepscope.job.meetings import Meetings
from stepscope.trace.model import Float64, Int64

MOST_MEETINGS = 400
"""Per set of ranks, spread over the recording: more do not improve the alignment."""

FEWEST_FOR_DRIFT = 12
SHORTEST_FOR_DRIFT_NS = 200_000_000
_ROUNDS, _FIT_ROUNDS = 12, 5
_SETTLED_NS = 100.0
_SIGMA = 1.4826  # of a normal distribution, from its median absolute deviation
_CERTAIN = 4.0  # standard errors


@dataclass(frozen=True, slots=True)
class Clocks:
    """What to add to each rank's time, t + offset + drift * (t - origin), and how exact that is."""

    origin_ns: int
    offset_ns: Float64
    drift: Float64
    error_ns: Float64  # of each rank: the spread of its ends after the correction
    meetings: Int64  # of each rank: the meetings that it was aligned by
    part: Int64  # ranks of different parts never met, and cannot be compared
    is_aligned: bool  # False if there was nothing to align by

    @property
    def residual_ns(self) -> float:
        """Return the accuracy of most ranks' clocks; 0 if there was nothing to align."""
        aligned_ns = self.error_ns[self.meetings > 0]
        return float(np.median(aligned_ns)) if len(aligned_ns) else 0.0

    def corrected(self, rank: NDArray[np.integer], time_ns: Int64) -> Int64:
        if not self.offset_ns.any() and not self.drift.any():
            return time_ns
        since = (time_ns - self.origin_ns).astype(np.float64)
        moved = self.offset_ns[rank] + self.drift[rank] * since
        corrected: Int64 = time_ns + np.rint(moved).astype(np.int64)
        return corrected


def aligned(meetings: Meetings, hosts: Sequence[str]) -> Clocks:
    """Return the clocks of a job's ranks, aligned by the ends of their meetings."""
    ranks = len(hosts)
    origin = int(meetings.done_ns.min()) if len(meetings.done_ns) else 0
    used = _used(meetings)
    nothing = np.zeros(ranks)
    if not len(used):
        return Clocks(
            origin, nothing, nothing, nothing, np.zeros(ranks, np.int64), np.arange(ranks), False
        )
    ends = _Ends(used, origin, ranks)
    offset, drift = ends.fitted()
    offset, drift = _shared_by_hosts(ends, offset, drift, hosts)
    error = ends.errors(offset, drift)
    return Clocks(origin, offset, drift, error, ends.count, ends.part, True)


def _used(meetings: Meetings) -> Meetings:
    """Return the meetings that help alignment, limited for each set of ranks."""
    synchronises = np.array([kind.name in SYNCHRONISING for kind in meetings.kinds], np.bool_)
    if not len(meetings):
        return meetings
    open_rows = np.add.reduceat(meetings.is_open.astype(np.int64), meetings.first[:-1]) > 0
    which = synchronises[meetings.kind] & (meetings.count > 1) & ~open_rows
    codes: dict[tuple[str, tuple[int, ...]], int] = {}
    group_of = [codes.setdefault((kind.group, kind.members), len(codes)) for kind in meetings.kinds]
    at = np.flatnonzero(which)
    group = (
        np.array(group_of)[meetings.kind[at]] * (int(meetings.count.max()) + 1) + meetings.count[at]
    )
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    is_used = np.zeros(len(meetings), np.bool_)
    for members in np.split(at[order], first[1:]):
        step = max(len(members) / MOST_MEETINGS, 1)
        is_used[members[np.arange(0, len(members), step).astype(np.int64)]] = True
    return meetings.take(is_used)


class _Ends:
    """The ends of meetings as arrays to fit: rank, time since the origin, meeting."""

    def __init__(self, meetings: Meetings, origin: int, ranks: int) -> None:
        self.rank = meetings.rank.astype(np.int64)
        self.time = (meetings.done_ns - origin).astype(np.float64)
        self.first = meetings.first[:-1]
        self.meeting = meetings.meeting
        self.ranks = ranks
        self.count = np.bincount(self.rank, minlength=ranks)
        self._order = np.lexsort((self.time, self.rank))
        self._by_rank = np.searchsorted(self.rank[self._order], np.arange(ranks + 1))
        self.part = self._parts()

    def _parts(self) -> Int64:
        """Return the connected component of each rank: meetings connect ranks."""
        part = np.arange(self.ranks)
        while True:
            least = np.minimum.reduceat(part[self.rank], self.first)[self.meeting]
            new = part.copy()
            np.minimum.at(new, self.rank, least)
            new = new[new]
            if (new == part).all():
                return part
            part = new

    def corrected(self, offset: Float64, drift: Float64) -> Float64:
        return self.time + offset[self.rank] + drift[self.rank] * self.time

    def together(self, offset: Float64, drift: Float64) -> Float64:
        """Return the distance of each end from the middle of its meeting."""
        ends = self.corrected(offset, drift)
        order = np.lexsort((ends, self.meeting))
        sizes = np.diff(np.append(self.first, len(ends)))
        lower, upper = self.first + (sizes - 1) // 2, self.first + sizes // 2
        ordered = ends[order]
        middle = (ordered[lower] + ordered[upper]) / 2
        apart: Float64 = ends - middle[self.meeting]
        return apart

    def fitted(self) -> tuple[Float64, Float64]:
        offset, drift = np.zeros(self.ranks), np.zeros(self.ranks)
        for _ in range(_ROUNDS):
            a, b = self._lines(self.together(offset, drift))
            offset, drift = offset - a, drift - b
            if max(np.abs(a).max(), np.abs(a + b * self.time.max()).max()) < _SETTLED_NS:
                break
        # The clock of each part's first rank is the reference.
        return offset - offset[self.part], drift - drift[self.part]

    def errors(self, offset: Float64, drift: Float64) -> Float64:
        """Return the robust spread of each rank's ends around the middle."""
        return _SIGMA * self._medians(np.abs(self.together(offset, drift)))

    def _lines(self, y: Float64) -> tuple[Float64, Float64]:
        """Fit y = a + b time robustly for every rank; b is 0 for too few points."""
        x = self.time
        level = self._medians(y)
        tells = (self.count >= FEWEST_FOR_DRIFT) & (self._span() >= SHORTEST_FOR_DRIFT_NS)
        a, b = level, np.zeros(self.ranks)
        weight = np.ones(len(x))
        for _ in range(_FIT_ROUNDS):
            total = np.maximum(self._sums(weight), 1e-12)
            mx, my = self._sums(weight * x) / total, self._sums(weight * y) / total
            dx = x - mx[self.rank]
            across = self._sums(weight * dx**2)
            slope = self._sums(weight * dx * (y - my[self.rank])) / np.maximum(across, 1e-12)
            b = np.where(tells, slope, 0.0)
            a = np.where(tells, my - b * mx, level)
            residual = y - a[self.rank] - b[self.rank] * x
            scale = np.maximum(2.0 * _SIGMA * self._medians(np.abs(residual)), 1.0)
            weight = 1.0 / (1.0 + (residual / scale[self.rank]) ** 2) ** 2
        return a, b

    def _sums(self, values: Float64) -> Float64:
        return np.bincount(self.rank, values, self.ranks).astype(np.float64)

    def _span(self) -> Float64:
        """Return the time from each rank's first end to its last."""
        has = self.count > 0
        span = np.zeros(self.ranks)
        ordered = self.time[self._order]
        span[has] = ordered[self._by_rank[1:][has] - 1] - ordered[self._by_rank[:-1][has]]
        return span

    def _medians(self, values: Float64) -> Float64:
        """Return the median of each rank's values, 0 for a rank without any."""
        ordered = values[np.lexsort((values, self.rank))]
        has = self.count > 0
        begin, count = self._by_rank[:-1][has], self.count[has]
        medians = np.zeros(self.ranks)
        medians[has] = (ordered[begin + (count - 1) // 2] + ordered[begin + count // 2]) / 2
        return medians


def _shared_by_hosts(
    ends: _Ends, offset: Float64, drift: Float64, hosts: Sequence[str]
) -> tuple[Float64, Float64]:
    """Give the ranks of a host one clock, unless their ends contradict that."""
    error = ends.errors(offset, drift)
    last = float(ends.time.max())
    offset, drift = offset.copy(), drift.copy()
    by_host: dict[tuple[str, int], list[int]] = {}
    for rank, host in enumerate(hosts):
        if host and ends.count[rank]:
            by_host.setdefault((host, int(ends.part[rank])), []).append(rank)
    for members in by_host.values():
        at = np.array(members)
        common, slope = float(np.median(offset[at])), float(np.median(drift[at]))
        if ends.part[at[0]] in members:  # it contains the part's reference
            common, slope = 0.0, 0.0
        apart = np.maximum(
            np.abs(offset[at] - common),
            np.abs(offset[at] + drift[at] * last - common - slope * last),
        )
        allowed = _CERTAIN * np.maximum(error[at], 1.0)
        if (apart <= allowed).all():
            offset[at], drift[at] = common, slope
    return offset, drift
