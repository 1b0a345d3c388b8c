"""JAX's and XLA's profiles (``.xplane.pb``): planes, their lines, and the events on these.

A plane is a process (``/host:CPU``) or a device (``/device:GPU:0``), a line a thread or a stream.
Names and text statistics are numbers, which the plane's metadata explain. Events count ps from
their line's start, which is Unix time in ns. The messages are decoded by hand: few fields are
needed, and TensorFlow is large.
"""

from __future__ import annotations

import re
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.formats.base.gathered import ABSENT, Gathered
from stepscope.formats.base.gzip import file_bytes
from stepscope.formats.base.registry import Progress
from stepscope.formats.base.xla import XLA_FRAME
from stepscope.trace.model import Int64, Trace, TraceInfo, Track
from stepscope.trace.names import device_number

Value = int | memoryview

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_SHIFT = 63


class MalformedMessageError(ValueError):
    """The bytes are no message."""


def fields(data: memoryview, *, cut: bool = False) -> Iterator[tuple[int, Value]]:
    """Yield each field's number and value: an integer, of 64 bits at most, or its bytes.

    ``cut``: the message may end within a field, whose first bytes are then yielded.
    """
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        at += 1
        if tag >= 128:
            tag, at = _rest(data, at, tag)
        kind, number = tag & 7, tag >> 3
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif kind == _BYTES:
            size, at = _varint(data, at)
            if at + size > end and not cut:
                raise MalformedMessageError(f"a field of {size} bytes ends early")
            yield number, data[at : at + size]
            at += size
        elif kind in {_FIXED64, _FIXED32}:
            size = 8 if kind == _FIXED64 else 4
            if at + size > end:
                raise MalformedMessageError("a number ends early")
            yield number, struct.unpack_from("<Q" if size == 8 else "<I", data, at)[0]
            at += size
        else:
            raise MalformedMessageError(f"a field has the unknown type {kind}")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    if at >= len(data):
        raise MalformedMessageError("a number ends early")
    first = data[at]
    return (first, at + 1) if first < 128 else _rest(data, at + 1, first)


def _rest(data: memoryview, at: int, first: int) -> tuple[int, int]:
    value, shift = first & 127, 7
    while at < len(data) and shift <= _MOST_SHIFT:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
        shift += 7
    raise MalformedMessageError("a number ends early, or has more than 64 bits")


Names = dict[int, tuple[int, int]]  # by an event's number: string id, and category
Common = dict[int, list[memoryview]]  # by an event's number: statistics of all such events

PRODUCER = "XLA"
_PS = 1000  # in a ns
_CATEGORIES = ("", "python_function", "user_annotation")
_PLAIN, _PYTHON, _RANGE = range(len(_CATEGORIES))
_NOT_ONE = "is the file an .xplane.pb that jax.profiler or TensorFlow wrote?"
_CORRELATION = "correlation_id"
_TASK = "Task Environment"  # a plane without lines: when the profile was taken
_SKIPPED = frozenset({"/host:metadata", _TASK})
_STEP = "step_num"
_EARLIEST_NS = 10**17  # 1973: what is less counts from the start of the profile
_PLANE_NAME = re.compile(rb"/(host|device):|Task Environment|#Chip|TPU|GPU|CUPTI", re.IGNORECASE)


class _Plane:
    """A plane's name, lines and metadata."""

    def __init__(self, data: memoryview) -> None:
        self.number = 0
        self.name = ""
        self.lines: list[memoryview] = []
        self.events: dict[int, str] = {}
        self.of_events: dict[int, list[memoryview]] = {}  # what is told once for all of a name
        self.stats: dict[int, str] = {}
        self.own: list[memoryview] = []
        for number, value in fields(data):
            match number, value:
                case 1, int():
                    self.number = value
                case 2, memoryview():
                    self.name = _text(value)
                case 3, memoryview():
                    self.lines.append(value)
                case 4, memoryview():
                    key, name = _entry(value, (4, 2))
                    self.events[key] = name
                    if common := _stats_of_name(value):
                        self.of_events[key] = common
                case 5, memoryview():
                    key, name = _entry(value, (2,))
                    self.stats[key] = name
                case 6, memoryview():
                    self.own.append(value)


class _Line(NamedTuple):
    number: int
    name: str
    start_ns: int
    events: list[memoryview]


class _Events:
    """The events of a line as columns."""

    def __init__(self) -> None:
        self.name: list[int] = []
        self.start_ns: list[int] = []
        self.end_ns: list[int] = []
        self.correlation: list[int] = []
        self.rest: list[int] = []
        self.category: list[int] = []


def is_xplane(head: bytes) -> bool:
    """Tell whether bytes begin as an XSpace does: with a plane, whose first fields are short."""
    if head[:1] != b"\x0a":
        return False
    try:
        _, first = next(fields(memoryview(head), cut=True))
        if not isinstance(first, memoryview):
            return False
        for number, value in fields(first, cut=True):
            if number == 1 and isinstance(value, int):
                continue
            is_name = number == 2 and isinstance(value, memoryview)
            return is_name and _PLANE_NAME.search(bytes(value)) is not None
    except (MalformedMessageError, StopIteration):
        return False
    return False


def read_xplane(path: Path, progress: Progress | None = None) -> Trace:
    """Read a profile of JAX or XLA, gzip or not."""
    data, damage = file_bytes(path, progress)
    gathered = Gathered()
    host = ""
    began, wall_ns = _first_ns(data)
    try:
        for number, value in fields(memoryview(data)):
            if number == 1 and isinstance(value, memoryview):
                _add_plane(gathered, _Plane(value), began)
            elif number == 4 and isinstance(value, memoryview):
                host = _text(value)
    except MalformedMessageError as error:
        damage = damage or str(error)
    if not len(gathered):
        cause = f": {damage}" if damage else ""
        raise TraceReadError(path, f"is an XPlane file without an event{cause}", _NOT_ONE)
    if damage:
        gathered.anomalies["damaged file"] += 1
        text = f"{path}: {damage}; {len(gathered)} events could be read"
        warnings.warn(text, TraceReadWarning, stacklevel=2)
    return gathered.trace(TraceInfo(PRODUCER, wall_offset_ns=wall_ns, host=host))


def _first_ns(data: bytes) -> tuple[int, int]:
    """Return the first line's start, which other times are relative to, and its Unix time.

    The Unix time is 0 if the file does not have it.
    """
    starts, started = [], 0
    try:
        for number, value in fields(memoryview(data)):
            if number != 1 or not isinstance(value, memoryview):
                continue
            plane = _Plane(value)
            starts += [line.start_ns for line in map(_line, plane.lines) if line.events]
            if plane.name == _TASK:
                stats = dict(_Stats(Gathered(), plane.stats).pair(stat) for stat in plane.own)
                start = stats.get("profile_start_time")
                started = start if isinstance(start, int) and 0 < start < 1 << 62 else 0
    except MalformedMessageError:
        pass
    first = min((start for start in starts if 0 < start < 1 << 62), default=0)
    return (first, first) if first > _EARLIEST_NS else (0, started)


def _add_plane(gathered: Gathered, plane: _Plane, began: int) -> None:
    if plane.name in _SKIPPED:
        return
    # The index of the category in _CATEGORIES: a device's track defines all others.
    names = {
        key: (gathered.text(name), _PYTHON if XLA_FRAME.match(name) else _PLAIN)
        for key, name in plane.events.items()
    }
    reader = _Stats(gathered, plane.stats)
    pid = plane.name or str(plane.number)
    is_device = device_number(Track("", "", plane.name)) >= 0
    for data in plane.lines:
        line = _line(data)
        tid = f"{line.name} {line.number}".strip()
        track = gathered.track(
            Track(
                pid, tid, plane.name, line.name or str(line.number), "", 0 if not is_device else 1
            )
        )
        _add_line(gathered, line, track, (names, reader, began, plane.of_events))


def _line(data: memoryview) -> _Line:
    number = start_ns = 0
    name = shown = ""
    events = []
    for field, value in fields(data):
        match field, value:
            case 1, int():
                number = value
            case 2, memoryview():
                name = _text(value)
            case 3, int():
                start_ns = _signed(value)
            case 4, memoryview():
                events.append(value)
            case 11, memoryview():
                shown = _text(value)
    return _Line(number, shown or name, start_ns, events)


def _add_line(
    gathered: Gathered, line: _Line, track: int, shared: tuple[Names, _Stats, int, Common]
) -> None:
    names, stats, began, common = shared
    events = _Events()
    for data in line.events:
        _add_event(events, data, line.start_ns - began, (names, stats, common))
    category = np.array(events.category, np.uint8)
    for number, word in enumerate(_CATEGORIES):
        rows = np.flatnonzero(category == number)

        def of(values: list[int], chosen: Int64 = rows) -> Int64:
            return np.array(values, np.int64)[chosen]

        gathered.add_slices(
            word,
            of(events.name).astype(np.uint32),
            (of(events.start_ns), of(events.end_ns)),
            np.full(len(rows), track, np.uint32),
            correlation=of(events.correlation),
            rest=of(events.rest).astype(np.uint32),
        )


def _add_event(
    events: _Events, data: memoryview, start_ns: int, shared: tuple[Names, _Stats, Common]
) -> None:
    names, stats, common = shared
    name = offset = duration = 0
    own = []
    for field, value in fields(data):
        match field, value:
            case 1, int():
                name = value
            case 2, int():
                offset = _signed(value)
            case 3, int():
                duration = _signed(value)
            case 4, memoryview():
                own.append(value)
    correlation, rest, step = stats.of_event([*common.get(name, ()), *own])
    text, category = names.get(name, (0, _PLAIN))
    if step:
        text, category = step, _RANGE
    # Both ends are rounded alike, so that events that touch still do.
    start_ps = start_ns * _PS + offset
    events.name.append(text)
    events.category.append(category)
    events.start_ns.append(_bounded(start_ps // _PS))
    events.end_ns.append(_bounded((start_ps + duration) // _PS))
    events.correlation.append(correlation)
    events.rest.append(rest)


class _Stats:
    """The statistics of events by name, cached since most repeat."""

    def __init__(self, gathered: Gathered, names: dict[int, str]) -> None:
        self._gathered = gathered
        self._names = names
        self._cache: dict[bytes, tuple[int, int, int]] = {}

    def of_event(self, stats: list[memoryview]) -> tuple[int, int, int]:
        """Return the correlation or ABSENT, the id of all arguments, and the id of a step's name.

        Only a ``jax.profiler.StepTraceAnnotation`` has a step's name.
        """
        if not stats:
            return ABSENT, 0, 0
        key = b"\0".join(stats)
        if key not in self._cache:
            self._cache[key] = self._read(stats)
        return self._cache[key]

    def _read(self, stats: list[memoryview]) -> tuple[int, int, int]:
        pairs = dict(self.pair(stat) for stat in stats)
        number = pairs.get(_CORRELATION)
        correlation = number if isinstance(number, int) and 0 < number < 1 << 62 else ABSENT
        step = pairs.get(_STEP)
        is_step = isinstance(step, int) and 0 <= step < 1 << 31
        name = self._gathered.text(f"ProfilerStep#{step}") if is_step else 0
        return correlation, self._gathered.fragment(pairs), name

    def pair(self, data: memoryview) -> tuple[str, Any]:
        """Return a statistic's name and value."""
        name, result = 0, None
        for field, value in fields(data):
            match field, value:
                case 1, int():
                    name = value
                case 2, int():
                    (real,) = struct.unpack("<d", struct.pack("<Q", value & (1 << 64) - 1))
                    result = real if np.isfinite(real) else str(real)
                case 3, int():
                    result = value
                case 4, int():
                    result = _signed(value)
                case 5, memoryview():
                    result = _text(value)
                case 6, memoryview():
                    result = f"{len(value)} bytes"
                case 7, int():
                    result = self._names.get(value, "")
        return self._names.get(name, str(name)), result


def _entry(data: memoryview, text_fields: tuple[int, ...]) -> tuple[int, str]:
    """Return the key of a map entry, and the first text in these fields of its value."""
    key, texts = 0, dict.fromkeys(text_fields, "")
    for field, value in fields(data):
        if field == 1 and isinstance(value, int):
            key = value
        elif field == 2 and isinstance(value, memoryview):
            for inner, text in fields(value):
                if inner in texts and isinstance(text, memoryview):
                    texts[inner] = _text(text)
    return key, next((text for text in texts.values() if text), "")


def _stats_of_name(data: memoryview) -> list[memoryview]:
    """Return the statistics that all events of a name share: a TPU operator's FLOPs and bytes."""
    return [
        stat
        for field, value in fields(data)
        if field == 2 and isinstance(value, memoryview)
        for inner, stat in fields(value)
        if inner == 5 and isinstance(stat, memoryview)
    ]


def _text(data: memoryview) -> str:
    return bytes(data).decode("utf-8", "replace")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _bounded(time_ns: int) -> int:
    """Return a time that fits in 64 bits; validation refuses it with the others."""
    return max(min(time_ns, (1 << 63) - 1), -(1 << 63) + 1)
