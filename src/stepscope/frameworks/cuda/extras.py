"""Converts CUPTI's optional records: waits, CUDA events, the driver's memory.

Waits are slices on a track beside their stream's, as they overlap the work that they wait for.
Events, allocations and pools are marks: they have a time and no duration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.frameworks.cuda.options import EVENTS, MEMORY, SYNC
from stepscope.trace.keys import BYTES
from stepscope.trace.model import Args, IntColumn, Track
from stepscope.trace.schema import Captured, Marks, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.trace.model import Bool, Int64

    Columns = Mapping[str, Any]

# In the order of the native core's kinds.
_RUNTIME, _DRIVER, _SYNC, _EVENT, _MEMORY, _POOL = range(3, 9)
_CATEGORIES = {_EVENT: "cuda_event", _MEMORY: "cuda_memory", _POOL: "cuda_memory"}
_SYNC_CATEGORY = "cuda_sync"  # as in Kineto
_NO_VALUE = 0xFFFFFFFF
_INSTANT = ord("i")
_NO_ROW = -1


def split(columns: Columns) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the columns of the device's work and calls from those of all other records."""
    is_extra = columns["kind"] >= _SYNC
    return _rows(columns, ~is_extra), _rows(columns, is_extra)


def _rows(columns: Columns, which: Bool) -> dict[str, Any]:
    return {
        key: column[which] if isinstance(column, np.ndarray) and key != "shapes" else column
        for key, column in columns.items()
    }


def extras_captured(columns: Columns, work: Columns, wanted: Sequence[str]) -> Captured | None:
    """Build the columns of the requested records; ``work`` has the calls that caused them."""
    extras = _Extras(columns, work)
    slices = extras.waits() if SYNC in wanted else None
    kinds = [_EVENT] * (EVENTS in wanted) + [_MEMORY, _POOL] * (MEMORY in wanted)
    marks = extras.marks(kinds)
    if slices is None and marks is None:
        return None
    return Captured(
        slices if slices is not None else Slices.empty(),
        tuple(_track(*key) for key in extras.tracks),
        Strings.of(extras.texts),
        marks=marks if marks is not None else Marks.empty(),
    )


class _Extras:
    """Columns of the extra records of one recording, with the tracks and texts that they need."""

    def __init__(self, columns: Columns, work: Columns) -> None:
        self._columns, self._work = columns, work
        self.texts: dict[str, int] = {"": 0}
        self.tracks: dict[tuple[int, int, bool], int] = {}  # device, stream, has waits
        self._names = [name.decode("utf-8", "replace") for name in columns["names"]]
        self._device = self._devices()

    def _devices(self) -> Int64:
        """Return the device of each row; a wait only has a context, and others know its device."""
        device: Int64 = self._columns["device"].astype(np.int64)
        device_of = {
            context: number
            for of in (self._work, self._columns)
            for context, number in zip(
                of["context"][_knows_device(of)].tolist(),
                of["device"][_knows_device(of)].tolist(),
                strict=True,
            )
        }
        waits = np.flatnonzero(self._columns["kind"] == _SYNC)
        contexts = self._columns["context"][waits].tolist()
        device[waits] = [device_of.get(context, 0) for context in contexts]
        return device

    def waits(self) -> Slices | None:
        rows = np.flatnonzero(self._columns["kind"] == _SYNC)
        if not len(rows):
            return None
        at = {key: self._columns[key][rows] for key in _USED}
        event = self._events(at)
        has_event = event != _NO_ROW
        integers = {
            "device": IntColumn(_all(rows), self._device[rows]),
            "context": IntColumn(_all(rows), at["context"]),
            "correlation": IntColumn(_all(rows), at["correlation"]),
            **_where(at["stream"] != _NO_VALUE, "stream", at["stream"]),
            **_where(at["shape"] != _NO_VALUE, "wait_on_cuda_event_id", at["shape"]),
            **_where(has_event, "wait_on_stream", self._columns["stream"][event]),
            **_where(
                has_event,
                "wait_on_cuda_event_record_corr_id",
                self._columns["correlation"][event],
            ),
        }
        fragments = [self._text(f'"cuda_sync_kind": "{name}"') for name in self._names]
        return Slices.of(
            category=np.full(len(rows), self._text(_SYNC_CATEGORY), np.uint32),
            name=self._name_ids()[at["name"]],
            start_ns=at["start_ns"],
            duration_ns=at["duration_ns"],
            track=self._track_of(rows, waits=True),
            correlation=at["correlation"],
            args=Args(integers, np.array(fragments, np.uint32)[at["name"]]),
        )

    def _events(self, waits: Columns) -> Int64:
        """Return the row of the event record that each wait is for, _NO_ROW where unknown.

        The record is found by CUPTI's number, else it is the event's last one before the wait.
        """
        columns = self._columns
        event_rows = np.full(len(waits["shape"]), _NO_ROW, np.int64)
        rows = np.flatnonzero(columns["kind"] == _EVENT)
        numbers = zip(columns["bytes"][rows].tolist(), rows.tolist(), strict=True)
        by_number = {number: row for number, row in numbers if number}
        order = np.lexsort((columns["correlation"][rows], columns["shape"][rows]))
        key = columns["shape"][rows][order].astype(np.int64) << 32
        key += columns["correlation"][rows][order]
        for i, event in enumerate(waits["shape"].tolist()):
            if event == _NO_VALUE:
                continue
            number = int(waits["bytes"][i])
            if number in by_number:
                event_rows[i] = by_number[number]
                continue
            place = int(np.searchsorted(key, event << 32 | int(waits["correlation"][i]))) - 1
            if place >= 0 and key[place] >> 32 == event:
                event_rows[i] = rows[order[place]]
        return event_rows

    def marks(self, kinds: Sequence[int]) -> Marks | None:
        rows = np.flatnonzero(np.isin(self._columns["kind"], kinds))
        if not len(rows):
            return None
        time_ns = self._columns["start_ns"][rows].copy()
        call = self._calls(self._columns["correlation"][rows])
        is_event = self._columns["kind"][rows] == _EVENT
        has_call = call != _NO_ROW
        time_ns[is_event & has_call] = self._work["start_ns"][call[is_event & has_call]]
        is_kept = ~is_event | has_call
        rows, time_ns, is_event = rows[is_kept], time_ns[is_kept], is_event[is_kept]
        at = {key: self._columns[key][rows] for key in _USED}
        integers = {
            "device": IntColumn(_all(rows), self._device[rows]),
            "correlation": IntColumn(_all(rows), at["correlation"]),
            **_where(at["stream"] != _NO_VALUE, "stream", at["stream"]),
            **_where(is_event, "event", at["shape"]),
            **_where(~is_event, BYTES, at["bytes"]),
            **_where(~is_event, "address", at["graph_node"]),
            **_where(at["kind"] == _MEMORY, "from a pool", (at["graph"] != 0).astype(np.int64)),
        }
        categories = np.zeros(_POOL + 1, np.uint32)
        for kind, category in _CATEGORIES.items():
            categories[kind] = self._text(category)
        return Marks.of(
            phase=np.full(len(rows), _INSTANT, np.uint8),
            category=categories[at["kind"]],
            name=self._name_ids()[at["name"]],
            time_ns=time_ns,
            track=self._track_of(rows, waits=False),
            args=Args({key: column for key, column in integers.items() if len(column.rows)}),
        )

    def _calls(self, correlation: Int64) -> Int64:
        """Return the row of the call with each correlation, or _NO_ROW."""
        rows = np.flatnonzero(np.isin(self._work["kind"], (_RUNTIME, _DRIVER)))
        correlations = self._work["correlation"][rows]
        order = np.argsort(correlations, kind="stable")
        if not len(order):
            return np.full(len(correlation), _NO_ROW, np.int64)
        place = np.minimum(np.searchsorted(correlations[order], correlation), len(order) - 1)
        calls: Int64 = rows[order[place]]
        return np.where(correlations[order[place]] == correlation, calls, _NO_ROW)

    def _track_of(self, rows: Int64, *, waits: bool) -> NDArray[np.uint32]:
        streams = self._columns["stream"][rows].tolist()
        places = zip(self._device[rows].tolist(), streams, strict=True)
        keys = [(device, stream, waits) for device, stream in places]
        for key in keys:
            self.tracks.setdefault(key, len(self.tracks))
        return np.array([self.tracks[key] for key in keys], np.uint32)

    def _name_ids(self) -> NDArray[np.uint32]:
        return np.array([self._text(name) for name in self._names], np.uint32)

    def _text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))


_USED = (
    *("kind", "name", "start_ns", "duration_ns", "correlation", "context", "stream"),
    *("shape", "bytes", "graph", "graph_node"),
)


def _knows_device(columns: Columns) -> Bool:
    kind = columns["kind"]
    knows: Bool = (kind < _RUNTIME) | (kind == _MEMORY)
    return knows


def _all(rows: Int64) -> NDArray[np.uint32]:
    return np.arange(len(rows), dtype=np.uint32)


def _where(which: Bool, key: str, values: Int64) -> dict[str, IntColumn]:
    column = IntColumn.where(which, values.astype(np.int64))
    return {key: column} if len(column.rows) else {}


def _track(device: int, stream: int, waits: bool) -> Track:
    of_stream = stream != _NO_VALUE
    if waits:
        tid = f"waits {stream}" if of_stream else "waits"
        name = f"waits of stream {stream}" if of_stream else "waits for events and the device"
    else:
        tid, name = (str(stream), f"stream {stream} ") if of_stream else ("memory", "memory")
    return Track(
        pid=str(device),
        tid=tid,
        process_name="python",
        process_label=f"GPU {device}",
        thread_name=name,
        process_sort=5_000_000 + device,
        thread_sort=stream if of_stream else None,
    )
