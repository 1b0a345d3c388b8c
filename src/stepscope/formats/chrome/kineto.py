"""The parts of torch.profiler's JSON besides the events, derived for our own recordings."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.base.tree import SPAN_CATEGORY
from stepscope.formats.chrome.device import external_ids
from stepscope.formats.chrome.python_ids import module_number, python_ids
from stepscope.formats.chrome.samples import FRAMES, SAMPLES
from stepscope.trace.keys import (
    CALL_STACK,
    EVENT_INDEX,
    EXTERNAL_ID,
    FORWARD_THREAD,
    RECORD_FUNCTION_ID,
    SEQUENCE_NUMBER,
)
from stepscope.trace.kinds import CALL_KINDS, device_type_number
from stepscope.trace.model import (
    NO_CORRELATION,
    NO_SEQUENCE,
    NO_STACK,
    PRODUCER,
    Args,
    IntColumn,
    Marks,
    SliceFlags,
    SliceKind,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.trace.model import Int64, Trace, TraceInfo, UInt32
    from stepscope.trace.schema import Captured

    AddText = Callable[[str], int]

_TOLD_ABOVE = ("trace_id", "distributedInfo")
_DEVICE_DIGITS = 9  # of a device's index at most


def is_recording(trace: Trace) -> bool:
    """Return whether Stepscope recorded the trace."""
    return trace.info.producer == PRODUCER


def recording_header(trace: Trace, trace_name: str) -> dict[str, Any]:
    """Return the top-level keys of a recording: ours, then the user's.

    A user's key that collides with ours is written as ``user.<key>``, except the trace's id and the
    description of process groups.
    """
    info = trace.info
    header: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": list(info.devices)}
    if info.rank is not None:
        header["distributedInfo"] = {"rank": info.rank, "world_size": info.world_size}
    if isinstance(distributed := info.user.get("distributedInfo"), dict):  # torch's own description
        header["distributedInfo"] = distributed
    header |= {
        "trace_id": str(info.user.get("trace_id", _trace_id(info))),
        "host_name": info.host,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": info.wall_offset_ns,
        "stepscope": _provenance(info),
    }
    if trace_name:
        header["traceName"] = trace_name
    reserved = {*header, "traceEvents", FRAMES, SAMPLES}
    for key, value in info.user.items():
        if key not in _TOLD_ABOVE:
            header[f"user.{key}" if key in reserved else key] = value
    return header


def _trace_id(info: TraceInfo) -> str:
    """Return an id that is the same in each export of a trace."""
    seed = f"{info.host} {info.pid} {info.start_ns + info.wall_offset_ns} {info.end_ns}"
    return hashlib.blake2b(seed.encode(), digest_size=16).hexdigest().upper()


def _provenance(info: TraceInfo) -> dict[str, Any]:
    return {
        "versions": dict(info.versions),
        "sources": dict(info.sources),
        "start_ns": info.start_ns,
        "end_ns": info.end_ns,
        "pid": info.pid,
        "losses": asdict(info.losses),
        "overhead_ns": info.overhead_ns,
        "anomalies": dict(info.anomalies),
    }


SPAN_MARKS = ("Iteration Start: PyTorch Profiler", "Record Window End")
SPAN_PROCESSES = ("Spans", "Traces", "")
_SPANS_LAST = 536870912  # the sort index in torch's files


def span_events(trace: Trace) -> Iterator[dict[str, Any]]:
    """Yield torch.profiler's events about the whole recording: its span and its end."""
    start, end = trace.info.start_ns / 1000, trace.info.end_ns / 1000
    spans, traces, nobody = SPAN_PROCESSES
    named = {"name": "PyTorch Profiler (0)", "pid": spans, "tid": "PyTorch Profiler"}
    of_span = {"ts": start, "dur": end - start, "args": {"Op count": 0}}
    yield {"ph": "X", "cat": SPAN_CATEGORY, **named, **of_span}
    order = {"ts": start, "pid": spans, "tid": 0, "args": {"sort_index": _SPANS_LAST}}
    yield {"ph": "M", "name": "process_sort_index", **order}
    begins, ends = SPAN_MARKS
    thread = {"pid": traces, "tid": "Trace PyTorch Profiler"}
    yield {"ph": "i", "s": "g", "name": begins, **thread, "ts": start}
    yield {"ph": "i", "s": "g", "name": ends, "pid": nobody, "tid": nobody, "ts": end}


def without_span(captured: Captured) -> Captured:
    """Leave out what ``span_events`` wrote; its tracks are the last ones."""
    strings, tracks = captured.strings, captured.tracks
    count = len(tracks)
    while count and tracks[count - 1].pid in SPAN_PROCESSES:
        count -= 1
    ids = strings.ids_of({SPAN_CATEGORY, *SPAN_MARKS})
    if count == len(tracks) or SPAN_CATEGORY not in ids:
        return captured
    slices, marks = captured.slices, captured.marks
    rows = np.flatnonzero(slices.category != ids[SPAN_CATEGORY])
    mark_rows = np.flatnonzero(~np.isin(marks.name, [ids[m] for m in SPAN_MARKS if m in ids]))
    slices, marks = slices.take(rows), marks.take(mark_rows)
    # An edited file may have other events on those tracks.
    used = max((int(table.track.max()) + 1 for table in (slices, marks) if len(table)), default=0)
    return replace(captured, slices=slices, marks=marks, tracks=tracks[: max(count, used)])


def derived_args(trace: Trace, add_text: AddText) -> Args:
    """Return the slices' arguments with those that torch.profiler adds to every event."""
    args = trace.slices.args
    derived = {key: column for key, column in _columns(trace) if key not in args.integers}
    return Args({**derived, **args.integers}, _with_stacks(trace, add_text))


def _with_stacks(trace: Trace, add_text: AddText) -> UInt32:
    """Return the slices' other arguments, with the recorded call stacks."""
    slices, strings = trace.slices, trace.strings
    rows = np.flatnonzero((slices.stack != NO_STACK) & (slices.kind == SliceKind.OPERATOR))
    if not len(rows):
        return slices.args.rest
    rest = slices.args.rest.copy() if len(slices.args.rest) else np.zeros(len(slices), np.uint32)
    # One text per distinct pair of existing arguments and stack.
    pairs = np.stack((rest[rows], slices.stack[rows]), axis=1)
    distinct, pair_of_row = np.unique(pairs, axis=0, return_inverse=True)
    ids = np.zeros(len(distinct), np.uint32)
    for i, (fragment, stack) in enumerate(distinct.tolist()):
        frames = ";".join(strings[frame] for frame in trace.stacks.frames(stack))
        before = f"{strings[fragment]}, " if fragment else ""
        ids[i] = add_text(f'{before}"{CALL_STACK}": {json.dumps(frames)}')
    rest[rows] = ids[pair_of_row.ravel()]
    return rest


def memory_marks(trace: Trace, add_text: AddText) -> Marks:
    """Return torch.profiler's ``[memory]`` instants for allocations and releases."""
    memory = trace.memory
    count = len(memory)
    rows = np.arange(count, dtype=np.uint32)
    devices = np.unique(memory.device)
    kinds = {int(device): _device_numbers(trace.strings[int(device)]) for device in devices}
    numbers = np.array([kinds[int(device)] for device in devices], np.int64)
    of_row = numbers[np.searchsorted(devices, memory.device)]
    values = {
        "Total Reserved": memory.reserved,
        "Total Allocated": memory.allocated,
        "Bytes": memory.size,
        "Device Id": of_row[:, 1],
        "Device Type": of_row[:, 0],
        "Addr": memory.address,
        EVENT_INDEX: rows.astype(np.int64) + len(trace.slices),
    }
    return Marks(
        phase=np.full(count, ord("i"), np.uint8),
        category=np.full(count, add_text("cpu_instant_event"), np.uint32),
        name=np.full(count, add_text("[memory]"), np.uint32),
        time_ns=memory.time_ns,
        track=memory.track,
        args=Args({key: IntColumn(rows, column) for key, column in values.items()}),
        fields=Args(rest=np.full(count, add_text('"s": "t"'), np.uint32)),
    )


def _device_numbers(name: str) -> tuple[int, int]:
    """Return torch's device type, and the device's index, -1 without one."""
    kind, _, index = name.partition(":")
    is_number = index.isdecimal() and len(index) <= _DEVICE_DIGITS
    return device_type_number(kind), int(index) if is_number else -1


def _columns(trace: Trace) -> Iterator[tuple[str, IntColumn]]:
    slices = trace.slices
    index = np.arange(len(slices), dtype=np.int64)
    yield EXTERNAL_ID, external_ids(trace)
    numbered = slices.sequence != NO_SEQUENCE
    yield SEQUENCE_NUMBER, IntColumn.where(numbered, slices.sequence)
    # Present wherever a sequence number is, as in torch's files: 0 means a forward operator.
    yield FORWARD_THREAD, IntColumn.where(numbered, np.maximum(slices.forward_thread, 0))
    yield "correlation", IntColumn.where(slices.correlation != NO_CORRELATION, slices.correlation)
    yield EVENT_INDEX, IntColumn.where(~slices.on_device, index)
    if "torch" in trace.info.versions:  # 0 unless an execution trace observer ran
        functions = np.flatnonzero(np.isin(slices.kind, CALL_KINDS)).astype(np.uint32)
        yield RECORD_FUNCTION_ID, IntColumn(functions, np.zeros(len(functions), np.int64))
    calls = np.flatnonzero(slices.kind == SliceKind.PYTHON)
    if len(calls):
        ids = python_ids(trace)
        yield "Python id", IntColumn(calls.astype(np.uint32), ids.numbers[calls])
        yield "Python parent id", IntColumn(calls.astype(np.uint32), ids.callers[calls])
        yield "Python module id", _module_numbers(trace, calls)
    unfinished = np.flatnonzero(slices.flags & SliceFlags.UNFINISHED)
    yield "Unfinished", IntColumn(unfinished.astype(np.uint32), np.ones(len(unfinished), np.int64))


def _module_numbers(trace: Trace, calls: Int64) -> IntColumn:
    """Return which calls are modules, with the module's number in its class."""
    names, which = np.unique(trace.slices.name[calls], return_inverse=True)
    numbers = np.array([module_number(trace.strings[int(name)]) for name in names], np.int64)
    of_call = numbers[which]
    chosen = np.flatnonzero(of_call >= 0)
    return IntColumn(calls[chosen].astype(np.uint32), of_call[chosen])
