"""The other events of a memory snapshot: ranges of the program, and moments such as an OOM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stepscope.formats.gathered import ABSENT
from stepscope.trace.keys import BYTES
from stepscope.trace.model import Args, Int64, IntColumn, Marks, SliceFlags, Slices
from stepscope.trace.strings import Strings

Columns = Mapping[str, Any]

_MICROSECOND = 1000
_BEGIN, _END = "START", "END"
_MOMENTS = ("oom", "snapshot", "user_defined")
_MOST_RANGES = 1 << 22


def range_columns(
    events: Columns,
    strings: Strings,
    devices: Sequence[int],
    first_ns: int,
    text: Callable[[str], int],
) -> Slices | None:
    """Return the ranges recorded beside the history: a START ends at its END."""
    ids = strings.ids_of([_BEGIN, _END])
    track_of = {device: track for track, device in enumerate(devices)}
    rows: list[list[int]] = []
    open_ones: dict[tuple[int, int], list[int]] = {}
    columns = (
        events[name].tolist()[:_MOST_RANGES] for name in ("device", "time_us", "name", "stage")
    )
    last_ns = 0
    for device, time_us, name, stage in zip(*columns, strict=True):
        time_ns = time_us * _MICROSECOND - first_ns
        if device not in track_of or abs(time_ns) > 1 << 61:
            continue
        last_ns = max(last_ns, time_ns)
        waiting = open_ones.setdefault((device, name), [])
        if stage == ids.get(_BEGIN):
            waiting.append(len(rows))
            rows.append([name, time_ns, ABSENT, track_of[device]])
        elif stage == ids.get(_END) and waiting:
            row = rows[waiting.pop()]
            row[2] = max(time_ns, row[1])
    if not rows:
        return None
    name, start, end, track = np.array(rows, np.int64).T
    is_open = end == ABSENT
    return Slices.of(
        name=name.astype(np.uint32),
        category=np.full(len(name), text("user_annotation"), np.uint32),
        start_ns=np.ascontiguousarray(start),
        duration_ns=np.where(is_open, last_ns, end) - start,
        track=track.astype(np.uint32),
        flags=np.where(is_open, SliceFlags.UNFINISHED, 0).astype(np.uint8),
    )


def mark_columns(
    events: Columns,
    time_ns: Int64,
    strings: Strings,
    devices: Sequence[int],
    text: Callable[[str], int],
) -> Marks | None:
    """Return marks for out-of-memory events, snapshots, and the user's own."""
    ids = strings.ids_of(_MOMENTS)
    chosen = np.isin(events["action"], np.array(list(ids.values()), np.uint32))
    rows = np.flatnonzero(chosen & np.isin(events["device"], devices))
    if not len(rows):
        return None
    names = {ids.get("oom"): text("out of memory"), ids.get("snapshot"): text("snapshot")}
    action, note = events["action"][rows].tolist(), events["note"][rows].tolist()
    name = [names.get(word, label or word) for word, label in zip(action, note, strict=True)]
    at = np.arange(len(rows), dtype=np.uint32)
    is_oom = events["action"][rows] == ids.get("oom", -1)
    integers = {
        BYTES: IntColumn(at, events["size"][rows]),
        "free bytes": IntColumn(at[is_oom], events["address"][rows][is_oom]),
    }
    return Marks(
        phase=np.full(len(rows), ord("i"), np.uint8),
        category=np.full(len(rows), text("memory"), np.uint32),
        name=np.array(name, np.uint32),
        time_ns=time_ns[rows],
        track=np.searchsorted(devices, events["device"][rows]).astype(np.uint32),
        args=Args(integers),
    )
