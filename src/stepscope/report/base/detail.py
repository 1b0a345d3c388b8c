"""Large traces at lower detail: a page has only the longest slices of each moment."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.sums import distinct
from stepscope.trace.model import NO_PARENT, Bool, Int64, SliceKind, Slices, Trace
from stepscope.trace.table import Remap

MOST_SLICES = 3_000_000
"""More would make a page slow to open."""

_MOMENTS = 4_096  # time slots of the recording: more than a screen has pixels
_A_MOMENT = 8  # slices per track and slot at least, or there are fewer slots


@dataclass(frozen=True, slots=True)
class Detail:
    """The slices that a page shows; its sums are those of the whole trace."""

    trace: Trace  # the page's slices
    row_in_page: Int64 | None  # of each slice of the whole trace; None if none is left out
    left_out: int

    def page_rows(self, rows: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the rows of slices in the page; a slice that was left out has that of its parent.

        NO_SLICE stands for a slice without a parent in the page, and stays NO_SLICE.
        """
        if self.row_in_page is None:
            return rows
        return np.where(rows < 0, rows, self.row_in_page[rows])


def detail_of(trace: Trace, most: int = MOST_SLICES) -> Detail:
    """Keep at most ``most`` slices: of each track and moment the longest, and all steps."""
    if len(trace) <= most:
        return Detail(trace, None, 0)
    is_kept = _slices_in_page(trace.slices, most)
    place = _places(trace.slices.parent, is_kept)
    moved = Remap(slice=place)
    tables = {**trace.tables(), "slices": trace.slices.take(is_kept)}
    shown = replace(trace, **{name: table.remap(moved) for name, table in tables.items()})
    return Detail(shown, place, len(is_kept) - len(shown))


def _slices_in_page(slices: Slices, most: int) -> Bool:
    is_kept: Bool = slices.kind == SliceKind.STEP
    is_kept[0] = True  # the page begins where the trace does
    others = np.flatnonzero(~is_kept)
    room = max(most - int(is_kept.sum()), 0)
    start_ns = slices.start_ns[others] - slices.start_ns[0]
    tracks, track = distinct(slices.track[others])
    moments = min(max(room // (_A_MOMENT * len(tracks)), 1), _MOMENTS)
    group = track * moments + start_ns * moments // (int(start_ns[-1]) + 1)
    order = np.lexsort((-slices.duration_ns[others], group))
    counts = np.bincount(group)
    firsts = np.cumsum(counts) - counts
    rank = np.arange(len(others)) - np.repeat(firsts, counts)  # by duration, in the group
    deepest = _deepest(counts, room)
    is_kept[others[order[rank < deepest]]] = True
    return is_kept


def _deepest(counts: Int64, most: int) -> int:
    """Return how many slices of each group stay, so that all together are at most ``most``."""
    low, high = 0, int(counts.max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        if np.minimum(counts, middle).sum() <= most:
            low = middle
        else:
            high = middle - 1
    return low


def _places(parent: NDArray[np.int32], is_kept: Bool) -> Int64:
    """Return each slice's new row; a dropped slice has that of its nearest kept parent."""
    nowhere = len(is_kept)
    holder = np.where(is_kept, np.arange(nowhere), np.where(parent == NO_PARENT, nowhere, parent))
    holder = np.append(holder, nowhere)
    while True:  # each round doubles the distance to the ancestor
        above = holder[holder]
        if np.array_equal(above, holder):
            break
        holder = above
    new_row = np.append(np.where(is_kept, np.cumsum(is_kept) - 1, NO_PARENT), NO_PARENT)
    place: Int64 = new_row[holder[:-1]].astype(np.int64)
    return place
