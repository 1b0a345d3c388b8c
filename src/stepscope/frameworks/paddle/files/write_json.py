"""Writes a Trace as Paddle's Chrome JSON.

Unlike ``paddle.profiler``, this escapes names, and keeps three decimals of the microseconds in
``ts``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope import _native
from stepscope.formats.base.files import Sink, output_file
from stepscope.formats.base.registry import Progress
from stepscope.formats.base.texts import AddedTexts
from stepscope.formats.chrome.write import json_text, text_chunks_of
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.files.write_pb import VERSION, extra_info
from stepscope.frameworks.paddle.memory_events import TracerMemEventType, place_of_device
from stepscope.frameworks.paddle.views.arguments import input_lists
from stepscope.frameworks.paddle.views.forest import NO_ROW, Forest
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import BYTES, CALL_STACK, INPUT_DIMS, INPUT_TYPES
from stepscope.trace.model import NO_CORRELATION, Int64, IntColumn, Trace, UInt32

_Pairs = tuple[list[tuple[bytes, "UInt32", Any]], "UInt32 | None"]

# Paddle shows these types on a separate line for Python beside the thread's.
_OF_PYTHON = (
    TracerEventType.ProfileStep,
    TracerEventType.Forward,
    TracerEventType.Backward,
    TracerEventType.Dataloader,
    TracerEventType.Optimization,
    TracerEventType.PythonOp,
    TracerEventType.PythonUserDefined,
)
_LANGUAGES = ("C++", "Python")
_DEVICE_SORT = 0x10000000  # devices stand below all processes
_HOST_COLOUR, _CALL_COLOUR, _DEVICE_COLOUR = (
    "thread_state_runnable",
    "thread_state_running",
    "cq_build_failed",
)
_DEVICE_KEYS = ("device", "context", "stream", "registers per thread", "shared memory")


def export_paddle_json(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    """Write ``trace`` as Paddle's Chrome JSON, compressed when ``path`` ends in ``.gz``."""
    with output_file(path) as sink:
        write_paddle_json(trace, sink, progress)


def write_paddle_json(trace: Trace, sink: Sink, progress: Progress | None) -> None:
    forest = Forest(trace)
    writer, total = _writer(forest)
    sink.write(_header(trace).encode())
    for chunk, done in text_chunks_of(writer):
        sink.write(chunk.data)
        if progress is not None:
            progress(done, total)
    lines = list(_track_events(forest))
    if total and lines:
        sink.write(b",\n")
    sink.write(",\n".join(lines).encode())
    sink.write(f'\n],\n"ExtraInfo": {json_text(extra_info(trace))}\n}}\n'.encode())


def _header(trace: Trace) -> str:
    user = trace.info.user
    version, span = user.get("schemaVersion"), user.get("span_index")
    pairs: dict[str, Any] = {
        "displayTimeUnit": "ms",
        "schemaVersion": version if isinstance(version, str) else VERSION,
        "span_index": str(span) if str(span).isdecimal() else "0",
    }
    if devices := trace.devices():
        pairs["deviceProperties"] = [dict(device.properties) for device in devices]
    lines = [f"{json.dumps(key)}: {json_text(value)},\n" for key, value in pairs.items()]
    return "{\n" + "".join(lines) + '"traceEvents": [\n'


def _writer(forest: Forest) -> tuple[_native.ChromeWriter, int]:
    trace, slices = forest.trace, forest.trace.slices
    texts = AddedTexts(trace.strings)
    offset = trace.info.wall_offset_ns
    origin = int(slices.start_ns.min(initial=np.iinfo(np.int64).max)) if len(slices) else 0
    categories = np.array([texts.add(event.name) for event in TracerEventType], np.uint32)
    args, fields = _slice_args(forest, texts), _colours(forest, texts)
    memory = _memory_table(forest, texts)
    flows = list(_flow_tables(forest, texts))
    blob, offsets = texts.table()
    tracks = [_ids(forest, i, language) for i in range(len(trace.tracks)) for language in (0, 1)]
    writer = _native.ChromeWriter(blob, offsets, tracks, False)
    writer.add(
        None,
        categories[forest.types],
        slices.name,
        slices.start_ns + offset,
        slices.duration_ns,
        slices.track * 2 + np.isin(forest.types, _OF_PYTHON).astype(np.uint32),
        args,
        fields,
        origin + offset,
    )
    tables = [memory, *flows] if len(trace.memory) else flows
    for table in tables:
        writer.add(*table)
    return writer, len(slices) + sum(len(table[1]) for table in tables)


def _ids(forest: Forest, track: int, language: int) -> bytes:
    pid, tid = forest.places[track]
    if forest.device_tracks[track]:
        return f'"pid": {pid}, "tid": {tid}'.encode()
    return f'"pid": {pid}, "tid": "{tid}({_LANGUAGES[language]})"'.encode()


def _slice_args(forest: Forest, texts: AddedTexts) -> _Pairs:
    """Return the arguments under Paddle's keys; the writer adds the times."""
    slices = forest.trace.slices
    integers = []
    tied = np.flatnonzero(
        (slices.correlation != NO_CORRELATION) & (forest.is_device | forest.is_runtime)
    )
    integers.append(_column("correlation id", tied, slices.correlation[tied]))
    work = np.flatnonzero(forest.is_device)
    if len(work):
        for key in _DEVICE_KEYS:
            integers.append(_column(key, work, forest.integers(key)[work]))
        for key in (BYTES, "value"):
            if key in slices.args.integers:
                integers.append(_pair(key, slices.args.integers[key]))
    return integers, _details(forest, texts)


def _column(key: str, rows: NDArray[np.intp], values: Int64) -> tuple[bytes, UInt32, Int64]:
    return f"{json.dumps(key)}: ".encode(), rows.astype(np.uint32), values


def _pair(key: str, column: IntColumn) -> tuple[bytes, UInt32, Int64]:
    return f"{json.dumps(key)}: ".encode(), column.rows, column.values


def _details(forest: Forest, texts: AddedTexts) -> UInt32 | None:
    """Return the other arguments: shapes of operators, and the device's own fragments unchanged."""
    trace = forest.trace
    rest = trace.slices.args.rest
    is_operator = forest.types == TracerEventType.Operator
    if not len(rest):
        rest = np.zeros(len(trace.slices), np.uint32)
    if not rest.any() and not is_operator.any():
        return None
    new = np.zeros(len(rest), np.uint32)
    new[forest.is_device] = rest[forest.is_device]
    for fragment in np.unique(rest[forest.is_host]):
        pairs = pairs_of(trace.strings[int(fragment)]) if fragment else {}
        rows = forest.is_host & (rest == fragment)
        if INPUT_DIMS not in pairs and INPUT_TYPES not in pairs:
            rows &= is_operator
        if rows.any():
            new[rows] = texts.add(_inputs(pairs))
    return new


def _inputs(pairs: dict[str, Any]) -> str:
    shapes, dtypes = input_lists(pairs)
    stack = pairs.get(CALL_STACK)
    inputs = {
        "input_shapes": shapes,
        "input_dtypes": dtypes,
        "callstack": stack if isinstance(stack, str) else "",
    }
    return json_text(inputs)[1:-1]


def _colours(forest: Forest, texts: AddedTexts) -> _Pairs:
    ids = [texts.add(f'"cname": "{c}"') for c in (_HOST_COLOUR, _CALL_COLOUR, _DEVICE_COLOUR)]
    part = forest.is_runtime + 2 * forest.is_device.astype(np.int8)
    return [], np.array(ids, np.uint32)[part]


def _memory_table(forest: Forest, texts: AddedTexts) -> tuple[Any, ...]:
    memory, strings = forest.trace.memory, forest.trace.strings
    figures = forest.memory_figures
    rows = np.arange(len(memory), dtype=np.uint32)
    categories = np.array([texts.add(kind.name) for kind in TracerMemEventType], np.uint32)
    place = np.zeros(len(strings), np.uint32)
    for device in np.unique(memory.device):
        word = place_of_device(strings[int(device)])
        place[device] = texts.add(f'"place": {json.dumps(word)}')
    integers = [
        (b'"addr": "', rows, memory.address),
        (b'"increase_bytes": ', rows, figures["increase"]),
        (b'"current_allocated": ', rows, memory.allocated),
        (b'"current_reserved": ', rows, memory.reserved),
        (b'"peak_allocated": ', rows, figures["peak_allocated"]),
        (b'"peak_reserved": ', rows, figures["peak_reserved"]),
    ]
    return (
        np.full(len(memory), ord("i"), np.uint8),
        categories[figures["type"]],
        np.full(len(memory), texts.add("[memory]"), np.uint32),
        memory.time_ns + forest.trace.info.wall_offset_ns,
        None,
        memory.track * 2,
        (integers, place[memory.device]),
        ([], np.full(len(memory), texts.add('"s": "t"'), np.uint32)),
    )


def _flow_tables(forest: Forest, texts: AddedTexts) -> Iterator[tuple[Any, ...]]:
    """Yield the arrows from launches to device work; they start and end in the middle of both."""
    slices = forest.trace.slices
    work = np.flatnonzero(forest.launch != NO_ROW)
    if not len(work):
        return
    name, category, end = texts.add("launch"), texts.add("async"), texts.add('"bp": "e"')
    for phase, rows in (("s", np.unique(forest.launch[work])), ("f", work)):
        every = np.arange(len(rows), dtype=np.uint32)
        ids = [(b'"id": ', every, slices.correlation[rows])]
        middle = slices.start_ns[rows] + slices.duration_ns[rows] // 2
        yield (
            np.full(len(rows), ord(phase), np.uint8),
            np.full(len(rows), category, np.uint32),
            np.full(len(rows), name, np.uint32),
            middle + forest.trace.info.wall_offset_ns,
            None,
            slices.track[rows] * 2,
            ([], None),
            (ids, np.full(len(rows), end, np.uint32) if phase == "f" else None),
        )


def _track_events(forest: Forest) -> Iterator[str]:
    """Yield the metadata events that name and order processes, threads and devices."""
    seen = set()
    for i, track in enumerate(forest.trace.tracks):
        pid, tid = forest.places[i]
        is_device = forest.device_tracks[i]
        process = f"Device {pid} (GPU)" if is_device else f"Process {pid} (CPU)"
        order = pid + _DEVICE_SORT if is_device else pid
        if (pid, is_device) not in seen:
            yield _metadata("process_sort_index", f'"pid": {pid}, "tid": {tid}', order)
        seen.add((pid, is_device))
        for number in (0,) if is_device else (1, 0):
            ids = _ids(forest, i, number).decode()
            language = _LANGUAGES[number]
            thread = f"thread {tid}:{track.thread_name}({language})"
            sort = tid if is_device else 2 * tid + (1 - number)
            yield _metadata("process_name", ids, process)
            yield _metadata("thread_name", ids, f"stream {tid}" if is_device else thread)
            yield _metadata("thread_sort_index", ids, sort)


def _metadata(name: str, ids: str, value: str | int) -> str:
    key = "sort_index" if name.endswith("_index") else "name"
    return f'{{"ph": "M", "name": "{name}", {ids}, "args": {{"{key}": {json.dumps(value)}}}}}'
