"""A Trace as Paddle's result tree: host events, their runtime calls, and launched work.

Paddle keeps a tree of host events for each thread. Runtime calls hang beside it, and device work
hangs under the call that launched it. Here these are columns, computed on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.tree import levels, span_mask
from stepscope.analysis.calls.launches import launching_calls, launching_operators
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.memory_events import memory_figures
from stepscope.frameworks.paddle.views.event_types import event_types
from stepscope.frameworks.paddle.views.groups import Groups
from stepscope.trace.kinds import WORK_KINDS
from stepscope.trace.model import (
    DEVICE_KINDS,
    NO_PARENT,
    NO_SLICE,
    Bool,
    Int32,
    Int64,
    SliceKind,
    Trace,
    UInt8,
)

NO_ROW = -1
_FIRST_MADE_UP_ID = 1 << 32  # for tracks that have no number


@dataclass(frozen=True, slots=True)
class Work:
    """Kernels, copies and fills; the arrays are parallel."""

    rows: Int64
    host: Int64  # the launching host event, or NO_ROW
    seen: Int64  # the order in which Paddle meets them
    device: Int64  # the device's number

    def take(self, which: Int64 | Bool) -> Work:
        return Work(self.rows[which], self.host[which], self.seen[which], self.device[which])


@dataclass(frozen=True, slots=True)
class Branches:
    """Rows by what they hang under: a slice, or a track's root, whose key is ``-2 - track``."""

    rows: Int64
    groups: Groups

    @staticmethod
    def of(rows: Int64, owner: Int32 | Int64, track: NDArray[Any]) -> Branches:
        """Group rows by owner; rows without one hang under the root of their track."""
        roots = -2 - track.astype(np.int64)
        return Branches(rows, Groups(np.where(owner == NO_ROW, roots, owner), rows))

    def __getitem__(self, key: int) -> list[int]:
        rows: list[int] = self.rows[self.groups.members(key)].tolist()
        return rows


@dataclass(frozen=True)
class Forest:
    """Host events, runtime calls, device work and memory of a trace, and how they hang together.

    Columns have one value per slice unless documented otherwise.
    """

    trace: Trace

    @cached_property
    def types(self) -> UInt8:
        return event_types(self.trace)

    @cached_property
    def is_device(self) -> Bool:
        table = np.zeros(256, np.bool_)
        table[list(DEVICE_KINDS)] = True
        on_device: Bool = table[self.trace.slices.kind]
        return on_device

    @cached_property
    def is_runtime(self) -> Bool:
        is_runtime: Bool = self.trace.slices.kind == SliceKind.RUNTIME
        return is_runtime

    @cached_property
    def is_host(self) -> Bool:
        """Mark the slices that are nodes of a thread's tree."""
        return ~(self.is_device | self.is_runtime)

    @cached_property
    def is_event(self) -> Bool:
        """Mark the host nodes that are events; a slice that spans the whole recording is not."""
        spans = span_mask(self.trace)
        return self.is_host if spans is None else self.is_host & ~spans

    @cached_property
    def rows(self) -> Int64:
        return np.flatnonzero(self.is_host)

    @cached_property
    def parent(self) -> Int32:
        """Return the innermost host node around each slice, or NO_PARENT."""
        parent = self.trace.slices.parent.copy()
        lost = np.flatnonzero(parent != NO_PARENT)
        while len(lost := lost[~self.is_host[parent[lost]]]):
            parent[lost] = parent[parent[lost]]
            lost = lost[parent[lost] != NO_PARENT]
        return parent

    @cached_property
    def by_depth(self) -> tuple[Int64, ...]:
        depth = self.trace.slices.depth[self.rows]
        return tuple(self.rows[level] for level in levels(depth))

    @cached_property
    def _nested(self) -> tuple[Int64, ...]:
        """Return the nested host nodes of each depth, the outermost first."""
        return tuple(rows[self.parent[rows] != NO_PARENT] for rows in self.by_depth[1:])

    @cached_property
    def visit(self) -> Int64:
        """Return the position of host nodes in Paddle's traversal, NO_ROW for other slices.

        Paddle visits thread by thread, parents first and last children next: the reverse of a
        post-order, whose numbers follow from the pre-order, the count of descendants and the depth.
        Rows of one track are already in pre-order.
        """
        depth = self.counted_down(np.ones(len(self.parent), np.int64))
        below = self.summed_up(np.ones(len(self.parent), np.int64)) - 1
        place = _track_order(self.trace)[self.trace.slices.track[self.rows]].astype(np.uint32)
        by_thread = self.rows[np.argsort(place, kind="stable")]
        counts = np.bincount(place)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        last = np.repeat(np.cumsum(counts), counts) - 1
        visit = np.full(len(self.parent), NO_ROW, np.int64)
        pre_order = np.arange(len(self.rows))
        visit[by_thread] = last + first - pre_order - below[by_thread] + depth[by_thread]
        return visit

    def counted_down(self, own: NDArray[Any]) -> Int64:
        """Sum a value over the host nodes around each host node."""
        around = np.zeros(len(own), np.int64)
        for rows in self._nested:
            above = self.parent[rows]
            around[rows] = around[above] + own[above]
        return around

    def summed_up(self, own: Int64) -> Int64:
        """Sum a value over each host node and all nodes below it."""
        total = own.copy()
        if own.any():
            for rows in self._nested[::-1]:
                np.add.at(total, self.parent[rows], total[rows])
        return total

    def inside(self, marked: Bool) -> Bool:
        """Mark the host nodes that have a marked node around them, at any distance."""
        return self.counted_down(marked) > 0

    @cached_property
    def events_by_type(self) -> Mapping[int, Int64]:
        """Return the host events by type."""
        return rows_by_value(self.types, np.flatnonzero(self.is_event))

    def of_type(self, *wanted: TracerEventType) -> Int64:
        parts = [
            self.events_by_type[event_type]
            for event_type in wanted
            if event_type in self.events_by_type
        ]
        if len(parts) == 1:
            return parts[0]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    @cached_property
    def launch(self) -> Int64:
        """Return the runtime call that launched each device slice; NO_ROW for other slices."""
        launch = np.full(len(self.trace.slices), NO_ROW, np.int64)
        rows = np.flatnonzero(self.is_device)
        launch[rows] = launching_calls(self.trace, rows)
        return launch

    @cached_property
    def work(self) -> Work:
        """Return the device work and the host events that launched it."""
        rows = np.flatnonzero(np.isin(self.trace.slices.kind, WORK_KINDS))
        call = self.launch[rows]
        host = _value_at(self.parent, call)
        if (host == NO_ROW).any():
            host = np.where(host == NO_ROW, launching_operators(self.trace, rows), host)
        order = np.lexsort((rows, call, _value_at(self.visit, host)))
        seen = np.empty(len(rows), np.int64)
        seen[order] = np.arange(len(rows))
        return Work(rows, host, seen, _devices(self.trace, rows))

    def kernels(self) -> Work:
        return self.work.take(self.types[self.work.rows] == TracerEventType.Kernel)

    def _launched_ns(self, work: Work) -> Int64:
        """Return the device time that each host event launched itself."""
        own_ns = np.zeros(len(self.trace.slices), np.int64)
        tied = work.take(work.host != NO_ROW)
        np.add.at(own_ns, tied.host, self.trace.slices.duration_ns[tied.rows])
        return own_ns

    @cached_property
    def self_device_ns(self) -> Int64:
        """Return the device time that each host event launched, excluding its children."""
        return self._launched_ns(self.work)

    @cached_property
    def device_ns(self) -> Int64:
        """Return the device time that each host event launched, including its children."""
        return self.summed_up(self.self_device_ns)

    @cached_property
    def kernel_ns(self) -> Int64:
        """Return the same for kernels only."""
        return self.summed_up(self._launched_ns(self.kernels()))

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Return the process and thread of every track as numbers; words get made-up numbers."""
        places = []
        for i, track in enumerate(self.trace.tracks):
            pid, tid = _whole_number(track.pid), _whole_number(track.tid)
            made_up = _FIRST_MADE_UP_ID + i
            places.append((made_up if pid is None else pid, made_up if tid is None else tid))
        return tuple(places)

    @cached_property
    def device_tracks(self) -> Bool:
        is_device = np.zeros(len(self.trace.tracks), np.bool_)
        is_device[self.trace.slices.track[self.is_device]] = True
        return is_device

    @cached_property
    def thread_tracks(self) -> Int64:
        """Return the tracks that have a tree, including those with memory events only."""
        tracks = np.concatenate((self.trace.slices.track[~self.is_device], self.trace.memory.track))
        used = np.unique(tracks).astype(np.int64)
        return used if len(used) or not len(self.trace.slices) else np.zeros(1, np.int64)

    @cached_property
    def memory_parent(self) -> Int64:
        """Return the innermost host node around every memory event, or NO_ROW."""
        rows = self.trace.memory.slice.astype(np.int64)
        tied = np.flatnonzero(rows != NO_SLICE)
        inside = tied[~self.is_host[rows[tied]]]
        rows[inside] = self.parent[rows[inside]]
        return rows

    @cached_property
    def memory_figures(self) -> dict[str, Any]:
        before_first = self.trace.info.user.get("memoryBefore")
        return memory_figures(self.trace.memory, self.trace.strings, before_first)

    @cached_property
    def children(self) -> Branches:
        return Branches.of(self.rows, self.parent[self.rows], self.trace.slices.track[self.rows])

    @cached_property
    def calls(self) -> Branches:
        rows = np.flatnonzero(self.is_runtime)
        return Branches.of(rows, self.parent[rows], self.trace.slices.track[rows])

    @cached_property
    def launched(self) -> Branches:
        """Return the device slices by runtime call; the first root has those without a call."""
        rows = np.flatnonzero(self.is_device)
        first = np.full(len(rows), self.thread_tracks.min(initial=0))
        return Branches.of(rows, self.launch[rows], first)

    @cached_property
    def memory_events(self) -> Branches:
        memory = self.trace.memory
        return Branches.of(np.arange(len(memory)), self.memory_parent, memory.track)

    def integers(self, key: str) -> Int64:
        slices = self.trace.slices
        return slices.args.dense(key, len(slices), 0)


def rows_by_value(column: UInt8, rows: Int64) -> dict[int, Int64]:
    """Split rows by their value in a column; the order is kept."""
    values = column[rows]
    order = rows[np.argsort(values, kind="stable")]
    counts = np.bincount(values)
    present = np.flatnonzero(counts)
    parts = np.split(order, np.cumsum(counts[present])[:-1]) if len(present) else []
    return dict(zip(present.tolist(), parts, strict=True))


def _track_order(trace: Trace) -> Int64:
    """Return the rank of every track: Paddle orders threads by number."""

    def key(row: int) -> tuple[int, int, int]:
        track = trace.tracks[row]
        return _first_number(track.tid), _first_number(track.pid), row

    place = np.zeros(len(trace.tracks), np.int64)
    place[sorted(range(len(trace.tracks)), key=key)] = np.arange(len(trace.tracks))
    return place


def _first_number(text: str) -> int:
    """Return the number at the start of a text, or 0."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits) if digits else 0


def _whole_number(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdecimal() and int(word) < 1 << 63 else None


def _value_at(column: Int32 | Int64, rows: Int64) -> Int64:
    """Look rows up in a column; NO_ROW stays NO_ROW."""
    if not len(column):
        return np.full(len(rows), NO_ROW, np.int64)
    return np.where(rows == NO_ROW, NO_ROW, column[rows]).astype(np.int64)


def _devices(trace: Trace, rows: Int64) -> Int64:
    """Return the device number of each piece of work: its argument, else its process's number."""
    of_track = np.array([_first_number(track.pid) for track in trace.tracks], np.int64)
    if not len(rows):
        return np.zeros(0, np.int64)
    device = trace.slices.args.dense("device", len(trace.slices), NO_ROW)[rows]
    return np.where(device == NO_ROW, of_track[trace.slices.track[rows]], device)
