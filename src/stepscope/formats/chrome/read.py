"""Chrome's trace JSON: what torch.profiler, Kineto, TensorBoard, HTA and many others write."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from stepscope import _native
from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.formats.base.asynchronous import with_async_ranges
from stepscope.formats.base.gzip import text_chunks
from stepscope.formats.base.xla import xla_correlations, xla_kinds
from stepscope.formats.chrome import DIALECTS
from stepscope.formats.chrome.kineto import without_span
from stepscope.formats.chrome.samples import FRAMES, SAMPLES, read_sections
from stepscope.trace.build import build
from stepscope.trace.keys import FORWARD_THREAD, SEQUENCE_NUMBER
from stepscope.trace.model import (
    NO_CORRELATION,
    NO_SEQUENCE,
    NO_THREAD,
    Args,
    IntColumn,
    Marks,
    Trace,
    TraceInfo,
    Track,
)
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings, valid_value
from stepscope.trace.validate import LATEST_NS
from stepscope.units import size_text

Progress = Callable[[int, int], None]
Note = tuple[str, str, str, str, int]  # what, pid, tid, text, number
Columns = Mapping[str, Any]  # what _native.ChromeReader.finish returns

_OUR_KEY = "stepscope"  # see kineto.recording_header
_LONGEST_EVENT_BYTES = 64 << 20
_LONGEST_VALUE_BYTES = 256 << 20  # of a top-level value: the samples of an hour are smaller
_NOT_A_TRACE = "is the file a trace that torch.profiler or Chrome wrote?"


def read_chrome(path: str | PathLike[str], progress: Progress | None = None) -> Trace:
    """Read Chrome JSON, gzip or not, with every event and every arg.

    The readable part of a damaged file is kept, with a ``TraceReadWarning``; ``info.anomalies``
    counts oddities. ``progress`` is called with the bytes read, and the size of the file.
    """
    place = Path(path)
    columns, damage = _columns(place, progress)
    _check(place, columns, damage)
    for make_dialect in DIALECTS:
        dialect = make_dialect()
        if dialect.claims(columns):
            columns = dialect.repaired(place, columns)
            _warn(place, columns, damage)
            return dialect.trace(columns)
    _warn(place, columns, damage)
    return _trace(columns)


def _columns(place: Path, progress: Progress | None) -> tuple[Columns, str]:
    reader = _native.ChromeReader()
    damage = ""
    with text_chunks(place) as chunks:
        size = place.stat().st_size
        for chunk in chunks:
            reader.feed(chunk.text)
            _check_length(place, reader)
            damage = chunk.damage
            if progress is not None:
                progress(chunk.file_bytes, size)
    return reader.finish(), damage


def _check_length(place: Path, reader: _native.ChromeReader) -> None:
    """Refuse a value that is too long to hold and search as a whole."""
    limit, what = _LONGEST_VALUE_BYTES, "value"
    if reader.in_events:
        limit, what = _LONGEST_EVENT_BYTES, "event"
    if reader.pending_bytes > limit:
        reason = f"holds one {what} of more than {size_text(limit)}, the limit"
        raise TraceReadError(place, f"{reason} (after {reader.event_count} events)")


def _check(path: Path, columns: Columns, damage: str) -> None:
    cause = f": {damage}" if damage else ""
    if not columns["bytes"]:
        raise TraceReadError(path, "is empty" if not damage else f"cannot be read{cause}")
    if not columns["is_json"]:
        raise TraceReadError(path, f"is not JSON{cause}", _NOT_A_TRACE)
    if columns["has_events"]:
        return
    if columns["broken_at"] is not None:
        reason = f"is not valid JSON (byte {columns['broken_at']}) and holds no trace events"
    elif columns["ends_early"]:
        reason = f"ends early (byte {columns['bytes']}), before the first trace event"
    else:
        reason = "is JSON without trace events"
    raise TraceReadError(path, reason + cause, _NOT_A_TRACE)


def _warn(path: Path, columns: Columns, damage: str) -> None:
    anomalies = columns["anomalies"]
    events = columns["events"]
    if columns["ends_early"] or damage:
        anomalies["file ends early"] = 1
        cause = f": {damage}" if damage else ""
        text = f"{path} ends early after {events} events (byte {columns['bytes']}){cause}"
        warnings.warn(f"{text}; these were read", TraceReadWarning, stacklevel=3)
    if columns["broken_at"] is not None:
        text = f"{path} is not valid JSON from byte {columns['broken_at']} on"
        warnings.warn(f"{text}; {events} events could be read", TraceReadWarning, stacklevel=3)


def slices_of(columns: Columns) -> Slices:
    """Return the slices of a foreign file, with the numbers that link them."""
    args = _args(columns["args"])
    rows = len(columns["start_ns"])
    return Slices.of(
        category=columns["category"],
        name=columns["name"],
        start_ns=columns["start_ns"],
        duration_ns=columns["duration_ns"],
        track=columns["track"],
        flags=columns["flags"],
        sequence=args.dense(SEQUENCE_NUMBER, rows, NO_SEQUENCE),
        forward_thread=args.dense(FORWARD_THREAD, rows, NO_THREAD),
        correlation=args.dense("correlation", rows, NO_CORRELATION),
        args=args,
        fields=_args(columns["fields"]),
    )


def marks_of(columns: Columns) -> Marks:
    """Return the marks of a foreign file."""
    return Marks(
        phase=columns["phase"],
        category=columns["category"],
        name=columns["name"],
        time_ns=columns["time_ns"],
        track=columns["track"],
        args=_args(columns["args"]),
        fields=_args(columns["fields"]),
    )


def _trace(columns: Columns) -> Trace:
    raw, marks = slices_of(columns["slices"]), marks_of(columns["marks"])
    tracks = _tracks(columns["tracks"], columns["notes"])
    captured = Captured(raw, tuple(tracks), Strings(*columns["strings"]), marks=marks)
    captured, odd = with_async_ranges(captured)
    for what, count in odd.items():
        columns["anomalies"][what] = columns["anomalies"].get(what, 0) + count
    info = _info(columns, captured.slices, captured.marks)
    if _OUR_KEY in info.user:
        captured = without_span(captured)
        info = _info(columns, captured.slices, captured.marks)
        captured, info = _with_samples(captured, info)
    elif info.producer in {"XLA", "chrome"}:
        correlation = xla_correlations(captured.slices, captured.tracks, captured.strings)
        captured = replace(captured, slices=replace(captured.slices, correlation=correlation))
    return build(captured, info, xla_kinds)


def _with_samples(captured: Captured, info: TraceInfo) -> tuple[Captured, TraceInfo]:
    """Read the sections that we wrote, and take them out of the file's other keys."""
    if SAMPLES not in info.user:
        return captured, info
    texts = {text: i for i, text in enumerate(captured.strings)}

    def text_id(text: str) -> int:
        return texts.setdefault(text, len(texts))

    samples, stacks = read_sections(info.user, captured.tracks, text_id)
    user = {key: value for key, value in info.user.items() if key not in {FRAMES, SAMPLES}}
    filled = replace(captured, strings=Strings.of(texts), samples=samples, stacks=stacks)
    return filled, replace(info, user=user)


def _args(columns: tuple[Mapping[str, tuple[Any, Any]], Any]) -> Args:
    integers, rest = columns
    return Args({key: IntColumn(*column) for key, column in integers.items()}, rest)


def _tracks(names: Sequence[tuple[str, str]], notes: Sequence[Note]) -> list[Track]:
    """Name and sort the tracks; a named process or thread without events has one, too."""
    of_process: dict[str, dict[str, Any]] = {}
    of_thread: dict[tuple[str, str], dict[str, Any]] = {}
    process_field = {
        "process_name": "process_name",
        "process_labels": "process_label",
        "process_sort_index": "process_sort",
    }
    thread_field = {"thread_name": "thread_name", "thread_sort_index": "thread_sort"}
    spare: dict[str, str] = {}  # pid -> the tid in its metadata
    for what, pid, tid, text, number in notes:
        value = number if what.endswith("_index") else text
        if what in process_field:
            of_process.setdefault(pid, {})[process_field[what]] = value
            spare.setdefault(pid, tid)
        else:
            of_thread.setdefault((pid, tid), {})[thread_field[what]] = value
    places = dict.fromkeys([*names, *of_thread])
    seen = {pid for pid, _ in places}
    places |= dict.fromkeys((pid, tid) for pid, tid in spare.items() if pid not in seen)
    return [
        Track(pid, tid, **of_process.get(pid, {}), **of_thread.get((pid, tid), {}))
        for pid, tid in places
    ]


def _info(columns: Columns, raw: Slices, marks: Marks) -> TraceInfo:
    user = {key: valid_value(_loaded(text)) for key, text in columns["metadata"]}
    distributed = user.get("distributedInfo")
    if not isinstance(distributed, dict):
        distributed = {}
    base = user.get("baseTimeNanoseconds")
    host = user.get("host_name")
    start_ns, end_ns = window_of(raw, marks)
    return TraceInfo(
        producer=_producer(user),
        start_ns=start_ns,
        end_ns=end_ns,
        wall_offset_ns=base if type(base) is int and abs(base) <= LATEST_NS else 0,
        host=host if isinstance(host, str) else "",
        rank=_int_or_none(distributed.get("rank")),
        world_size=_int_or_none(distributed.get("world_size")),
        anomalies=columns["anomalies"],
        user=user,
    )


def _loaded(text: str) -> Any:
    """Parse a top-level value; return its text if Python cannot hold it."""
    try:
        return json.loads(text, strict=False)
    except ValueError:  # a number of thousands of digits
        return text


def _producer(user: Mapping[str, Any]) -> str:
    """Return the tool that wrote a file, by its top-level keys."""
    if "stepscope" in user:
        return "stepscope, exported"
    if "schemaVersion" in user:
        return "torch.profiler"
    metadata = user.get("metadata")
    if isinstance(metadata, dict) and "highres-ticks" in metadata:
        return "XLA"
    return "chrome"


def window_of(raw: Slices, marks: Marks) -> tuple[int, int]:
    """Return the start of the first and the end of the last slice; without slices, of the marks."""
    if len(raw.start_ns):
        return int(np.min(raw.start_ns)), int(np.max(raw.start_ns + raw.duration_ns))
    if len(marks):
        return int(marks.time_ns.min()), int(marks.time_ns.max())
    return 0, 0


def _int_or_none(value: object) -> int | None:
    return value if type(value) is int else None
