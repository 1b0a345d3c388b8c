"""Chrome
Kineto JSON, which chrome://tracing, Perfetto, HTA, TraceLens and TensorBoard read.

The native writer formats the events; this module provides their contents. A recording of ours gets
the arguments and flows of torch.profiler. A foreign trace is written exactly as it was read.
"""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import _native
from stepscope.formats.base.asynchronous import INTEGER, async_marks, async_rows
from stepscope.formats.base.files import output_file
from stepscope.formats.base.texts import AddedTexts
from stepscope.formats.chrome.device import DeviceRanges, device_ranges, launch_flows
from stepscope.formats.chrome.flows import flow_marks, forward_backward_links
from stepscope.formats.chrome.kineto import (
    derived_args,
    is_recording,
    memory_marks,
    recording_header,
    span_events,
)
from stepscope.formats.chrome.samples import FRAMES, SAMPLES, sample_sections
from stepscope.trace.model import Args

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepscope.formats.base.files import Sink
    from stepscope.formats.base.registry import Progress
    from stepscope.trace.model import Marks, Trace, Track, UInt8, UInt32

_CHUNK_BYTES = 1 << 20

_Pairs = tuple[list[tuple[bytes, "UInt32", Any]], "UInt32 | None"]

_DELETE = 127  # the first code behind the printable ones
_QUOTES = (ord('"'), ord("\\"))


def export_chrome(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    with output_file(path) as sink:
        write_chrome(trace, sink, os.fspath(path), progress)


def write_chrome(
    trace: Trace, sink: Sink, trace_name: str = "", progress: Progress | None = None
) -> None:
    tracks = list(_track_events(trace))
    writer, total = _writer(trace, continues=bool(tracks))
    sink.write(_header(trace, trace_name).encode())
    sink.write(",\n".join(tracks).encode())
    for chunk, done in text_chunks_of(writer):
        sink.write(chunk.data)
        if progress is not None:
            progress(done, total)
    if is_recording(trace) and "torch" in trace.info.versions:
        before = ",\n" if total or tracks else ""
        sink.write((before + ",\n".join(map(json.dumps, span_events(trace)))).encode())
    sink.write(b"\n]")
    for text in sample_sections(trace, _track_ids):
        sink.write(text.encode())
    sink.write(b"}\n")


def text_chunks_of(
    writer: _native.ChromeWriter | _native.PerfettoWriter,
) -> Iterator[tuple[UInt8, int]]:
    """Yield the chunks of a file, each with its number of events.

    While the caller compresses and writes a chunk, the next one is formatted; both release the GIL.
    """
    try:
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(1, "stepscope-export")
        pending = pool.submit(writer.next, _CHUNK_BYTES)
    except RuntimeError:  # the interpreter is shutting down and starts no more threads
        while len(chunk := writer.next(_CHUNK_BYTES)):
            yield chunk, writer.written
        return
    with pool:
        while len(chunk := pending.result()):
            written = writer.written
            pending = pool.submit(writer.next, _CHUNK_BYTES)
            yield chunk, written


def _writer(trace: Trace, *, continues: bool) -> tuple[_native.ChromeWriter, int]:
    tracks, tables = trace.tracks, [trace.marks]
    if len(apart := async_rows(trace.slices)):
        begins_and_ends, tracks = async_marks(trace)
        tables.append(begins_and_ends)
    ranges: DeviceRanges | None = None
    args = trace.slices.args
    texts = AddedTexts(trace.strings)
    if is_recording(trace):
        args = derived_args(trace, texts.add)
        links = forward_backward_links(trace)
        tables.append(flow_marks(trace, links, texts.add("fwdbwd"), texts.add('"bp": "e"')))
        tables.append(launch_flows(trace, texts.add("ac2g"), texts.add('"bp": "e"')))
        if len(trace.memory):
            tables.append(memory_marks(trace, texts.add))
        ranges = device_ranges(trace, texts.add("gpu_user_annotation"))
    blob, offsets = texts.table()
    ids = [_track_ids(track).encode() for track in tracks]
    writer = _native.ChromeWriter(blob, offsets, ids, continues)
    slices = trace.slices
    if len(apart):
        stays = np.ones(len(slices), np.bool_)
        stays[apart] = False
        slices, args = slices.take(stays), args.take(np.flatnonzero(stays), len(slices))
    writer.add(
        None,
        slices.category,
        slices.name,
        slices.start_ns,
        slices.duration_ns,
        slices.track,
        _pairs(args),
        _pairs(slices.fields),
    )
    if ranges is not None:
        writer.add(None, *ranges.columns(), _pairs(ranges.args), _pairs(Args()))
    for marks in tables:
        _add_marks(writer, marks)
    return writer, len(slices) + len(ranges or ()) + sum(len(marks) for marks in tables)


def _add_marks(writer: _native.ChromeWriter, marks: Marks) -> None:
    # Foreign events without a phase are written as instants.
    is_letter = (marks.phase > ord(" ")) & (marks.phase < _DELETE) & ~np.isin(marks.phase, _QUOTES)
    writer.add(
        np.where(is_letter, marks.phase, np.uint8(ord("i"))),
        marks.category,
        marks.name,
        marks.time_ns,
        None,
        marks.track,
        _pairs(marks.args),
        _pairs(marks.fields),
    )


def _pairs(args: Args) -> _Pairs:
    integers = [
        (f"{json.dumps(key)}: ".encode(), column.rows, column.values)
        for key, column in args.integers.items()
    ]
    return integers, args.rest if len(args.rest) else None


def _header(trace: Trace, trace_name: str) -> str:
    pairs = recording_header(trace, trace_name) if is_recording(trace) else _foreign_header(trace)
    lines = [f"{json.dumps(key)}: {json_text(value)},\n" for key, value in pairs.items()]
    return "{\n" + "".join(lines) + '"traceEvents": [\n'


def _foreign_header(trace: Trace) -> Mapping[str, Any]:
    ours = {"traceEvents", *((FRAMES, SAMPLES) if len(trace.samples) else ())}
    pairs = {key: value for key, value in trace.info.user.items() if key not in ours}
    if trace.info.wall_offset_ns:
        pairs.setdefault("baseTimeNanoseconds", trace.info.wall_offset_ns)
    return pairs


def json_text(value: Any) -> str:
    """Return ``value`` as strict JSON; NaN and infinities, which JSON lacks, become strings."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_without_non_finite(value), allow_nan=False)


def _without_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _without_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_non_finite(item) for item in value]
    return value


def _id_text(word: str) -> str:
    return word if INTEGER.fullmatch(word) else json.dumps(word)


def _track_ids(track: Track) -> str:
    return f'"pid": {_id_text(track.pid)}, "tid": {_id_text(track.tid)}'


def _track_events(trace: Trace) -> Iterator[str]:
    """Yield the metadata events that name and sort processes and threads."""
    seen: set[tuple[str, str]] = set()
    info = trace.info
    start_ns = info.start_ns or (int(trace.slices.start_ns[0]) if len(trace.slices) else 0)
    time = f"{'-' if start_ns < 0 else ''}{abs(start_ns) // 1000}.{abs(start_ns) % 1000:03}"
    apart = set(trace.slices.track[async_rows(trace.slices)].tolist())  # no threads
    for at, track in enumerate(trace.tracks):
        process = f'"pid": {_id_text(track.pid)}, "tid": 0'
        for name, key, value, ids in (
            ("process_name", "name", track.process_name or None, process),
            ("process_labels", "labels", track.process_label or None, process),
            ("process_sort_index", "sort_index", track.process_sort, process),
            ("thread_name", "name", track.thread_name or None, _track_ids(track)),
            ("thread_sort_index", "sort_index", track.thread_sort, _track_ids(track)),
        ):
            is_thread = name.startswith("thread")
            if value is None or (name, ids) in seen or (is_thread and at in apart):
                continue
            seen.add((name, ids))
            args = f'{{"{key}": {json.dumps(value)}}}'
            yield f'{{"ph": "M", "name": "{name}", "ts": {time}, {ids}, "args": {args}}}'
