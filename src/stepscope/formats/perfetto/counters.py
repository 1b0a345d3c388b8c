"""Numbers over time as Perfetto's counters: memory, queues, and counters of a foreign file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.device.queue import queue_length
from stepscope.analysis.work.work import device_work
from stepscope.trace.fragments import pairs_of
from stepscope.trace.model import Int64, Trace

COUNTER_PHASE = ord("C")
_VALUE = "value"


@dataclass(frozen=True, slots=True)
class Counter:
    name: str
    track: int | None  # any track of its process or device
    time_ns: Int64
    values: NDArray[Any]  # integers or floats
    is_bytes: bool = False
    is_derived: bool = False  # computed from slices, so reading the file again drops it


def counters(trace: Trace) -> Iterator[Counter]:
    """Yield all numbers over time in a trace."""
    yield from _memory(trace)
    yield from _queues(trace)
    yield from _recorded(trace)


def _memory(trace: Trace) -> Iterator[Counter]:
    memory = trace.memory
    if not len(memory):
        return
    processes = {pid: i for i, pid in enumerate(dict.fromkeys(t.pid for t in trace.tracks))}
    process_of = np.array([processes[track.pid] for track in trace.tracks], np.int64)
    key = process_of[memory.track] << 32 | memory.device
    for group in np.unique(key):
        rows = np.flatnonzero(key == group)
        device = trace.strings[int(memory.device[rows[0]])]
        track, time_ns = int(memory.track[rows[0]]), memory.time_ns[rows]
        yield Counter(f"memory in use, {device}", track, time_ns, memory.allocated[rows], True)
        reserved = memory.reserved[rows]
        if reserved.any():
            changed = np.flatnonzero(np.diff(reserved, prepend=reserved[0] - 1))
            name = f"memory reserved, {device}"
            yield Counter(name, track, time_ns[changed], reserved[changed], True)


def _queues(trace: Trace) -> Iterator[Counter]:
    work = device_work(trace)
    for number, device in enumerate(work.devices):
        queue = queue_length(trace, device)
        if len(queue.time_ns):
            track = int(trace.slices.track[work.rows[work.device == number][0]])
            length = queue.length.astype(np.int64)
            yield Counter("work in the queue", track, queue.time_ns, length, is_derived=True)


def _recorded(trace: Trace) -> Iterator[Counter]:
    """Yield the counters of a file: one per track, name and numeric key."""
    marks = trace.marks
    rows = np.flatnonzero(marks.phase == COUNTER_PHASE)
    if not len(rows):
        return
    counter_marks = marks.take(rows[np.argsort(marks.time_ns[rows], kind="stable")])
    columns = {
        key: (column.rows, column.values) for key, column in counter_marks.args.integers.items()
    }
    for key, fractions in _others(trace, counter_marks.args.rest).items():
        own = columns.get(key)
        at = fractions[0] if own is None else np.concatenate((own[0], fractions[0]))
        values = fractions[1] if own is None else np.concatenate((own[1], fractions[1]))
        order = np.argsort(at, kind="stable")
        columns[key] = at[order], values[order]
    for key, (at, values) in columns.items():
        group = counter_marks.track[at].astype(np.int64) << 32 | counter_marks.name[at]
        for series in np.unique(group):
            mine = np.flatnonzero(group == series)
            name = trace.strings[int(series & 0xFFFFFFFF)]
            title = name if key in {_VALUE, name} or len(columns) == 1 else f"{name} {key}"
            yield Counter(title, int(series >> 32), counter_marks.time_ns[at[mine]], values[mine])


def _others(trace: Trace, rest: Any) -> dict[str, tuple[Any, Any]]:
    """Return the non-integer numbers by key: rows and values."""
    numbers: dict[str, tuple[list[Any], list[float]]] = {}
    for fragment in np.unique(rest).tolist():
        rows = np.flatnonzero(rest == fragment)
        for key, value in pairs_of(trace.strings[fragment]).items():
            if type(value) is float:
                at, values = numbers.setdefault(key, ([], []))
                at.append(rows)
                values.extend([value] * len(rows))
    return {
        key: (np.concatenate(at), np.array(values, np.float64))
        for key, (at, values) in numbers.items()
    }
