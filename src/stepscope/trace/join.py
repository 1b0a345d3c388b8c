"""Several traces as one: the cycles of a run, the processes of a job."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stepscope import _native
from stepscope.trace.build import step_number
from stepscope.trace.model import (
    NO_CORRELATION,
    NO_PARENT,
    NO_SEQUENCE,
    NO_SLICE,
    NO_STEP,
    PRODUCER,
    Args,
    IntColumn,
    Losses,
    Marks,
    Memory,
    Owners,
    SliceKind,
    Slices,
    Trace,
    TraceInfo,
    Track,
)
from stepscope.trace.stack_tree import StackTree
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from stepscope.trace.model import Int32, Int64, UInt32

_Table = TypeVar("_Table", Slices, Marks, Memory, Owners)
_Timed = TypeVar("_Timed", Memory, Owners)
_Process = tuple[str, int]  # host and pid

_SAME_CLOCK_NS = 1_000_000_000
_EXTERNAL_ID = "External id"
_FLOW_ID = "id"


def join_traces(traces: Sequence[Trace]) -> Trace:
    """Return one trace with everything that is in any of them, on the clock of the first.

    Threads of one process are the same tracks in all its traces. The numbers by which events of
    one process refer to each other (sequence, correlation, flow and external ids) are moved apart
    between processes. What is nested stays as it is; slices of a trace without steps get the number
    of the step in which they started in one with steps.
    """
    if not traces:
        raise ValueError("there are no traces to join: give at least one")
    if len(traces) == 1:
        return traces[0]
    joiner = _Joiner(traces)
    slices, new_row = _in_order(_with_steps([joiner.slices(i) for i in range(len(traces))], traces))
    first_rows = _offsets([len(trace.slices) for trace in traces])
    return Trace(
        slices=slices,
        tracks=joiner.tracks,
        strings=joiner.strings,
        info=_info([trace.info for trace in traces], joiner.shifts_ns),
        marks=_stacked([joiner.marks(i) for i in range(len(traces))]),
        stacks=joiner.stacks.table(),
        memory=_by_time(
            _stacked([joiner.memory(i, new_row, first_rows[i]) for i in range(len(traces))])
        ),
        owners=_by_time(_stacked([joiner.owners(i) for i in range(len(traces))])),
    )


class _Joiner:
    """What the tables of all traces have in common: strings, tracks, stacks, clock and ids."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        self._traces = traces
        self.shifts_ns = [_clock_shift_ns(traces[0].info, trace.info) for trace in traces]
        texts: dict[str, int] = {}
        self._text = [
            np.array([texts.setdefault(text, len(texts)) for text in trace.strings], np.uint32)
            for trace in traces
        ]
        self.strings = Strings.of(texts)
        self.stacks = StackTree()
        self._stack = [
            self.stacks.add(trace.stacks, text)
            for trace, text in zip(traces, self._text, strict=True)
        ]
        self.tracks, self._place = _joined_tracks(traces)
        processes = [_process(trace) for trace in traces]
        order = {process: n for n, process in enumerate(dict.fromkeys(processes))}
        self._rank = [order[process] for process in processes]
        self._stride = 1 + max(map(_largest_id, traces))

    def slices(self, i: int) -> Slices:
        own, text = self._traces[i].slices, self._text[i]
        return replace(
            own,
            category=text[own.category],
            name=text[own.name],
            overload=text[own.overload],
            start_ns=own.start_ns + self.shifts_ns[i],
            track=self._placed(i, own.track),
            sequence=self._apart(i, own.sequence, NO_SEQUENCE),
            correlation=self._apart(i, own.correlation, NO_CORRELATION),
            stack=self._stack[i][own.stack],
            args=self._args(i, own.args, _EXTERNAL_ID),
            fields=self._args(i, own.fields),
        )

    def marks(self, i: int) -> Marks:
        own, text = self._traces[i].marks, self._text[i]
        return replace(
            own,
            category=text[own.category],
            name=text[own.name],
            time_ns=own.time_ns + self.shifts_ns[i],
            track=self._placed(i, own.track),
            args=self._args(i, own.args, _EXTERNAL_ID),
            fields=self._args(i, own.fields, _FLOW_ID),
        )

    def memory(self, i: int, new_row: UInt32, first_row: int) -> Memory:
        own = self._traces[i].memory
        inside = own.slice != NO_SLICE
        rows = own.slice.copy()
        rows[inside] = new_row[own.slice[inside] + first_row]
        return replace(
            own,
            time_ns=own.time_ns + self.shifts_ns[i],
            device=self._text[i][own.device],
            track=self._placed(i, own.track),
            slice=rows,
        )

    def owners(self, i: int) -> Owners:
        own = self._traces[i].owners
        device = self._text[i][own.device]
        return replace(own, time_ns=own.time_ns + self.shifts_ns[i], device=device)

    def _placed(self, i: int, track: UInt32) -> UInt32:
        return self._place[i][track] if len(track) else track

    def _apart(self, i: int, ids: Int64, none: int) -> Int64:
        apart: Int64 = np.where(ids == none, none, ids + self._rank[i] * self._stride)
        return apart

    def _args(self, i: int, args: Args, id_key: str = "") -> Args:
        integers = dict(args.integers)
        if id_key in integers:
            ids = integers[id_key]
            integers[id_key] = IntColumn(ids.rows, self._apart(i, ids.values, 0))
        return Args(integers, self._text[i][args.rest] if len(args.rest) else args.rest)


def _clock_shift_ns(first: TraceInfo, other: TraceInfo) -> int:
    """Return what makes a time of ``other`` one of ``first``.

    All recordings of one machine share its clock. Their offsets to wall time were measured at
    different moments and differ by a little; only a restart lets them differ by much.
    """
    apart_ns = other.wall_offset_ns - first.wall_offset_ns
    recorded_here = first.producer == other.producer == PRODUCER and first.host == other.host
    return 0 if recorded_here and abs(apart_ns) < _SAME_CLOCK_NS else apart_ns


def _process(trace: Trace) -> _Process:
    return trace.info.host, trace.info.pid


def _largest_id(trace: Trace) -> int:
    columns = [trace.slices.sequence, trace.slices.correlation]
    for args, key in (
        (trace.slices.args, _EXTERNAL_ID),
        (trace.marks.args, _EXTERNAL_ID),
        (trace.marks.fields, _FLOW_ID),
    ):
        if key in args.integers:
            columns.append(args.integers[key].values)
    return max((int(column.max()) for column in columns if len(column)), default=0)


def _joined_tracks(traces: Sequence[Trace]) -> tuple[tuple[Track, ...], list[UInt32]]:
    """Return all tracks, and where those of each trace are among them.

    Devices and, on different machines, processes may have the same number: it then gets the
    process, or the machine, as a second word.
    """
    owner: dict[str, _Process] = {}
    rows: dict[tuple[str, str], int] = {}
    tracks: list[Track] = []
    places = []
    for trace in traces:
        process = _process(trace)
        place = np.zeros(len(trace.tracks), np.uint32)
        for i, track in enumerate(trace.tracks):
            pid = track.pid
            if owner.setdefault(pid, process) != process:
                pid = _second_word(pid, owner[pid], process)
                owner.setdefault(pid, process)
            place[i] = rows.setdefault((pid, track.tid), len(rows))
            if place[i] == len(tracks):
                tracks.append(replace(track, pid=pid))
        places.append(place)
    return tuple(tracks), places


def _second_word(pid: str, other: _Process, own: _Process) -> str:
    same_host = other[0] == own[0]
    return f"{pid} of process {own[1]}" if same_host else f"{pid} on {own[0]}"


def _offsets(lengths: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(lengths)[:-1].tolist()]


def _with_steps(parts: list[Slices], traces: Sequence[Trace]) -> list[Slices]:
    """Number the slices of traces that have no steps by the steps of the first that has."""
    have = [bool((part.kind == SliceKind.STEP).any()) for part in parts]
    if all(have) or not any(have):
        return parts
    leading = have.index(True)
    steps = np.flatnonzero(parts[leading].kind == SliceKind.STEP)
    names = traces[leading].slices.name[steps]
    numbers = np.array([step_number(traces[leading].strings[int(n)]) or 0 for n in names], np.int32)
    start_ns, end_ns = parts[leading].start_ns[steps], parts[leading].end_ns[steps]
    return [
        part if has else replace(part, step=_step_at(part.start_ns, start_ns, end_ns, numbers))
        for part, has in zip(parts, have, strict=True)
    ]


def _step_at(time_ns: Int64, start_ns: Int64, end_ns: Int64, numbers: Int32) -> Int32:
    at = np.searchsorted(start_ns, time_ns, side="right") - 1
    inside = (at >= 0) & (time_ns < end_ns[at])
    return np.where(inside, numbers[at], np.int32(NO_STEP))


def _in_order(parts: Sequence[Slices]) -> tuple[Slices, UInt32]:
    """Return the slices of all parts by start, and the new row of each row of each part."""
    moved = [
        replace(part, parent=np.where(part.parent == NO_PARENT, NO_PARENT, part.parent + first))
        for part, first in zip(parts, _offsets([len(part) for part in parts]), strict=True)
    ]
    joined = _stacked(moved)
    order = _native.slice_order(joined.start_ns, joined.duration_ns)
    if order is None:
        return joined, np.arange(len(joined), dtype=np.uint32)
    new_row = np.empty(len(order), np.uint32)
    new_row[order] = np.arange(len(order), dtype=np.uint32)
    ordered = _taken(joined, order, new_row)
    nested = ordered.parent != NO_PARENT
    parent = ordered.parent.copy()
    parent[nested] = new_row[parent[nested]]
    return replace(ordered, parent=parent), new_row


def _by_time(table: _Timed) -> _Timed:
    order = np.argsort(table.time_ns, kind="stable")
    return _taken(table, order, order)


def _taken(table: _Table, order: NDArray[Any], new_row: NDArray[Any]) -> _Table:
    def taken(value: Any) -> Any:
        if not isinstance(value, Args):
            return value[order]
        integers = {}
        for key, column in value.integers.items():
            rows = new_row[column.rows]
            ascending = np.argsort(rows, kind="stable")
            integers[key] = IntColumn(rows[ascending], column.values[ascending])
        return Args(integers, value.rest[order] if len(value.rest) else value.rest)

    return _built_of(table, taken)


def _built_of(table: _Table, column: Callable[[Any], Any]) -> _Table:
    return type(table)(**{each.name: column(getattr(table, each.name)) for each in fields(table)})


def _stacked(tables: Sequence[_Table]) -> _Table:
    """Put tables of one kind under each other."""
    lengths = [len(table) for table in tables]

    def stacked(name: str) -> Any:
        columns = [getattr(table, name) for table in tables]
        if isinstance(columns[0], Args):
            return _stacked_args(columns, lengths)
        return np.concatenate(columns)

    first = tables[0]
    return type(first)(**{each.name: stacked(each.name) for each in fields(first)})


def _stacked_args(parts: Sequence[Args], lengths: Sequence[int]) -> Args:
    rows: dict[str, list[IntColumn]] = {}
    for part, first in zip(parts, _offsets(lengths), strict=True):
        for key, column in part.integers.items():
            rows.setdefault(key, []).append(
                IntColumn(column.rows + np.uint32(first), column.values)
            )
    integers = {
        key: IntColumn(
            np.concatenate([column.rows for column in columns]),
            np.concatenate([column.values for column in columns]),
        )
        for key, columns in rows.items()
    }
    if not any(len(part.rest) for part in parts):
        return Args(integers)
    rest = [
        part.rest if len(part.rest) else np.zeros(length, np.uint32)
        for part, length in zip(parts, lengths, strict=True)
    ]
    return Args(integers, np.concatenate(rest))


def _info(infos: Sequence[TraceInfo], shifts_ns: Sequence[int]) -> TraceInfo:
    """Say of the whole what its parts say; where they differ, the first is heard."""
    return replace(
        infos[0],
        start_ns=min(info.start_ns + by for info, by in zip(infos, shifts_ns, strict=True)),
        end_ns=max(info.end_ns + by for info, by in zip(infos, shifts_ns, strict=True)),
        versions=_first_of(info.versions for info in infos),
        sources=_first_of(info.sources for info in infos),
        losses=_losses([info.losses for info in infos]),
        overhead_ns=max(info.overhead_ns for info in infos),
        anomalies=dict(sum((Counter(info.anomalies) for info in infos), Counter[str]())),
        user=_first_of(info.user for info in infos),
    )


def _first_of(mappings: Iterable[Any]) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for key, value in chain.from_iterable(mapping.items() for mapping in mappings):
        joined.setdefault(key, value)
    return joined


def _losses(losses: Sequence[Losses]) -> Losses:
    lost = [each for each in losses if each.events]
    return replace(lost[0], events=sum(each.events for each in lost)) if lost else Losses()
