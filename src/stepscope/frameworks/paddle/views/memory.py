"""The Memory view: who asked for memory, and who gave it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.frameworks.paddle.views.groups import Groups
from stepscope.frameworks.paddle.views.tables import MemoryRow, MemoryTable, Peak
from stepscope.trace.event_types import TracerEventType
from stepscope.trace.model import NO_SLICE

if TYPE_CHECKING:
    from stepscope.frameworks.paddle.views.forest import Forest
    from stepscope.trace.model import Int32, Int64, Trace

OUTSIDE = "(outside of all events)"
_BEFORE = "memoryBefore"  # what a file of Paddle says of the time before its first event
_HIGH = 2**32


def memory_table(forest: Forest) -> MemoryTable:
    """Return allocations and releases by the event around them, the greatest growth first.

    Phases inside an operator (OperatorInner) stand for the event around them, as Paddle has it.
    Paddle adds the bytes of an operator's children to the operator's row, too, and so shows them
    twice; here they are only in the child's. What happened outside of all events has a row as well.
    """
    trace = forest.trace
    if not len(trace.memory):
        return MemoryTable((), {})
    host = _hosts(forest)
    rows = _rows(forest, host, trace.memory.size, "Allocated")
    rows += _rows(forest, host, _reserved(trace), "Reserved")
    peaks = {place: _peak(trace, place) for place in dict.fromkeys(row.place for row in rows)}
    by_place = [row for place in peaks for row in rows if row.place == place]
    return MemoryTable(tuple(by_place), peaks)


def _rows(forest: Forest, host: Int32, size: Int64, memory_type: str) -> list[MemoryRow]:
    """Group the bytes of one type by place and event."""
    trace = forest.trace
    which = np.flatnonzero(size)
    host, size = host[which], size[which]
    tied = host != NO_SLICE
    name = np.zeros(len(which), np.int64)
    name[tied] = trace.slices.name[host[tied]] + 1  # 0 for what is outside of all events
    visit = np.full(len(which), 0, np.int64)
    visit[tied] = forest.tree.visit[host[tied]] + 1
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


def _hosts(forest: Forest) -> Int32:
    """Return the host event that each memory event belongs to, NO_SLICE without."""
    tree = forest.tree
    counts = np.zeros(len(forest.types), np.bool_)
    counts[tree.rows] = forest.types[tree.rows] != TracerEventType.OperatorInner
    host = forest.trace.memory.slice.copy()
    climbing = np.flatnonzero(host != NO_SLICE)
    while len(climbing := climbing[~counts[host[climbing]]]):
        host[climbing] = tree.parent[host[climbing]]
        climbing = climbing[host[climbing] != NO_SLICE]
    return host


def _reserved(trace: Trace) -> Int64:
    """Return what the allocator took from the device, or gave back, in events of their own.

    Those have no size; what they changed is the difference to the event before on their device.
    """
    memory = trace.memory
    change = np.zeros(len(memory), np.int64)
    if memory.size.all():
        return change
    for device in np.unique(memory.device):
        rows = np.flatnonzero(memory.device == device)
        before = _before(trace, trace.strings[int(device)]).get(
            "reserved", memory.reserved[rows[0]]
        )
        change[rows] = np.diff(memory.reserved[rows], prepend=before)
    change[memory.size != 0] = 0
    return change


def _peak(trace: Trace, place: str) -> Peak:
    """Return the most that a place had, also before what was recorded if somebody tells."""
    memory = trace.memory
    rows = memory.device == trace.strings.ids_of([place])[place]
    before = _before(trace, place)
    return Peak(
        max(int(memory.allocated[rows].max()), before.get("peak_allocated", 0)),
        max(int(memory.reserved[rows].max()), before.get("peak_reserved", 0)),
    )


def _before(trace: Trace, place: str) -> dict[str, int]:
    """Return what a file says of the time before its first event; it may be anybody's file."""
    told = trace.info.user.get(_BEFORE)
    of_place = told.get(place) if isinstance(told, dict) else None
    numbers = of_place.items() if isinstance(of_place, dict) else ()
    return {key: value for key, value in numbers if isinstance(value, int)}
