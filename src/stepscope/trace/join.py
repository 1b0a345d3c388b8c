"""Joins what one process captured, from several sources or at several times."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import _native
from stepscope.trace.model import Trace
from stepscope.trace.schema import NO_THREAD, TABLES, Captured, Losses, Stacks
from stepscope.trace.strings import Strings
from stepscope.trace.table import Remap

if TYPE_CHECKING:
    from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepscope.trace.schema import Slices, TraceInfo, Track
    from stepscope.trace.table import Table, UInt32

_NUMBERS_OF_A_PROCESS = 1 << 32  # every process has its own numbers of threads and launches
_MOST = 1 << 62  # arbitrary numbers may use all 64 bits
_OF_ONE_PROCESS = ("memory", "owners", "held", "uses")

_EVENTS = {name: table for name, table in TABLES.items() if table is not Stacks}


class _Common:
    """The strings, stacks and tracks of several captures without duplicates."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {"": 0}
        self._stacks = _StackTree()
        self._tracks: dict[tuple[str, str], Track] = {}

    def add(self, captured: Captured) -> Remap:
        """Return the numbers here of a capture's strings, stacks and tracks."""
        ids = self._texts
        text = np.array([ids.setdefault(t, len(ids)) for t in captured.strings], np.uint32)
        return Remap(
            text=text,
            stack=self._stacks.add(captured.stacks, text),
            track=self._tracks_of(captured.tracks),
        )

    def _tracks_of(self, tracks: Sequence[Track]) -> UInt32:
        for track in tracks:
            first = self._tracks.setdefault((track.pid, track.tid), track)
            if first.logical_id == NO_THREAD:
                merged = replace(first, logical_id=track.logical_id)
                self._tracks[track.pid, track.tid] = merged
        places = {key: i for i, key in enumerate(self._tracks)}
        return np.array([places[track.pid, track.tid] for track in tracks], np.uint32)

    def tables(self) -> dict[str, Any]:
        """Return them as arguments of a Captured."""
        return {
            "strings": Strings.of(self._texts),
            "stacks": self._stacks.table(),
            "tracks": tuple(self._tracks.values()),
        }


def merge_parts(parts: Sequence[Captured]) -> Captured:
    """Join what the sources of one recording captured, with one track per thread.

    They share the clock and all numbers, so rows are only concatenated.
    """
    parts = [part for part in parts if _has_rows(part) or part is parts[0]]
    if len(parts) == 1:
        return parts[0]
    common = _Common()
    rows = _joined(parts, [common.add(part) for part in parts])
    return Captured(**rows, **common.tables())


def placed(processes: Iterable[Captured], largest: int = 0) -> Iterator[Captured]:
    """Give threads and links unique numbers in all processes, and leave out memory.

    ``largest`` is the largest number in use. An item may have several processes: its children's.
    """
    for captured in processes:
        offset = (largest // _NUMBERS_OF_A_PROCESS + 1) * _NUMBERS_OF_A_PROCESS % _MOST
        moved = Remap(link_offset=offset)
        slices, marks = captured.slices.remap(moved), captured.marks.remap(moved)
        forward_thread = slices.forward_thread + offset * (slices.forward_thread > 0)
        threads = [track.logical_id + offset * (track.logical_id > 0) for track in captured.tracks]
        without: dict[str, Any] = {name: TABLES[name].empty() for name in _OF_ONE_PROCESS}
        yield replace(
            captured,
            slices=replace(slices, forward_thread=forward_thread),
            marks=marks,
            tracks=tuple(
                replace(track, logical_id=thread)
                for track, thread in zip(captured.tracks, threads, strict=True)
            ),
            **without,
        )
        largest = max(offset, slices.largest_link(), marks.largest_link(), *threads, 0)


def named(captured: Captured, pid: int, name: str) -> Captured:
    """Return the tables with a name for a process."""
    tracks = (
        replace(track, process_name=name) if track.pid == str(pid) else track
        for track in captured.tracks
    )
    return replace(captured, tracks=tuple(tracks))


def join_traces(traces: Sequence[Trace]) -> Trace:
    """Return one trace with everything in several traces of one process.

    They share the clock and all numbers. Nesting and steps do not change.
    """
    if not traces:
        raise ValueError("there are no traces to join: give at least one")
    if len(traces) == 1:
        return traces[0]
    common = _Common()
    new_row, order = _order([trace.slices for trace in traces])
    firsts = accumulate([0, *map(len, traces)])
    remaps = [
        replace(common.add(trace), slice=new_row[first : first + len(trace)])
        for trace, first in zip(traces, firsts, strict=False)
    ]
    rows = _joined(traces, remaps)
    slices = rows.pop("slices").take(order)
    timed: dict[str, Any] = {name: _by_time(table) for name, table in rows.items()}
    info = _info([trace.info for trace in traces])
    return Trace(slices=slices, **timed, **common.tables(), info=info)


def _has_rows(part: Captured) -> bool:
    return any(len(getattr(part, name)) for name in _EVENTS)


def _joined(parts: Sequence[Captured], remaps: Sequence[Remap]) -> dict[str, Any]:
    """Return the events of all parts, table by table."""
    pairs = list(zip(parts, remaps, strict=True))
    return {
        name: table.concat([getattr(part, name).remap(new) for part, new in pairs])
        for name, table in _EVENTS.items()
    }


def _by_time(table: Table) -> Table:
    times_ns: Any = table.times_ns
    return table.take(np.argsort(times_ns, kind="stable"))


def _order(parts: Sequence[Slices]) -> tuple[UInt32, UInt32]:
    """Return the new row of each slice of all parts, and the old row of each new one."""
    start_ns = np.concatenate([part.start_ns for part in parts])
    order = _native.slice_order(start_ns, np.concatenate([part.duration_ns for part in parts]))
    if order is None:
        order = np.arange(len(start_ns), dtype=np.uint32)
    new_row = np.empty(len(order), np.uint32)
    new_row[order] = np.arange(len(order), dtype=np.uint32)
    return new_row, order


def _info(infos: Sequence[TraceInfo]) -> TraceInfo:
    """Combine the parts' info; where they differ, the first wins."""
    return replace(
        infos[0],
        start_ns=min(info.start_ns for info in infos),
        end_ns=max(info.end_ns for info in infos),
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
    lost = [one for one in losses if one.events]
    return replace(lost[0], events=sum(one.events for one in lost)) if lost else Losses()


class _StackTree:
    """Collects distinct stacks."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], int] = {(0, 0): 0}  # by parent and frame

    def add(self, stacks: Stacks, text: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the new row of each row of ``stacks``."""
        row_of = np.zeros(len(stacks), np.uint32)
        for row in range(1, len(stacks)):
            key = (int(row_of[stacks.parent[row]]), int(text[stacks.frame[row]]))
            row_of[row] = self._rows.setdefault(key, len(self._rows))
        return row_of

    def table(self) -> Stacks:
        pairs = np.array(list(self._rows), np.uint32)
        return Stacks(pairs[:, 0], pairs[:, 1])
