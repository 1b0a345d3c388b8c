"""Every moment of some steps, and the one slice that it belongs to.

A moment belongs to what devices do then: a computing kernel before one that communicates before a
copy, of several the one that began first. While devices are idle, and in programs without them, it
belongs to the innermost slice of the step's thread; where that has no part of a step (see
``steps/parts.py``), to the backward pass of another thread. So moments never overlap, and those of
a step add up to it, to the ns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.intervals import Timeline, innermost, union
from stepscope.analysis.base.tree import span_mask
from stepscope.analysis.calls.backward import process_of_tracks
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.steps.parts import host_parts
from stepscope.analysis.steps.steps import StepsBy, steady_steps, step_table
from stepscope.analysis.work.work import DeviceWork, WorkKind, device_work
from stepscope.trace.model import NO_SLICE, Bool, Int64, SliceFlags, Trace


@dataclass(frozen=True, slots=True)
class Windows:
    """The time of each steady step in order; without steps, the time of the whole trace."""

    unit: str  # "step", "request" or "run"
    how: str  # by what steps were recognised
    start_ns: Int64
    end_ns: Int64
    track: Int64
    duration_ns: Int64  # of each step; overlapping steps have more than their window

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, which: Bool) -> Windows:
        """Return the windows of some steps."""
        columns = (self.start_ns, self.end_ns, self.track, self.duration_ns)
        return Windows(self.unit, self.how, *(column[which] for column in columns))


@dataclass(frozen=True, slots=True)
class Moments:
    """Pieces of the steps' time in order, each within one step."""

    step: Int64  # index of the window
    owner: Int64  # the slice that owns it, NO_SLICE if none runs
    start_ns: Int64
    ns: Int64
    on_device: bool  # whether devices do any work in this program

    def of_steps(self, which: Bool) -> Moments:
        """Return the moments of some steps, which are numbered anew."""
        number = np.cumsum(which) - 1
        mine = which[self.step]
        step, owner = number[self.step[mine]], self.owner[mine]
        return Moments(step, owner, self.start_ns[mine], self.ns[mine], self.on_device)


def windows(trace: Trace) -> Windows:
    """Return the time that a comparison covers."""
    steps = step_table(trace)
    if not len(steps):
        return _whole(trace)
    steady = steady_steps(trace)
    start_ns, end_ns = steps.start_ns[steady], steps.end_ns[steady]
    track = steps.track[steady]
    order = np.argsort(start_ns, kind="stable")
    start_ns, end_ns, track = start_ns[order], end_ns[order], track[order]
    duration_ns = end_ns - start_ns
    for number in np.unique(track):
        mine = np.flatnonzero(track == number)
        reached = np.maximum.accumulate(end_ns[mine])
        # A moment that overlapping steps (requests of a server) share belongs to the earlier.
        start_ns[mine[1:]] = np.maximum(start_ns[mine[1:]], reached[:-1])
        end_ns[mine] = np.maximum(end_ns[mine], start_ns[mine])
    how = steps.by.value
    if steps.by is StepsBy.MODULE:
        how = f"one per call of {steps.name.rpartition(': ')[2]}"
    return Windows(steps.unit, how, start_ns, end_ns, track, duration_ns)


def _whole(trace: Trace) -> Windows:
    """Return the whole trace as one step, on the thread with the most time in slices."""
    slices, info = trace.slices, trace.info
    on_host = ~slices.on_device
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
    stretches = [(nothing, nothing, nothing, nothing)]
    for track in np.unique(wanted.track).tolist():
        mine = np.flatnonzero(wanted.track == track)
        line = _thread_timeline(trace, track)
        if devices is not None:
            line = devices.over(line)
        pieces = line.within(wanted.start_ns[mine], wanted.end_ns[mine])
        stretches.append((mine[pieces[0]], *pieces[1:]))
    step, owner, start_ns, ns = (
        np.concatenate(column).astype(np.int64) for column in zip(*stretches, strict=True)
    )
    return Moments(step, owner, start_ns, ns, on_device=devices is not None)


def _thread_timeline(trace: Trace, track: int) -> Timeline:
    """Return the innermost slice of a thread, or of its backward pass, at each moment."""
    slices, parts = trace.slices, host_parts(trace)
    if not len(slices):
        return innermost(trace, np.zeros(0, np.int64))
    process = process_of_tracks(trace)
    usable = (slices.flags & SliceFlags.ASYNC == 0) & (slices.duration_ns > 0)
    spans = span_mask(trace)
    if spans is not None:
        usable &= ~spans
    is_mine = usable & (slices.track == track)
    own = innermost(trace, np.flatnonzero(is_mine))
    backward = usable & ~is_mine & (parts == Part.BACKWARD)
    beside = np.flatnonzero(backward & (process[slices.track] == process[track]))
    if not len(beside):
        return own
    has_part = np.append(parts != Part.OTHER, False)[own.owner]
    first = Timeline(own.time_ns, np.where(has_part, own.owner, NO_SLICE))
    for other in np.unique(slices.track[beside]).tolist():
        rows = beside[slices.track[beside] == other]
        first = first.over(innermost(trace, rows))
    return first.over(own)


def _device_timeline(work: DeviceWork) -> Timeline | None:
    """Return the work of devices at each moment; None where there is none."""
    if not len(work):
        return None
    kinds = ((WorkKind.COMPUTE, WorkKind.FILL), (WorkKind.COMMUNICATION,), (WorkKind.COPY,))
    lines = [_first_begun(work, np.flatnonzero(np.isin(work.kind, kind))) for kind in kinds]
    return lines[0].over(lines[1].over(lines[2]))


def _first_begun(work: DeviceWork, which: Int64) -> Timeline:
    """Give each moment to the piece of work that began first; pieces may overlap."""
    which = which[work.duration_ns[which] > 0]
    if not len(which):
        return Timeline(np.zeros(0, np.int64), np.zeros(0, np.int64))
    start_ns, end_ns = work.start_ns[which], work.end_ns[which]
    reached = np.maximum.accumulate(end_ns)
    since = np.concatenate([start_ns[:1], np.maximum(start_ns[1:], reached[:-1])])
    remains = end_ns > since
    busy = union(start_ns, end_ns)
    times = np.concatenate([busy.end_ns, since[remains]])
    nobody = np.full(len(busy), NO_SLICE, np.int64)
    owners = np.concatenate([nobody, work.rows[which][remains]])
    order = np.argsort(times, kind="stable")
    return Timeline(times[order], owners[order])
