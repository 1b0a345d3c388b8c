"""Steps as devices see them, beside the host's, and which of the two is the bottleneck.

The host runs ahead: when it ends a step, its devices may not have begun it. A step of a device
begins with the first work of that step and ends where the next one begins; the last one ends with
its own last work. An only step also has the time before its first work in which the device had
nothing else to do. Which work is a step's is told by the device's own marks
(``gpu_user_annotation`` of that step), else by where it was launched.

The host limits where the device waits for it for more than a tenth of its step: before a launch,
in a synchronisation, while data is loaded (see idle). Else the device does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.table import Table
from stepscope.analysis.steps.steps import Steps, steady_steps, step_table
from stepscope.analysis.work.idle import IdleReason, idle_gaps
from stepscope.analysis.work.work import DeviceWork, device_work
from stepscope.trace.kinds import step_number
from stepscope.trace.model import NO_SLICE, Bool, Int64, SliceKind, Trace

MOST_WAITING = 0.1  # a device that waits for the host for less of a step is what limits

_BY_THE_HOST = (
    IdleReason.HOST,
    IdleReason.AFTER_SYNC,
    IdleReason.SYNCHRONISATION,
    IdleReason.DATA_LOADING,
    IdleReason.LAUNCH,
)
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class DeviceSteps(Table):
    """One row per step and device that worked for it, in time order."""

    step: Int64
    device: tuple[str, ...]
    host_ns: Int64  # the step on the host
    start_ns: Int64  # on the device
    device_ns: Int64  # the step on the device
    busy_ns: Int64  # of that time
    waiting_ns: Int64  # the part of it in which the device waits for the host
    is_steady: Bool
    by_marks: bool  # of the device; else by what was launched

    @property
    def idle_ns(self) -> Int64:
        return self.device_ns - self.busy_ns

    @property
    def limit(self) -> tuple[str, ...]:
        """Return which limits each step: ``host`` or ``device``."""
        waits = self.waiting_ns > MOST_WAITING * self.device_ns
        return tuple(np.where(waits, "host", "device").tolist())


@dataclass(frozen=True, slots=True)
class DeviceStep:
    """The average steady step of the device that is busiest in it."""

    device: str
    host_ns: float
    device_ns: float
    busy_ns: float
    waiting_ns: float
    by_marks: bool

    @property
    def limit(self) -> str:
        """Return which limits: ``host`` or ``device``."""
        return "host" if self.waiting_ns > MOST_WAITING * self.device_ns else "device"


@shared
def device_steps(trace: Trace, work: DeviceWork | None = None) -> DeviceSteps:
    """Return the steps of every device; empty if steps overlap, as requests may."""
    work = work or device_work(trace)
    steps = step_table(trace)
    if not len(steps) or not len(work) or (steps.start_ns[1:] < steps.end_ns[:-1]).any():
        return _joined([], steps, steady_steps(trace), by_marks=False)
    first, last = _marked(trace, work, steps)
    by_marks = bool((first != _NEVER).any())
    if not by_marks:
        first, last = _launched(trace, work, steps)
    gaps = idle_gaps(trace, work)
    waits = gaps.parts_ns[:, _BY_THE_HOST].sum(axis=1)
    rows = []
    for device in range(len(work.devices)):
        at = np.flatnonzero(first[device] != _NEVER)
        begin = np.maximum.accumulate(
            first[device][at]
        )  # here, too, one step ends where the next begins
        idle_before_ns = np.zeros(len(at), np.int64)
        if len(at) == 1:
            idle_before_ns = begin - _free_since(work, device, steps.start_ns[at], begin)
            begin = begin - idle_before_ns
        end = np.maximum(np.append(begin[1:], last[device][at][-1:]), begin)
        busy_ns = work.busy(work.device == device).covered(begin, end)
        mine = gaps.device.codes == device
        gap_ns, waited = gaps.start_ns[mine], np.append(0, np.cumsum(waits[mine]))
        inside = (waited[np.searchsorted(gap_ns, at_ns)] for at_ns in (end, begin))
        waiting_ns = np.minimum(np.subtract(*inside) + idle_before_ns, end - begin - busy_ns)
        rows.append((at, work.devices[device], begin, end - begin, busy_ns, waiting_ns))
    return _joined(rows, steps, steady_steps(trace), by_marks=by_marks)


@shared
def device_step(trace: Trace) -> DeviceStep | None:
    """Return the average steady step as host and device see it; None if unknown."""
    rows = device_steps(trace)
    if not len(rows.step):
        return None
    devices = np.array(rows.device)
    names = dict.fromkeys(rows.device)
    busiest = max(names, key=lambda name: int(rows.busy_ns[devices == name].sum()))
    mine = devices == busiest
    if (mine & rows.is_steady).any():
        mine &= rows.is_steady
    last = np.flatnonzero(devices == busiest)[-1]
    if mine.sum() > 1:
        mine[last] = False  # it ends with its own work, and excludes what the next step waited for
    return DeviceStep(
        device=busiest,
        host_ns=float(rows.host_ns[mine].mean()),
        device_ns=float(rows.device_ns[mine].mean()),
        busy_ns=float(rows.busy_ns[mine].mean()),
        waiting_ns=float(rows.waiting_ns[mine].mean()),
        by_marks=rows.by_marks,
    )


def _free_since(work: DeviceWork, device: int, host_ns: Int64, first_ns: Int64) -> Int64:
    """Return since when a device could have worked for a step."""
    mine = work.device == device
    before = mine & (work.start_ns < first_ns[0])
    free_ns: Int64 = np.maximum(host_ns, work.end_ns[before].max(initial=int(host_ns[0])))
    return np.minimum(first_ns, free_ns)


def _joined(
    device_rows: list[tuple[Int64, str, Int64, Int64, Int64, Int64]],
    steps: Steps,
    steady: Bool,
    *,
    by_marks: bool,
) -> DeviceSteps:
    """Put the steps of all devices in the order of time."""
    nothing = np.zeros(0, np.int64)
    row, begin, length, busy, waiting = (
        np.concatenate([nothing, *(of_device[part] for of_device in device_rows)])
        for part in (0, 2, 3, 4, 5)
    )
    names = [name for of_device in device_rows for name in [of_device[1]] * len(of_device[0])]
    order = np.argsort(row, kind="stable")
    row = row[order]
    return DeviceSteps(
        step=steps.number[row].astype(np.int64),
        device=tuple(names[i] for i in order),
        host_ns=steps.duration_ns[row],
        start_ns=begin[order],
        device_ns=length[order],
        busy_ns=busy[order],
        waiting_ns=waiting[order],
        is_steady=steady[row],
        by_marks=by_marks,
    )


def _marked(trace: Trace, work: DeviceWork, steps: Steps) -> tuple[Int64, Int64]:
    """Return when each device began and ended each step by its own marks; _NEVER without marks."""
    slices = trace.slices
    rows = np.flatnonzero(slices.kind == SliceKind.DEVICE_RANGE)
    numbers = [step_number(trace.name_of(int(row))) for row in rows]
    place = {int(number): i for i, number in enumerate(steps.number.tolist())}
    in_table = [i for i, number in enumerate(numbers) if number in place]
    rows = rows[in_table]
    step = np.array([place[numbers[i] or 0] for i in in_table], np.int64)
    # A mark lies on a stream; the device is that of the work there.
    device_of = np.full(len(trace.tracks), -1, np.int64)
    device_of[slices.track[work.rows]] = work.device
    return _ends(work, device_of[slices.track[rows]], step, rows, steps)


def _launched(trace: Trace, work: DeviceWork, steps: Steps) -> tuple[Int64, Int64]:
    """Return when each device began and ended the work that each step launched."""
    slices = trace.slices
    launch = np.where(work.call == NO_SLICE, work.operator[work.rows], work.call)
    at_ns = slices.start_ns[launch]
    step = np.searchsorted(steps.start_ns, at_ns, side="right") - 1
    inside = (launch != NO_SLICE) & (step >= 0) & (at_ns < steps.end_ns[np.maximum(step, 0)])
    return _ends(work, work.device[inside], step[inside], work.rows[inside], steps)


def _ends(
    work: DeviceWork, device: Int64, step: Int64, rows: Int64, steps: Steps
) -> tuple[Int64, Int64]:
    slices = work.trace.slices
    is_known = device >= 0
    first = np.full((len(work.devices), len(steps)), _NEVER, np.int64)
    last = np.full_like(first, np.iinfo(np.int64).min)
    at = device[is_known], step[is_known]
    np.minimum.at(first, at, slices.start_ns[rows[is_known]])
    np.maximum.at(last, at, slices.ends_of(rows[is_known]))
    return first, last
