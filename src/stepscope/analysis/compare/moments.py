"""Every moment of some steps, and the one slice that it belongs to.

A moment belongs to what devices do then: a computing kernel before one that communicates before a
copy, of several the one that began first. While devices are idle, and in programs without them, it
belongs to the innermost slice of the step's thread; where that has no part of a step (see
``steps/parts.py``), to the backward pass of another thread. So moments never overlap, and those of
a step add up to it, to the ns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.device.work import WorkKind, device_work
from stepscope.analysis.intervals import union
from stepscope.analysis.steps.parts import Part, host_parts
from stepscope.analysis.steps.steps import StepsBy, steady_steps, step_table
from stepscope.analysis.tree import span_mask
from stepscope.trace.model import DEVICE_KINDS, NO_SLICE, SliceFlags

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.analysis.device.work import DeviceWork
    from stepscope.trace.model import Int64, Trace

    Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Windows:
    """The time of each steady step, in the order of time; without steps, that of the trace."""

    unit: str  # "step", "request" or "run"
    how: str  # by what steps were recognised
    start_ns: Int64
    end_ns: Int64
    track: Int64
    duration_ns: Int64  # of each step: more than its window where steps overlap

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.start_ns)

    def take(self, which: NDArray[np.bool_]) -> Windows:
        """Return some of them."""
        columns = (self.start_ns, self.end_ns, self.track, self.duration_ns)
        return Windows(self.unit, self.how, *(column[which] for column in columns))


@dataclass(frozen=True, slots=True)
class Moments:
    """Pieces of the time of some steps, each within one step, in the order of time."""

    step: Int64  # index of the window
    owner: Int64  # the slice that it belongs to, NO_SLICE where none runs
    start_ns: Int64
    ns: Int64
    on_device: bool  # whether devices do any work in this program

    def of_steps(self, which: NDArray[np.bool_]) -> Moments:
        """Return those of some of the steps, which are numbered anew."""
        number = np.cumsum(which) - 1
        mine = which[self.step]
        step, owner = number[self.step[mine]], self.owner[mine]
        return Moments(step, owner, self.start_ns[mine], self.ns[mine], self.on_device)


def windows(trace: Trace) -> Windows:
    """Return the time that a comparison is about."""
    steps = step_table(trace)
    if not len(steps):
        return _whole(trace)
    steady = steady_steps(trace)
    start_ns, end_ns = steps.start_ns[steady], steps.end_ns[steady]
    track = steps.track[steady]
    order = np.argsort(start_ns, kind="stable")
    start_ns, end_ns, track = start_ns[order], end_ns[order], track[order]
    duration_ns = end_ns - start_ns
    for each in np.unique(track):
        mine = np.flatnonzero(track == each)
        reached = np.maximum.accumulate(end_ns[mine])
        # A moment that two steps share, as requests of a server may, belongs to the earlier.
        start_ns[mine[1:]] = np.maximum(start_ns[mine[1:]], reached[:-1])
        end_ns[mine] = np.maximum(end_ns[mine], start_ns[mine])
    how = steps.by.value
    if steps.by is StepsBy.MODULE:
        how = f"each a call of {steps.name.rpartition(': ')[2]}"
    return Windows(steps.unit, how, start_ns, end_ns, track, duration_ns)


def _whole(trace: Trace) -> Windows:
    """Return the whole trace as one step, on the thread with the most time in slices."""
    slices, info = trace.slices, trace.info
    on_host = ~np.isin(slices.kind, DEVICE_KINDS)
    start, end = info.start_ns, info.end_ns
    if len(slices):
        start = min(start, int(slices.start_ns[0])) if end > start else int(slices.start_ns[0])
        end = max(end, int(slices.end_ns.max()))
    busy_ns = np.bincount(slices.track[on_host], slices.self_ns[on_host], len(trace.tracks))
    track = int(busy_ns.argmax()) if len(busy_ns) else 0
    one = [np.array([value], np.int64) for value in (start, end, track, end - start)]
    return Windows("run", "no steps were recognised: the whole trace", *one)


def moments(trace: Trace, wanted: Windows) -> Moments:
    """Return what each moment of the wanted steps belongs to."""
    work = device_work(trace)
    devices = _device_timeline(work)
    nothing = np.zeros(0, np.int64)
    found = [(nothing, nothing, nothing, nothing)]
    for track in np.unique(wanted.track).tolist():
        mine = np.flatnonzero(wanted.track == track)
        line = _thread_timeline(trace, track)
        if devices is not None:
            line = devices.over(line)
        pieces = line.within(wanted.start_ns[mine], wanted.end_ns[mine])
        found.append((mine[pieces[0]], *pieces[1:]))
    step, owner, start_ns, ns = (
        np.concatenate(column).astype(np.int64) for column in zip(*found, strict=True)
    )
    return Moments(step, owner, start_ns, ns, on_device=devices is not None)


@dataclass(frozen=True, slots=True)
class _Timeline:
    """Who owns the time from each point to the next; nobody before the first."""

    time_ns: Int64  # ascending
    owner: Int64

    def over(self, other: _Timeline) -> _Timeline:
        """Return who owns the time where others have what this one leaves."""
        if not len(self.time_ns) or not len(other.time_ns):
            return self if len(self.time_ns) else other
        times = np.concatenate([self.time_ns, other.time_ns])
        order = np.argsort(times, kind="stable")  # two ascending runs: it merges them
        count = len(self.time_ns)
        mine = _latest(self.owner, order, order < count)
        theirs = _latest(other.owner, order - count, order >= count)
        return _Timeline(times[order], np.where(mine == NO_SLICE, theirs, mine))

    def within(self, start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64, Int64, Int64]:
        """Cut it to some intervals; return each piece's interval, owner, start and length."""
        # Of what is at one time the owner's point comes first, then an end, then a start.
        times = np.concatenate([self.time_ns, end_ns, start_ns])
        order = np.argsort(times, kind="stable")
        times = times[order]
        count, intervals = len(self.time_ns), len(start_ns)
        owner = _latest(self.owner, order, order < count)
        is_start = order >= count + intervals
        place = np.cumsum(is_start) - 1
        inside = place - (np.cumsum((order >= count) & ~is_start) - 1) > 0
        lengths = np.diff(times, append=times[-1:])
        kept = np.flatnonzero(inside & (lengths > 0))
        return place[kept], owner[kept], times[kept], lengths[kept]


def _latest(owner: Int64, order: Int64, is_own: Bool) -> Int64:
    """Return the owner by the latest of a timeline's points, at each of the merged ones."""
    at = np.maximum.accumulate(np.where(is_own, order, -1))
    return np.append(owner, NO_SLICE)[at]


def _thread_timeline(trace: Trace, track: int) -> _Timeline:
    """Return the innermost slice of a thread at each moment; the backward pass may run beside."""
    slices, parts = trace.slices, host_parts(trace)
    process = np.unique([t.pid for t in trace.tracks], return_inverse=True)[1].reshape(-1)
    usable = (slices.flags & SliceFlags.ASYNC == 0) & (slices.duration_ns > 0)
    spans = span_mask(trace)
    if spans is not None:
        usable &= ~spans
    is_mine = usable & (slices.track == track)
    own = _innermost(trace, np.flatnonzero(is_mine))
    backward = usable & ~is_mine & (parts == Part.BACKWARD)
    beside = np.flatnonzero(backward & (process[slices.track] == process[track]))
    if not len(beside):
        return own
    has_part = np.append(parts != Part.OTHER, False)[own.owner]
    first = _Timeline(own.time_ns, np.where(has_part, own.owner, NO_SLICE))
    for other in np.unique(slices.track[beside]).tolist():
        rows = beside[slices.track[beside] == other]
        first = first.over(_innermost(trace, rows))
    return first.over(own)


def _innermost(trace: Trace, rows: Int64) -> _Timeline:
    """Return the innermost of some slices of one thread, which stand in the order of starts."""
    slices = trace.slices
    start_ns, end_ns = slices.start_ns[rows], slices.ends_of(rows)
    # The ends of those that began last come first: they are further inside.
    by_end = len(rows) - 1 - np.argsort(end_ns[::-1], kind="stable")
    times = np.concatenate([end_ns[by_end], start_ns])
    chosen = np.zeros(len(slices) + 1, np.bool_)
    chosen[rows] = True
    outer = slices.parent[rows[by_end]].astype(np.int64)
    while len(hidden := np.flatnonzero((outer != NO_SLICE) & ~chosen[outer])):
        outer[hidden] = slices.parent[outer[hidden]]
    owners = np.concatenate([outer, rows])
    order = np.argsort(times, kind="stable")  # what ends does so before the next begins
    return _Timeline(times[order], owners[order])


def _device_timeline(work: DeviceWork) -> _Timeline | None:
    """Return the work of devices at each moment; None where there is none."""
    if not len(work):
        return None
    kinds = ((WorkKind.COMPUTE, WorkKind.FILL), (WorkKind.COMMUNICATION,), (WorkKind.COPY,))
    lines = [_first_begun(work, np.flatnonzero(np.isin(work.kind, kind))) for kind in kinds]
    return lines[0].over(lines[1].over(lines[2]))


def _first_begun(work: DeviceWork, which: Int64) -> _Timeline:
    """Give each moment to the piece that began first of those that run; they may overlap."""
    which = which[work.duration_ns[which] > 0]
    if not len(which):
        return _Timeline(np.zeros(0, np.int64), np.zeros(0, np.int64))
    start_ns, end_ns = work.start_ns[which], work.end_ns[which]
    reached = np.maximum.accumulate(end_ns)
    since = np.concatenate([start_ns[:1], np.maximum(start_ns[1:], reached[:-1])])
    kept = end_ns > since
    busy = union(start_ns, end_ns)
    times = np.concatenate([busy.end_ns, since[kept]])
    nobody = np.full(len(busy), NO_SLICE, np.int64)
    owners = np.concatenate([nobody, work.rows[which][kept]])
    order = np.argsort(times, kind="stable")
    return _Timeline(times[order], owners[order])
