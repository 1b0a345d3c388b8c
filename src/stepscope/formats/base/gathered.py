"""Collects the events of another tool's file in any order, and builds a Trace of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stepscope.formats.base.xla import xla_kinds
from stepscope.trace.build import build
from stepscope.trace.fragments import fragment_of
from stepscope.trace.model import (
    NO_CORRELATION,
    Args,
    Bool,
    Int64,
    IntColumn,
    Marks,
    Trace,
    TraceInfo,
    Track,
    UInt8,
    UInt32,
)
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings, valid_value
from stepscope.trace.validate import LATEST_NS

ABSENT = int(np.iinfo(np.int64).min)
"""Marks a missing value in a column of arguments."""

OUT_OF_RANGE = "events with a time out of range"
NEGATIVE = "slices with a negative duration"


class Gathered:
    """Names, tracks and events in any order; ``trace`` makes them a Trace, once."""

    def __init__(self) -> None:
        self.anomalies: Counter[str] = Counter()
        self._texts: dict[str, int] = {"": 0}
        self._tracks: dict[tuple[str, str], Track] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._slices: list[Slices] = []
        self._marks: list[Marks] = []

    def text(self, text: str) -> int:
        return self._texts.setdefault(valid_value(text), len(self._texts))

    def texts(self, texts: Iterable[str]) -> UInt32:
        return np.array([self.text(text) for text in texts], np.uint32)

    def name_ids(self, numbers: Int64, name: Callable[[int], str]) -> UInt32:
        """Return the name id of each number; ``name`` is called once per distinct number."""
        distinct, which = np.unique(numbers, return_inverse=True)
        return self.texts(map(name, distinct.tolist()))[which]

    def fragment(self, pairs: Mapping[str, Any]) -> int:
        """Return the id of non-integer arguments."""
        return self.text(fragment_of(pairs)) if pairs else 0

    def track(self, track: Track) -> int:
        """Return the number of a track; a process and thread keep their first description."""
        key = track.pid, track.tid
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._tracks[key] = track
        return self._numbers[key]

    def name_thread(self, pid: str, tid: str, name: str) -> None:
        """Name a thread, if it has events."""
        key = pid, tid
        if key in self._tracks:
            self._tracks[key] = replace(self._tracks[key], thread_name=name)

    def name_process(self, pid: str, name: str) -> None:
        """Name all tracks of a process."""
        for key, track in self._tracks.items():
            if key[0] == pid:
                self._tracks[key] = replace(track, process_name=name)

    def add_slices(  # a slice has many columns
        self,
        category: str,
        name: UInt32,
        span_ns: tuple[Int64, Int64],
        track: UInt32,
        *,
        correlation: Int64 | None = None,
        integers: Mapping[str, Int64] | None = None,
        rest: UInt32 | None = None,
        flags: UInt8 | None = None,
    ) -> None:
        """Add events with start and end; integers may be ABSENT in some rows."""
        start, end = span_ns
        if not len(start):
            return
        is_kept = self._in_range(start) & self._in_range(end)
        self.anomalies[OUT_OF_RANGE] += int(len(is_kept) - is_kept.sum())
        negative = is_kept & (end < start)
        self.anomalies[NEGATIVE] += int(negative.sum())
        end = np.where(negative, start, end)
        added = Slices.of(
            name=name.astype(np.uint32),
            category=np.full(len(start), self.text(category), np.uint32),
            start_ns=start,
            duration_ns=np.where(is_kept, end, 0) - np.where(is_kept, start, 0),
            track=track.astype(np.uint32),
            flags=flags,
            correlation=None
            if correlation is None
            else np.where(correlation == ABSENT, NO_CORRELATION, correlation),
            args=_args(integers or {}, rest),
        )
        self._slices.append(added if is_kept.all() else added.take(is_kept))

    def add_marks(
        self,
        phase: str,
        name: UInt32,
        time_ns: Int64,
        track: UInt32,
        *,
        category: str = "",
        integers: Mapping[str, Int64] | None = None,
        rest: UInt32 | None = None,
    ) -> None:
        """Add events without a duration: ``i`` for an instant, ``C`` for a counter."""
        if not len(time_ns):
            return
        is_kept = self._in_range(time_ns)
        self.anomalies[OUT_OF_RANGE] += int(len(is_kept) - is_kept.sum())
        added = Marks(
            phase=np.full(len(time_ns), ord(phase), np.uint8),
            category=np.full(len(time_ns), self.text(category), np.uint32),
            name=name.astype(np.uint32),
            time_ns=time_ns,
            track=track.astype(np.uint32),
            args=_args(integers or {}, rest),
        )
        self._marks.append(added if is_kept.all() else added.take(is_kept))

    def __len__(self) -> int:
        return sum(map(len, self._slices)) + sum(map(len, self._marks))

    def end_ns(self) -> int:
        """Return the end of the last slice, 0 without one."""
        return max((int(part.end_ns.max()) for part in self._slices if len(part)), default=0)

    def trace(self, info: TraceInfo, **tables: Any) -> Trace:
        """Build the trace; without a window in ``info``, its events define it."""
        slices = Slices.concat(self._slices) if self._slices else Slices.empty()
        marks = Marks.concat(self._marks) if self._marks else Marks.empty()
        self._slices, self._marks = [], []
        if info.end_ns <= info.start_ns:
            start_ns, end_ns = _window([slices.start_ns, marks.time_ns], slices.end_ns)
            info = replace(info, start_ns=start_ns, end_ns=end_ns)
        odd = {what: count for what, count in self.anomalies.items() if count}
        info = replace(info, anomalies={**info.anomalies, **odd})
        captured = Captured(
            slices, tuple(self._tracks.values()), Strings.of(self._texts), marks=marks, **tables
        )
        return build(captured, info, xla_kinds)

    @staticmethod
    def _in_range(time_ns: Int64) -> Bool:
        return (time_ns >= -LATEST_NS) & (time_ns <= LATEST_NS)


def _window(starts: Sequence[Int64], ends: Int64) -> tuple[int, int]:
    times = np.concatenate([*starts, ends])
    return (int(times.min()), int(times.max())) if len(times) else (0, 0)


def _args(integers: Mapping[str, Int64], rest: UInt32 | None) -> Args:
    sparse = {key: IntColumn.where(values != ABSENT, values) for key, values in integers.items()}
    columns = {key: column for key, column in sparse.items() if len(column.rows)}
    return Args(columns) if rest is None else Args(columns, rest.astype(np.uint32))


def device_track(device: int, stream: int, process: str = "") -> Track:
    """Return the track of a stream; several processes have streams of the same number."""
    number = "" if stream == ABSENT else str(stream)
    return Track(
        pid=f"{process}, GPU {device}" if process else str(device),
        tid=number or "0",
        process_name="",
        process_label=f"GPU {device}",
        thread_name=f"stream {number}" if number else "",
        process_sort=5_000_000 + min(max(device, 0), 1_000_000),
        thread_sort=stream if 0 <= stream < 1 << 31 else None,
    )


def shapes_of(gathered: Gathered, sizes: Int64) -> UInt32:
    """Return the fragments of grids and blocks, given as rows of six sizes."""
    complete = sizes[:, (sizes != ABSENT).all(axis=0)] if sizes.shape[1] else sizes
    distinct, which = np.unique(complete, axis=1, return_inverse=True)
    ids = np.array(
        [gathered.fragment({"grid": s[:3], "block": s[3:]}) for s in distinct.T.tolist()], np.uint32
    )
    fragments = np.zeros(sizes.shape[1], np.uint32)
    if len(ids):
        fragments[(sizes != ABSENT).all(axis=0)] = ids[which.reshape(-1)]
    return fragments
