"""Why devices were idle: every gap between pieces of work, divided by its reasons.

A gap is time in which no stream of a device works. The work that ends it (the first to start then)
was launched by a runtime call on some thread of the host; that thread is the host here. The moment
at which the call begins cuts the gap in two:

before it, the host had not reached the launch
    ``synchronisation``  the time in which the host was inside a call that waits for the device:
                         ``...Synchronize``, or a copy that returns when it is done
    ``data loading``     of the rest, the time inside a range of a data loader
    ``after sync``       the rest, when the host was waiting for the device at the moment the gap
                         began, and took no longer than LONGEST_AFTER_SYNC_NS of its own or than
                         the device had worked before: the device ran dry because the host did not
                         run ahead
    ``host``             the rest otherwise: the host was busy with other things

from it on, the work waits for the device or its driver
    ``launch``           the call was made in the gap, or going on when the gap began: the time that
                         a launch takes until the work starts; ``synchronisation`` where the call
                         is one that waits for the device
    ``queued``           the call had returned before the gap began, or LONGEST_LAUNCH_NS before:
                         the time between two pieces of work that were both queued, such as waiting
                         for another stream

Besides, there is the time ``before first`` and ``after last`` work of the recorded window, and
``unknown`` where the call is not in the trace. The parts of a gap add up to the gap, and
all of them to the idle time of the device, to the ns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.labels import Labels
from stepscope.analysis.base.table import Columns, Table
from stepscope.analysis.base.tree import has_text
from stepscope.analysis.calls.stated_parts import Part, stated_parts
from stepscope.analysis.work.work import DeviceWork, WorkKind, device_work
from stepscope.trace.model import NO_SLICE, Int64, SliceKind, Trace

# Launching again takes the host tens of µs; what takes longer may be work of its own.
LONGEST_AFTER_SYNC_NS = 1_000_000
# If the device worked for this share of the host's own time before, that time was hidden.
HIDDEN = 0.9
# Work that starts this long after its launching call waits for something else.
LONGEST_LAUNCH_NS = 1_000_000

_WAITING_CALL = re.compile(
    r"synchronize|^(cu|cuda|hip)Memcpy(?!.*Async)|^urQueueFinish|^urEventWait", re.IGNORECASE
)


class IdleReason(IntEnum):
    """Why a device was idle; the module's docstring defines each."""

    HOST = 0
    AFTER_SYNC = 1
    SYNCHRONISATION = 2
    DATA_LOADING = 3
    LAUNCH = 4
    QUEUED = 5
    BEFORE_FIRST = 6
    AFTER_LAST = 7
    UNKNOWN = 8

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class IdleGaps(Table):
    """One row per gap, by device and in the order of time."""

    work: DeviceWork
    device: Labels[str]
    start_ns: Int64
    duration_ns: Int64
    before: Int64  # the row of the work that ends the gap, NO_SLICE at the end of the window
    call: Int64  # the row of the runtime call that launched it, NO_SLICE if unknown
    parts_ns: Int64  # a row per gap, a column per IdleReason

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Int64:
        return self.start_ns + self.duration_ns

    @property
    def reason(self) -> Int64:
        """Return the IdleReason that took most of each gap."""
        main: Int64 = self.parts_ns.argmax(axis=1)
        return main

    def to_columns(self) -> Columns:
        """Return the columns by name, with the work that ends the gap and who launched it.

        There is a column per IdleReason, too.
        """
        columns: Columns = {
            name: getattr(self, name)
            for name in ("device", "start_ns", "duration_ns", "before", "call")
        }
        columns["before_name"] = self.work.names(self.before)
        columns["operator"] = self.work.operator_names(self.before)
        words = tuple(reason.words for reason in IdleReason)
        columns["reason"] = Labels(self.reason.astype(np.uint32), words)
        return columns | _by_reason(self.parts_ns)


@dataclass(frozen=True, slots=True)
class DeviceIdle(Table):
    """One row per device."""

    device: tuple[str, ...]
    gaps: Int64
    idle_ns: Int64
    parts_ns: Int64  # a row per device, a column per IdleReason

    def to_columns(self) -> Columns:
        """Return the columns by name, a column per IdleReason."""
        columns: Columns = {name: getattr(self, name) for name in ("device", "gaps", "idle_ns")}
        return columns | _by_reason(self.parts_ns)


def device_idle(trace: Trace, work: DeviceWork | None = None) -> DeviceIdle:
    """Return how long every device was idle, and why."""
    work = work or device_work(trace)
    gaps = idle_gaps(trace, work)
    parts = np.zeros((len(work.devices), len(IdleReason)), np.int64)
    np.add.at(parts, gaps.device.codes, gaps.parts_ns)
    count = np.bincount(gaps.device.codes, minlength=len(work.devices))
    return DeviceIdle(work.devices, count, parts.sum(axis=1), parts)


def idle_gaps(trace: Trace, work: DeviceWork | None = None) -> IdleGaps:
    """Return every gap in the work of every device, divided by its reasons."""
    work = work or device_work(trace)
    window = work.window_ns()
    gaps_by_device = [_gaps_of(work, device, window) for device in range(len(work.devices))]
    codes = np.repeat(
        np.arange(len(gaps_by_device), dtype=np.uint32), [len(gaps) for gaps, _ in gaps_by_device]
    )
    none = np.zeros(0, np.int64)
    start_ns = np.concatenate([none, *(gaps.start_ns for gaps, _ in gaps_by_device)])
    end_ns = np.concatenate([none, *(gaps.end_ns for gaps, _ in gaps_by_device)])
    piece = np.concatenate([none, *(pieces for _, pieces in gaps_by_device)])
    at_end = piece == len(work)
    before = np.append(work.rows, NO_SLICE)[piece]
    call = np.append(work.call, NO_SLICE)[piece]
    parts = _divided(work, start_ns, end_ns, call, codes)
    duration_ns = end_ns - start_ns
    for reason, which in (
        (IdleReason.UNKNOWN, call == NO_SLICE),
        (IdleReason.BEFORE_FIRST, start_ns == window[0]),
        (IdleReason.AFTER_LAST, at_end),
    ):
        parts[which] = 0
        parts[which, reason] = duration_ns[which]
    device = Labels(codes, work.devices)
    return IdleGaps(work, device, start_ns, duration_ns, before, call, parts)


def waiting_calls(trace: Trace, work: DeviceWork) -> Int64:
    """Return the rows of the runtime calls in which the host waits for a device, ascending.

    By their names; and any call that starts a copy and returns no earlier than the copy's end, as
    ``cudaMemcpyAsync`` does for pageable memory.
    """
    slices = trace.slices
    calls = np.flatnonzero(slices.kind == SliceKind.RUNTIME)
    named = calls[has_text(slices.name[calls], trace.strings, _WAITING_CALL.search)]
    copies = np.flatnonzero((work.kind == WorkKind.COPY) & (work.call != NO_SLICE))
    waited = slices.ends_of(work.call[copies]) >= work.end_ns[copies]
    return np.union1d(named, work.call[copies[waited]])


def loading_ranges(trace: Trace) -> Int64:
    return np.flatnonzero(stated_parts(trace) == Part.DATA_LOADING)


def _by_reason(parts_ns: Int64) -> Columns:
    return {f"{reason.name.lower()}_ns": parts_ns[:, reason] for reason in IdleReason}


def _gaps_of(work: DeviceWork, device: int, window: tuple[int, int]) -> tuple[Intervals, Int64]:
    """Return the gaps of a device, and the work that ends each gap; ``len(work)`` if none does."""
    own = np.flatnonzero((work.device == device) & (work.duration_ns > 0))
    gaps = union(work.start_ns[own], work.end_ns[own]).gaps(*window)
    at = np.searchsorted(work.start_ns[own], gaps.end_ns)
    # Work starts where a gap ends, but for the last gap, which the window's end closes.
    return gaps, np.append(own, len(work))[at]


def _divided(
    work: DeviceWork, start_ns: Int64, end_ns: Int64, call: Int64, device: NDArray[np.uint32]
) -> Int64:
    """Return the time of each gap by IdleReason; meaningless for gaps without a call."""
    slices = work.trace.slices
    cut_ns = np.clip(slices.start_ns[call], start_ns, end_ns)
    parts = np.zeros((len(start_ns), len(IdleReason)), np.int64)
    call_end_ns = slices.ends_of(call)
    late_ns = np.where(call_end_ns <= start_ns, start_ns, call_end_ns + LONGEST_LAUNCH_NS)
    late_ns = np.clip(late_ns, cut_ns, end_ns)
    parts[:, IdleReason.LAUNCH] = late_ns - cut_ns
    parts[:, IdleReason.QUEUED] = end_ns - late_ns
    waits, loads = waiting_calls(work.trace, work), loading_ranges(work.trace)
    waiting_launch = np.isin(call, waits)
    launch_ns = np.where(waiting_launch, parts[:, IdleReason.LAUNCH], 0)
    parts[waiting_launch, IdleReason.LAUNCH] = 0
    for track in np.unique(slices.track[call[call != NO_SLICE]]):
        mine = np.flatnonzero((call != NO_SLICE) & (slices.track[call] == track))
        waiting, either = (
            _time_on(work.trace, rows, int(track)) for rows in (waits, np.union1d(waits, loads))
        )
        begin, cut = start_ns[mine], cut_ns[mine]
        waited_ns = waiting.covered(begin, cut)
        loading_ns = either.covered(begin, cut) - waited_ns
        rest_ns = cut - begin - waited_ns - loading_ns
        soon = rest_ns <= LONGEST_AFTER_SYNC_NS
        soon |= _worked_before(work, device[mine], begin, rest_ns) >= HIDDEN * rest_ns
        after_sync = waiting.contain(begin) & soon
        parts[mine, IdleReason.SYNCHRONISATION] = waited_ns + launch_ns[mine]
        parts[mine, IdleReason.DATA_LOADING] = loading_ns
        parts[mine, IdleReason.AFTER_SYNC] = np.where(after_sync, rest_ns, 0)
        parts[mine, IdleReason.HOST] = np.where(after_sync, 0, rest_ns)
    return parts


def _worked_before(
    work: DeviceWork, device: NDArray[np.uint32], begin_ns: Int64, length_ns: Int64
) -> Int64:
    """Return how long each gap's device was busy in a given time before the gap."""
    worked_ns = np.zeros(len(begin_ns), np.int64)
    for number in range(len(work.devices)):
        own = device == number
        busy = work.busy(work.device == number)
        worked_ns[own] = busy.covered(begin_ns[own] - length_ns[own], begin_ns[own])
    return worked_ns


def _time_on(trace: Trace, rows: Int64, track: int) -> Intervals:
    rows = rows[trace.slices.track[rows] == track]
    return union(trace.slices.start_ns[rows], trace.slices.ends_of(rows))
