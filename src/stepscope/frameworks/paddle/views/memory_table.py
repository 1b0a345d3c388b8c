"""The Memory view: allocations and releases by event."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.sums import around
from stepscope.frameworks.paddle.views.forest import Forest
from stepscope.frameworks.paddle.views.groups import Groups
from stepscope.frameworks.paddle.views.tables import MemoryRow, MemoryTable, Peak
from stepscope.trace.event_types import TracerEventType
from stepscope.trace.model import NO_SLICE, Int64

OUTSIDE = "(outside of all events)"
_HIGH = 2**32


def memory_table(forest: Forest) -> MemoryTable:
    """Return allocations and releases by the event around them, the largest growth first.

    As in Paddle, phases inside an operator (OperatorInner) count for the event around them.
    Paddle adds the bytes of an operator's children to the operator's row, too, and so counts them
    twice; here they are only in the child's row. There is a row for what is outside of all events.
    """
    trace = forest.trace
    if not len(trace.memory):
        return MemoryTable((), {})
    host = _hosts(forest)
    rows = _rows(forest, host, trace.memory.size, "Allocated")
    # What the allocator takes from the device or gives back is in rows of their own, with size 0.
    reserved = np.where(trace.memory.size == 0, forest.memory_figures["increase"], 0)
    rows += _rows(forest, host, reserved, "Reserved")
    peaks = {place: _peak(forest, place) for place in dict.fromkeys(row.place for row in rows)}
    by_place = [row for place in peaks for row in rows if row.place == place]
    return MemoryTable(tuple(by_place), peaks)


def _rows(forest: Forest, host: Int64, size: Int64, memory_type: str) -> list[MemoryRow]:
    trace = forest.trace
    which = np.flatnonzero(size)
    host, size = host[which], size[which]
    tied = host != NO_SLICE
    name = np.zeros(len(which), np.int64)
    name[tied] = trace.slices.name[host[tied]] + 1  # 0: outside of all events
    visit = np.full(len(which), 0, np.int64)
    visit[tied] = forest.visit[host[tied]] + 1
    place = trace.memory.device[which].astype(np.int64)
    groups = Groups(place * _HIGH + name, visit * _HIGH + which)
    columns = (
        groups.key,
        groups.total((size > 0).astype(np.int64)),
        groups.total((size < 0).astype(np.int64)),
        groups.total(np.maximum(size, 0)),
        groups.total(np.maximum(-size, 0)),
    )
    rows = [
        MemoryRow(
            trace.strings[key // _HIGH],
            trace.strings[key % _HIGH - 1] if key % _HIGH else OUTSIDE,
            memory_type,
            *numbers,
        )
        for key, *numbers in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return sorted(rows, key=lambda row: -row.increased_bytes)


def _hosts(forest: Forest) -> Int64:
    """Return the host event that each memory event belongs to, or NO_SLICE."""
    counts = forest.is_event & (forest.types != TracerEventType.OperatorInner)
    return around(forest.parent, forest.trace.memory.slice, counts, itself=True)


def _peak(forest: Forest, place: str) -> Peak:
    """Return a place's largest use of memory, including the time before the recording if known."""
    trace, figures = forest.trace, forest.memory_figures
    rows = trace.memory.device == trace.strings.ids_of([place])[place]
    return Peak(*(int(figures[key][rows].max()) for key in ("peak_allocated", "peak_reserved")))
