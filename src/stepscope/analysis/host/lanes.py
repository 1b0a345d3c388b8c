"""Assigns the slices of a track to lines so that none covers another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.trace.model import NO_PARENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.trace.model import Int32, Int64, Slices, Trace


def lanes(trace: Trace) -> Int32:
    """Return the line of each slice within its track: its depth, or a lower one that is free.

    Nested slices are at their depth. Where slices overlap without nesting (streams that share a
    track, asynchronous ranges), each takes the first free line below its parent, so none is hidden.
    """
    slices = trace.slices
    lane = slices.depth.copy()
    for rows in _crowded(slices):
        _spread(slices, rows, lane)
    return lane


def _crowded(slices: Slices) -> list[Int64]:
    """Return the groups of rows, apart in time or track, in which two of one depth overlap."""
    deepest = int(slices.depth.max(initial=0)) + 1
    place = slices.track.astype(np.int64) * deepest + slices.depth
    small = place.max(initial=0) <= np.iinfo(np.uint16).max
    # Of 16 bits, NumPy sorts by counting.
    order = np.argsort(place.astype(np.uint16) if small else place, kind="stable")
    hidden = order[_covered(slices, order, place[order])]
    groups: list[Int64] = []
    for track in np.unique(slices.track[hidden]):
        rows = np.flatnonzero(slices.track == track)
        latest = np.maximum.accumulate(slices.end_ns[rows])
        begins = np.append(True, slices.start_ns[rows][1:] >= latest[:-1])
        group = np.cumsum(begins)
        wanted = np.unique(group[np.isin(rows, hidden)])
        first = np.searchsorted(group, wanted)
        last = np.searchsorted(group, wanted, side="right")
        groups += [rows[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    return groups


def _covered(slices: Slices, order: Int64, place: Int64) -> NDArray[np.bool_]:
    """Return which slices start before the one before them in the same place has ended.

    That finds at least one of every group: the first two that overlap follow each other.
    """
    same = place[1:] == place[:-1]
    early = slices.start_ns[order][1:] < slices.end_ns[order][:-1]
    return np.append(False, same & early) if len(order) else np.zeros(0, np.bool_)


def _spread(slices: Slices, rows: Int64, lane: Int32) -> None:
    free_ns: list[int] = []  # when each line's last slice ends
    columns = (slices.start_ns[rows], slices.end_ns[rows], slices.parent[rows])
    for row, start, end, parent in zip(
        rows.tolist(), *(column.tolist() for column in columns), strict=True
    ):
        at = 0 if parent == NO_PARENT else int(lane[parent]) + 1
        while at < len(free_ns) and free_ns[at] > start:
            at += 1
        free_ns += [start] * (at + 1 - len(free_ns))
        free_ns[at] = end
        lane[row] = at
