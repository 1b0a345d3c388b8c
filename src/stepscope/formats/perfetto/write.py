"""Writes Perfetto's traces: the native writer makes the packets, this module their contents.

Every slice has its exact start and duration. Perfetto's tracks can only nest, so slices that
overlap without nesting have tracks of their own below the thread's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope import _native
from stepscope.analysis.calls.launches import launched_work
from stepscope.formats.base.asynchronous import async_rows
from stepscope.formats.base.files import Sink, output_file
from stepscope.formats.base.registry import Progress
from stepscope.formats.base.sampled import SampledStacks, rows_by_track
from stepscope.formats.base.texts import AddedTexts
from stepscope.formats.chrome.flows import forward_backward_links
from stepscope.formats.chrome.write import text_chunks_of
from stepscope.formats.perfetto import messages
from stepscope.formats.perfetto.counters import COUNTER_PHASE, Counter, counters
from stepscope.formats.perfetto.tracks import Described, described
from stepscope.trace.build import running_at
from stepscope.trace.keys import FORWARD_THREAD, SEQUENCE_NUMBER
from stepscope.trace.model import (
    NO_CORRELATION,
    NO_SEQUENCE,
    NO_SLICE,
    NO_STACK,
    Int64,
    IntColumn,
    Marks,
    SliceFlags,
    Trace,
    UInt32,
)
from stepscope.trace.stored_info import stored_info

_NS_OF_US = 1000
_FIRST_SEQUENCE = 1 << 20  # those of slices are counted from 1
_ROWS_AT_A_TIME = 1 << 14
_MAPPING = 1  # all frames are of one: Perfetto wants one for each
_PYTHON = "python"
_NO_FRAMES = "<no Python frames>"


def sample_packets(trace: Trace, tracks: Described, shift_ns: int) -> Iterator[bytes]:
    """Yield the packets of all samples on threads that Perfetto knows as threads."""
    if not len(trace.samples):
        return
    stacks = SampledStacks(trace)
    for track, rows in rows_by_track(trace.samples.track).items():
        ids = tracks.os_ids[track]
        if ids is None:
            continue
        sequence = _FIRST_SEQUENCE + track
        interned = _Interned()
        times_us = ((trace.samples.time_ns[rows] + shift_ns) // _NS_OF_US).tolist()
        yield messages.sampled_thread(sequence, ids, times_us[0])
        numbers = stacks.of_sample[rows].tolist()
        last_us = times_us[0]
        for first in range(0, len(numbers), _ROWS_AT_A_TIME):
            some = numbers[first : first + _ROWS_AT_A_TIME]
            at = times_us[first : first + _ROWS_AT_A_TIME]
            deltas = [now - before for now, before in zip(at, [last_us, *at], strict=False)]
            last_us = at[-1]
            called = [interned.stack(number, stacks) for number in some]
            yield messages.samples(sequence, interned.new_entries(), called, deltas)


class _Interned:
    """The interned functions, frames and stacks of a sequence."""

    def __init__(self) -> None:
        self._functions: dict[str, int] = {}
        self._stacks: dict[int, int] = {}
        self._new: list[tuple[int, Any]] = [
            (17, [(1, 1), (2, _PYTHON)]),
            (19, [(1, _MAPPING), (7, 1)]),
        ]

    def stack(self, number: int, stacks: SampledStacks) -> int:
        """Return the number of a stack."""
        if number not in self._stacks:
            frames = [self._frame(text) for text in stacks.frames(number) or (_NO_FRAMES,)]
            self._stacks[number] = len(self._stacks) + 1
            message = [(1, self._stacks[number]), *((2, frame) for frame in frames)]
            self._new.append((7, message))
        return self._stacks[number]

    def _frame(self, text: str) -> int:
        if text not in self._functions:
            number = self._functions[text] = len(self._functions) + 1
            self._new.append((5, [(1, number), (2, text)]))
            self._new.append((6, [(1, number), (2, number), (3, _MAPPING), (4, number)]))
        return self._functions[text]

    def new_entries(self) -> list[tuple[int, Any]]:
        """Return the entries that were added since the last call."""
        new, self._new = self._new, []
        return new


_FLOW_PHASES = tuple(b"stf")
_FLOW_END = ord("f")
_NO_INSTANTS = (*_FLOW_PHASES, COUNTER_PHASE)


def export_perfetto(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    with output_file(path) as sink:
        write_perfetto(trace, sink, progress)


def write_perfetto(trace: Trace, sink: Sink, progress: Progress | None = None) -> None:
    first_ns = _first_ns(trace)
    shift_ns = max(-first_ns, 0)  # Perfetto's times are not negative
    tracks = described(trace)
    numbers = list(enumerate(counters(trace), tracks.free_uuid))
    own = {
        "info": stored_info(trace.info),
        "shift_ns": shift_ns,
        "tracks": [asdict(track) for track in trace.tracks],
        "uuids": tracks.uuids.tolist(),
        "derived": [uuid for uuid, counter in numbers if counter.is_derived],
    }
    sink.write(messages.clocks(first_ns + shift_ns, trace.info.wall_offset_ns - shift_ns))
    sink.write(messages.own(own))
    for packet in tracks.packets:
        sink.write(packet)
    for uuid, counter in numbers:
        parent = 0 if counter.track is None else int(tracks.group_uuids[counter.track])
        sink.write(messages.counter(uuid, parent, counter.name, is_bytes=counter.is_bytes))
    for packet in sample_packets(trace, tracks, shift_ns):
        sink.write(packet)
    writer, total = _writer(trace, tracks, numbers, first_ns, shift_ns)
    for chunk, done in text_chunks_of(writer):
        sink.write(chunk.data)
        if progress is not None:
            progress(done, total)


def _first_ns(trace: Trace) -> int:
    times = [trace.slices.start_ns[:1], trace.memory.time_ns[:1], trace.marks.time_ns]
    first = [int(column.min()) for column in times if len(column)]
    if trace.info.start_ns:
        first.append(trace.info.start_ns)
    return min(first, default=0)


def _writer(
    trace: Trace,
    tracks: Described,
    numbers: list[tuple[int, Counter]],
    first_ns: int,
    shift_ns: int,
) -> tuple[_native.PerfettoWriter, int]:
    texts = AddedTexts(trace.strings)
    slices = _slices(trace, texts, shift_ns)
    instants = _instants(trace, shift_ns)
    blob, offsets = texts.table()
    free_uuid = tracks.free_uuid + len(numbers)
    start_ns = first_ns + shift_ns
    writer = _native.PerfettoWriter(blob, offsets, tracks.uuids, start_ns, free_uuid)
    for table, integers in (slices, instants):
        if len(table["start_ns"]):
            writer.add_events(table, integers)
    for uuid, counter in numbers:
        time_ns, values = _moved(counter.time_ns, shift_ns), np.ascontiguousarray(counter.values)
        whole = values.dtype.kind == "i"
        writer.add_counter(uuid, time_ns, values if whole else None, None if whole else values)
    rows = [slices[0]["start_ns"], instants[0]["start_ns"], *(one.time_ns for _, one in numbers)]
    return writer, sum(map(len, rows))


_Table = tuple[dict[str, Any], list[tuple[str, "UInt32", "Int64"]]]


def _slices(trace: Trace, texts: AddedTexts, shift_ns: int) -> _Table:
    slices, linked = trace.slices, _flows(trace)
    leaves = slices.flags & np.uint8(SliceFlags.ASYNC)
    leaves[async_rows(slices)] = 0  # these have tracks of their own
    table = {
        "name": slices.name,
        "category": slices.category,
        "track": slices.track,
        "start_ns": _moved(slices.start_ns, shift_ns),
        "duration_ns": slices.duration_ns,
        "parent": slices.parent,
        "is_async": leaves,
        "rest": slices.args.rest,
        "stack": _stacks(trace, texts),
        "flow_row": linked.row,
        "flow": linked.flow,
        "last_flow_row": linked.last_row,
        "last_flow": linked.last_flow,
    }
    return table, _integers({**_derived(trace), **slices.args.integers})


def _instants(trace: Trace, shift_ns: int) -> _Table:
    marks = trace.marks
    rows = np.flatnonzero(~np.isin(marks.phase, _NO_INSTANTS))
    some = marks.take(rows[np.argsort(marks.time_ns[rows], kind="stable")])
    table = {
        "name": some.name,
        "category": some.category,
        "track": some.track,
        "start_ns": _moved(some.time_ns, shift_ns),
        "rest": some.args.rest,
    }
    return table, _integers(some.args.integers)


def _moved(times_ns: Int64, shift_ns: int) -> Int64:
    return np.ascontiguousarray(times_ns + shift_ns if shift_ns else times_ns)


def _integers(columns: dict[str, IntColumn] | Any) -> list[tuple[str, UInt32, Int64]]:
    return [
        (key, column.rows, column.values) for key, column in columns.items() if len(column.rows)
    ]


def _derived(trace: Trace) -> dict[str, IntColumn]:
    """Return the numbers that link slices, under torch.profiler's names."""
    slices = trace.slices
    ones = np.ones(len(slices), np.int64)
    return {
        SEQUENCE_NUMBER: IntColumn.where(slices.sequence != NO_SEQUENCE, slices.sequence),
        FORWARD_THREAD: IntColumn.where(slices.forward_thread > 0, slices.forward_thread),
        "correlation": IntColumn.where(slices.correlation != NO_CORRELATION, slices.correlation),
        "Unfinished": IntColumn.where(slices.flags & SliceFlags.UNFINISHED != 0, ones),
    }


def _stacks(trace: Trace, texts: AddedTexts) -> UInt32 | None:
    """Return the text of each slice's stack, or None without any.

    The innermost frame comes first, as in torch.profiler's files.
    """
    rows = trace.slices.stack
    distinct = _native.present(np.ascontiguousarray(rows))
    if not (distinct != NO_STACK).any():
        return None
    ids = np.zeros(len(trace.stacks), np.uint32)
    for stack in distinct.tolist():
        if stack != NO_STACK:
            frames = (trace.strings[frame] for frame in trace.stacks.frames(stack))
            ids[stack] = texts.add(";".join(frames))
    of_row: UInt32 = ids[rows]
    return of_row


@dataclass(frozen=True, slots=True)
class _Flows:
    """Which _flows pass through which slices, and which end there; rows ascend."""

    row: UInt32
    flow: Int64
    last_row: UInt32
    last_flow: Int64


def _flows(trace: Trace) -> _Flows:
    """Return the _flows of a file; without any, those that the trace implies."""
    is_flow = np.isin(trace.marks.phase, _FLOW_PHASES)
    if is_flow.any():
        return _recorded_flows(trace, np.flatnonzero(is_flow))
    work, call = launched_work(trace)
    forward, backward = forward_backward_links(trace)
    ends = np.concatenate((work, backward))
    numbers = np.arange(1, len(ends) + 1, dtype=np.int64)
    return _ordered_flows(np.concatenate((call, forward)), numbers, ends, numbers)


def _recorded_flows(trace: Trace, rows: Int64) -> _Flows:
    marks = trace.marks.take(rows)
    at = running_at(marks.time_ns, marks.track, trace.slices)
    is_inside = at != NO_SLICE
    numbers = _flow_numbers(marks)
    first, last = is_inside & (marks.phase != _FLOW_END), is_inside & (marks.phase == _FLOW_END)
    return _ordered_flows(at[first], numbers[first], at[last], numbers[last])


def _flow_numbers(marks: Marks) -> Int64:
    """Return a number for each flow: _flows with different names may share an id."""
    ids = marks.fields.dense("id", len(marks), 0)
    rest = marks.fields.rest if len(marks.fields.rest) else np.zeros(len(marks), np.uint32)
    named = "id" in marks.fields.integers
    key = ids if named else rest.astype(np.int64)
    keys = np.stack((key, marks.name.astype(np.int64), marks.category.astype(np.int64)), axis=1)
    _, numbers = np.unique(keys, axis=0, return_inverse=True)
    return numbers.ravel().astype(np.int64) + 1


def _ordered_flows(
    row: NDArray[np.integer], flow: Int64, last_row: NDArray[np.integer], last_flow: Int64
) -> _Flows:
    order, last_order = np.argsort(row, kind="stable"), np.argsort(last_row, kind="stable")
    return _Flows(
        row[order].astype(np.uint32),
        np.ascontiguousarray(flow[order]),
        last_row[last_order].astype(np.uint32),
        np.ascontiguousarray(last_flow[last_order]),
    )
