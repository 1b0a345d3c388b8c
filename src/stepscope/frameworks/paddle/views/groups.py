"""Groups rows by key, for Paddle's views."""

from __future__ import annotations

import numpy as np

from stepscope.trace.model import Int64


class Groups:
    """Events grouped by key; groups are in the order in which Paddle first meets them."""

    def __init__(self, key: Int64, seen: Int64) -> None:
        """``seen`` is each event's position in the order in which Paddle meets events."""
        self._order = np.argsort(key, kind="stable")
        ordered = self._ordered = key[self._order]
        begins = np.ones(len(key), np.bool_)
        begins[1:] = ordered[1:] != ordered[:-1]
        self._starts = np.flatnonzero(begins)
        first = self._reduced(np.minimum, seen)
        self._place = np.argsort(first, kind="stable")
        self.first = first[self._place]  # when Paddle first meets each group
        self.key: Int64 = ordered[self._starts][self._place]
        ends = np.append(self._starts[1:], len(key))
        self.calls: Int64 = (ends - self._starts)[self._place]

    def __len__(self) -> int:
        return len(self.key)

    def members(self, key: int) -> Int64:
        first, last = np.searchsorted(self._ordered, [key, key + 1])
        return self._order[first:last]

    def index(self) -> Int64:
        number = np.empty(len(self), np.int64)
        number[self._place] = np.arange(len(self))
        counts = np.empty(len(self), np.int64)
        counts[self._place] = self.calls
        index = np.empty(len(self._order), np.int64)
        index[self._order] = np.repeat(number, counts)
        return index

    def total(self, column: Int64) -> Int64:
        return self._reduced(np.add, column)[self._place]

    def times(self, duration_ns: Int64) -> tuple[Int64, Int64, Int64]:
        """Return the sum, maximum and minimum of each group's durations."""
        total_ns = self._reduced(np.add, duration_ns)
        max_ns = self._reduced(np.maximum, duration_ns)
        min_ns = self._reduced(np.minimum, duration_ns)
        return total_ns[self._place], max_ns[self._place], min_ns[self._place]

    def _reduced(self, ufunc: np.ufunc, column: Int64) -> Int64:
        if not len(self._starts):
            return np.zeros(0, np.int64)
        reduced: Int64 = ufunc.reduceat(column[self._order], self._starts)
        return reduced
