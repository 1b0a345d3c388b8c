"""The device analyses once more, slowly: plain loops over events, to hold the fast ones against."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from sample_traces import sample_path
from stepscope.formats import read_trace
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace, Track

WORK_KINDS = {SliceKind.KERNEL, SliceKind.MEMCPY, SliceKind.MEMSET}
MTIA_WAITS = {"event_record", "event_wait"}


@cache
def trace_in(path: Path) -> Trace:
    return read_trace(path)


@cache
def sample_trace(name: str) -> Trace:
    return trace_in(sample_path(name))


@dataclass(frozen=True)
class Event:
    """A slice as an object."""

    row: int
    name: str
    kind: SliceKind
    start: int
    end: int
    device: str
    track: int
    correlation: int


def device_of(track: Track) -> str:
    """Return a device's number: XLA names its process after it, and others number it so."""
    _, is_xla, number = track.process_name.partition("/device:GPU:")
    return number if is_xla else track.pid


def events_of(trace: Trace) -> list[Event]:
    slices = trace.slices
    return [
        Event(
            row,
            trace.name_of(row),
            SliceKind(int(slices.kind[row])),
            int(slices.start_ns[row]),
            int(slices.start_ns[row] + slices.duration_ns[row]),
            device_of(trace.tracks[int(slices.track[row])]),
            int(slices.track[row]),
            int(slices.correlation[row]),
        )
        for row in range(len(trace))
    ]


@cache
def events_in(path: Path) -> list[Event]:
    return events_of(trace_in(path))


def work_of(events: list[Event], trace: Trace) -> list[Event]:
    is_mtia = any("MTIA" in track.process_name for track in trace.tracks)
    return [
        event
        for event in events
        if event.kind in WORK_KINDS and not (is_mtia and event.name in MTIA_WAITS)
    ]


def merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of intervals, by sweeping over them."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def length(intervals: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in intervals)


def shared(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    """Return how long two unions overlap, two fingers walking."""
    i = j = total = 0
    while i < len(one) and j < len(other):
        total += max(0, min(one[i][1], other[j][1]) - max(one[i][0], other[j][0]))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return total


def busy(events: list[Event]) -> list[tuple[int, int]]:
    return merged([(event.start, event.end) for event in events])


def call_of(events: list[Event]) -> dict[int, Event]:
    """Return the first runtime call of each correlation."""
    calls: dict[int, Event] = {}
    for event in events:
        if event.kind == SliceKind.RUNTIME and event.correlation != -1:
            calls.setdefault(event.correlation, event)
    return calls


def launching_op(trace: Trace, call: Event) -> int:
    """Return the innermost operator or range around a call, else what is around it, else -1."""
    parent = around = int(trace.slices.parent[call.row])
    while parent != -1:
        if int(trace.slices.kind[parent]) in {SliceKind.OPERATOR, SliceKind.RANGE, SliceKind.STEP}:
            return parent
        parent = int(trace.slices.parent[parent])
    return around


def by_device(work: list[Event]) -> dict[str, list[Event]]:
    groups: dict[str, list[Event]] = defaultdict(list)
    for event in work:
        groups[event.device].append(event)
    return groups
