"""Joins several captures or traces into one, with their strings, tracks, stacks and clocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stepscope import _native
from stepscope.trace.build import step_at
from stepscope.trace.kinds import SliceKind, step_number
from stepscope.trace.model import Trace
from stepscope.trace.schema import (
    NO_THREAD,
    PRODUCER,
    TABLES,
    Captured,
    Losses,
    TraceInfo,
    Track,
)
from stepscope.trace.stack_tree import StackTree
from stepscope.trace.strings import Strings
from stepscope.trace.table import Remap, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepscope.trace.schema import Slices
    from stepscope.trace.table import UInt32

_Table = TypeVar("_Table", bound=Table)
_Process = tuple[str, int]  # host and pid

_SAME_CLOCK_NS = 1_000_000_000


class _Common:
    """The strings and stacks of several captures, each once."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {"": 0}
        self._stacks = StackTree()

    def add(self, captured: Captured) -> Remap:
        """Return the numbers here of the strings and stacks there."""
        ids = self._texts
        text = np.array([ids.setdefault(t, len(ids)) for t in captured.strings], np.uint32)
        return Remap(text=text, stack=self._stacks.add(captured.stacks, text))

    def tables(self) -> dict[str, Any]:
        """Return them as what a Captured takes."""
        return {"strings": Strings.of(self._texts), "stacks": self._stacks.table()}


def merge_parts(parts: Sequence[Captured]) -> Captured:
    """Join what the sources of one recording captured; a thread that two of them saw is one track.

    They share the clock and all numbers, so that rows are only concatenated.
    """
    parts = [part for part in parts if _has_rows(part) or part is parts[0]]
    if len(parts) == 1:
        return parts[0]
    common = _Common()
    tracks: dict[tuple[str, str], Track] = {}
    remaps = []
    for part in parts:
        for track in part.tracks:
            known = tracks.setdefault((track.pid, track.tid), track)
            if known.logical_id == NO_THREAD:
                tracks[track.pid, track.tid] = replace(known, logical_id=track.logical_id)
        places = {key: i for i, key in enumerate(tracks)}
        place = np.array([places[track.pid, track.tid] for track in part.tracks], np.uint32)
        remaps.append(replace(common.add(part), track=place))
    return Captured(
        slices=_joined([part.slices for part in parts], remaps),
        tracks=tuple(tracks.values()),
        memory=_joined([part.memory for part in parts], remaps),
        owners=_joined([part.owners for part in parts], remaps),
        marks=_joined([part.marks for part in parts], remaps),
        samples=_joined([part.samples for part in parts], remaps),
        held=_joined([part.held for part in parts], remaps),
        **common.tables(),
    )


def join_traces(traces: Sequence[Trace]) -> Trace:
    """Return one trace with everything that is in any of them, on the clock of the first.

    Threads of one process are the same tracks in all its traces. The numbers by which events of
    one process refer to each other (sequence, correlation, flow and external ids) are moved apart
    between processes. Nesting does not change; slices of a trace without steps get the number
    of the step in which they started in one with steps.
    """
    if not traces:
        raise ValueError("there are no traces to join: give at least one")
    if len(traces) == 1:
        return traces[0]
    common = _Common()
    tracks, places = _joined_tracks(traces)
    shifts_ns = [_clock_shift_ns(traces[0].info, trace.info) for trace in traces]
    offsets = _link_offsets(traces)
    new_row, order = _order(traces, shifts_ns)
    firsts = accumulate([0, *(len(trace.slices) for trace in traces)])
    remaps = [
        replace(
            common.add(trace),
            track=place,
            slice=new_row[first : first + len(trace.slices)],
            shift_ns=shift_ns,
            link_offset=offset,
        )
        for trace, place, first, shift_ns, offset in zip(
            traces, places, firsts, shifts_ns, offsets, strict=False
        )
    ]
    slices = [
        part.remap(new) for part, new in zip(_with_steps(traces, shifts_ns), remaps, strict=True)
    ]
    return Trace(
        slices=type(slices[0]).concat(slices).take(order),
        tracks=tracks,
        memory=_by_time(_joined([trace.memory for trace in traces], remaps)),
        owners=_by_time(_joined([trace.owners for trace in traces], remaps)),
        marks=_joined([trace.marks for trace in traces], remaps),
        samples=_by_time(_joined([trace.samples for trace in traces], remaps)),
        held=_by_time(_joined([trace.held for trace in traces], remaps)),
        info=_info([trace.info for trace in traces], shifts_ns),
        **common.tables(),
    )


def _has_rows(part: Captured) -> bool:
    return any(map(len, (getattr(part, name) for name in TABLES if name != "stacks")))


def _joined(tables: Sequence[_Table], remaps: Sequence[Remap]) -> _Table:
    moved = [table.remap(new) for table, new in zip(tables, remaps, strict=True)]
    return type(tables[0]).concat(moved)


def _by_time(table: _Table) -> _Table:
    time_ns: Any = table.time_ns
    return table.take(np.argsort(time_ns, kind="stable"))


def _order(traces: Sequence[Trace], shifts_ns: Sequence[int]) -> tuple[UInt32, UInt32]:
    """Return the new row of each slice of all traces, and the old row of each new one."""
    start_ns = np.concatenate(
        [trace.slices.start_ns + by for trace, by in zip(traces, shifts_ns, strict=True)]
    )
    duration_ns = np.concatenate([trace.slices.duration_ns for trace in traces])
    order = _native.slice_order(start_ns, duration_ns)
    if order is None:
        order = np.arange(len(start_ns), dtype=np.uint32)
    new_row = np.empty(len(order), np.uint32)
    new_row[order] = np.arange(len(order), dtype=np.uint32)
    return new_row, order


def _clock_shift_ns(first: TraceInfo, other: TraceInfo) -> int:
    """Return what to add to a time of ``other`` to get one of ``first``.

    All recordings of one machine share its clock. Their offsets to wall time were measured at
    different moments and differ by a little; only a reboot makes them differ by much.
    """
    apart_ns = other.wall_offset_ns - first.wall_offset_ns
    recorded_here = first.producer == other.producer == PRODUCER and first.host == other.host
    return 0 if recorded_here and abs(apart_ns) < _SAME_CLOCK_NS else apart_ns


def _process(trace: Trace) -> _Process:
    return trace.info.host, trace.info.pid


def _link_offsets(traces: Sequence[Trace]) -> list[int]:
    """Return the offset that keeps each process's numbers apart from all others."""
    processes = [_process(trace) for trace in traces]
    rank = {process: n for n, process in enumerate(dict.fromkeys(processes))}
    stride = 1 + max(
        table.largest_link() for trace in traces for table in (trace.slices, trace.marks)
    )
    return [rank[process] * stride for process in processes]


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


def _with_steps(traces: Sequence[Trace], shifts_ns: Sequence[int]) -> list[Slices]:
    """Number the slices of traces that have no steps by the steps of the first that has."""
    have = [bool((trace.slices.kind == SliceKind.STEP).any()) for trace in traces]
    parts = [trace.slices for trace in traces]
    if all(have) or not any(have):
        return parts
    leading = have.index(True)
    slices, strings = traces[leading].slices, traces[leading].strings
    steps = slices.take(slices.kind == SliceKind.STEP)
    numbers = np.array([step_number(strings[int(name)]) or 0 for name in steps.name], np.int32)

    def numbered(part: Slices, shift_ns: int) -> Slices:
        time_ns = part.start_ns + (shift_ns - shifts_ns[leading])
        return replace(part, step=step_at(time_ns, steps.start_ns, steps.end_ns, numbers))

    return [
        part if has else numbered(part, shift_ns)
        for part, has, shift_ns in zip(parts, have, shifts_ns, strict=True)
    ]


def _info(infos: Sequence[TraceInfo], shifts_ns: Sequence[int]) -> TraceInfo:
    """Combine the parts' info; where they differ, the first wins."""
    return replace(
        infos[0],
        start_ns=min(info.start_ns + by for info, by in zip(infos, shifts_ns, strict=True)),
        end_ns=max(info.end_ns + by for info, by in zip(infos, shifts_ns, strict=True)),
        libraries=sorted({name for info in infos for name in info.libraries}),
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
