"""A trace as a forest: who belongs to whom, worked out when the first node is asked."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.frameworks.paddle.views.nodes import NO_ROW, PaddleNodes

if TYPE_CHECKING:
    from stepscope.trace.model import Int64, Trace


class _Groups:
    """Rows by the key that they belong to; the rows of a key ascend."""

    def __init__(self, rows: Int64, keys: Int64) -> None:
        order = np.argsort(keys, kind="stable")
        self._rows, self._keys = rows[order], keys[order]

    def __getitem__(self, key: int) -> list[int]:
        first, last = np.searchsorted(self._keys, [key, key + 1])
        rows: list[int] = self._rows[first:last].tolist()
        return rows


class Forest:
    """A trace as trees of nodes. Roots are keyed as ``-2 - track``, beside the rows of slices."""

    def __init__(self, trace: Trace) -> None:
        """Take the trace; nothing is computed yet."""
        self.trace = trace
        self.parts = PaddleNodes(trace)

    @cached_property
    def roots(self) -> dict[int, int]:
        """Return the key of every thread's root, by the thread's id."""
        slices, memory = self.trace.slices, self.trace.memory
        used = np.unique(np.concatenate((slices.track[~self.parts.is_device], memory.track)))
        if not len(used) and len(slices):
            used = np.zeros(1, np.int64)
        return {self.parts.places[track][1]: -2 - track for track in used.tolist()}

    def _keys(self, owner: Int64, track: Any) -> Int64:
        return np.where(owner == NO_ROW, -2 - track.astype(np.int64), owner)

    @cached_property
    def children(self) -> _Groups:
        """Return the host slices in each host slice."""
        rows = np.flatnonzero(self.parts.is_host)
        return _Groups(rows, self._keys(self.parts.owner[rows], self.trace.slices.track[rows]))

    @cached_property
    def calls(self) -> _Groups:
        """Return the runtime calls in each host slice."""
        rows = np.flatnonzero(self.parts.is_runtime)
        return _Groups(rows, self._keys(self.parts.owner[rows], self.trace.slices.track[rows]))

    @cached_property
    def work(self) -> _Groups:
        """Return the device slices of each runtime call; those without one are the first root's."""
        rows = np.flatnonzero(self.parts.is_device)
        launch = self.parts.launch[rows]
        first = max(self.roots.values(), default=-2)
        return _Groups(rows, np.where(launch == NO_ROW, first, launch))

    @cached_property
    def memory(self) -> _Groups:
        """Return the memory events in each host slice."""
        rows = np.arange(len(self.trace.memory))
        return _Groups(rows, self._keys(self.parts.memory_owner, self.trace.memory.track))
