"""How long devices worked: by device, by stream and by step, in exact ns.

A device is busy while any of its streams works: the union of all work, no moment counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import summed
from stepscope.analysis.base.table import Table
from stepscope.analysis.steps.steps import step_table
from stepscope.analysis.work.work import DeviceWork, WorkKind, device_work
from stepscope.trace.measures import Shown, measure, states
from stepscope.trace.model import Float64, Int64, Trace
from stepscope.units import COUNT, SHARE, TEXT, TIME


@dataclass(frozen=True, slots=True)
class DeviceBusy(Table):
    """One row per device. Every ``..._ns`` but the last is a union of intervals."""

    device: tuple[str, ...] = measure("Device", TEXT)
    streams: Int64 = measure("Streams", COUNT)
    work: Int64 = measure("Work", COUNT, "Kernels, copies and fills")
    window_ns: Int64 = measure("Recorded", TIME)
    busy_ns: Int64 = measure("Busy", TIME)
    idle_ns: Int64 = measure("Idle", TIME, shown=Shown.PAGES)
    compute_ns: Int64 = measure("Compute", TIME, "Of kernels that do not communicate")
    communication_ns: Int64 = measure("Communication", TIME)
    copy_ns: Int64 = measure("Copies", TIME)
    fill_ns: Int64 = measure("Fills", TIME)
    summed_ns: Int64 = measure("Summed", TIME, "All durations", shown=Shown.DATA)

    @property
    @states("Busy %", SHARE, after="busy_ns")
    def busy_share(self) -> Float64:
        return self.busy_ns / np.maximum(self.window_ns, 1)


@dataclass(frozen=True, slots=True)
class StreamBusy(Table):
    """One row per stream."""

    device: tuple[str, ...] = measure("Device", TEXT)
    stream: tuple[str, ...] = measure("Stream", TEXT)
    work: Int64 = measure("Work", COUNT)
    start_ns: Int64 = measure("Start", TIME, "Of the first piece of work", shown=Shown.DATA)
    end_ns: Int64 = measure("End", TIME, "Of the last piece of work", shown=Shown.DATA)
    busy_ns: Int64 = measure("Busy", TIME)  # a union: kernels may overlap on one stream
    summed_ns: Int64 = measure("Summed", TIME)
    compute_ns: Int64 = measure("Compute", TIME, "Of kernels that do not communicate")
    communication_ns: Int64 = measure("Communication", TIME)
    copy_ns: Int64 = measure("Copies", TIME)
    fill_ns: Int64 = measure("Fills", TIME)

    @property
    @states("First to last", TIME, after="work")
    def span_ns(self) -> Int64:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class StepBusy(Table):
    """One row per step and device: what the device did while the step ran on the host.

    A device works behind the host: what a step launched may run in the next one's time.
    """

    step: Int64
    device: tuple[str, ...]
    start_ns: Int64
    duration_ns: Int64
    busy_ns: Int64
    idle_ns: Int64


@shared
def device_busy(trace: Trace, work: DeviceWork | None = None) -> DeviceBusy:
    """Return the busy and idle time of every device that worked."""
    work = work or device_work(trace)
    start_ns, end_ns = work.window_ns()
    count = len(work.devices)
    streams = np.array([device for device, _ in work.streams], np.int64)
    window_ns = np.full(count, end_ns - start_ns, np.int64)
    busy_ns = _busy_ns(work, work.device, count)
    return DeviceBusy(
        device=work.devices,
        streams=np.bincount(streams, minlength=count),
        work=np.bincount(work.device, minlength=count),
        window_ns=window_ns,
        busy_ns=busy_ns,
        idle_ns=window_ns - busy_ns,
        summed_ns=summed(work.device, work.duration_ns, count),
        **_by_kind(work, work.device, count),
    )


def stream_busy(trace: Trace, work: DeviceWork | None = None) -> StreamBusy:
    """Return the busy time of every stream that worked."""
    work = work or device_work(trace)
    count = len(work.streams)
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, work.stream, work.start_ns)
    np.maximum.at(last, work.stream, work.end_ns)
    return StreamBusy(
        device=tuple(work.devices[device] for device, _ in work.streams),
        stream=tuple(name for _, name in work.streams),
        work=np.bincount(work.stream, minlength=count),
        start_ns=first,
        end_ns=last,
        busy_ns=_busy_ns(work, work.stream, count),
        summed_ns=summed(work.stream, work.duration_ns, count),
        **_by_kind(work, work.stream, count),
    )


def step_busy(trace: Trace, work: DeviceWork | None = None) -> StepBusy:
    """Return how long every device worked in the time of every step."""
    work = work or device_work(trace)
    steps = step_table(trace)
    ends = steps.start_ns + steps.duration_ns
    devices = range(len(work.devices))
    busy = [work.busy(work.device == d).covered(steps.start_ns, ends) for d in devices]
    busy_ns = np.stack(busy, 1).reshape(-1) if busy else np.zeros(0, np.int64)
    duration_ns = np.repeat(steps.duration_ns, len(devices))
    return StepBusy(
        step=np.repeat(steps.number, len(devices)).astype(np.int64),
        device=work.devices * len(steps),
        start_ns=np.repeat(steps.start_ns, len(devices)),
        duration_ns=duration_ns,
        busy_ns=busy_ns,
        idle_ns=duration_ns - busy_ns,
    )


def _busy_ns(work: DeviceWork, group: Int64, groups: int, kind: WorkKind | None = None) -> Int64:
    asked = np.ones(len(work), np.bool_) if kind is None else work.kind == kind
    return np.array([work.busy(asked & (group == i)).total_ns for i in range(groups)], np.int64)


def _by_kind(work: DeviceWork, group: Int64, groups: int) -> dict[str, Int64]:
    return {f"{kind.name.lower()}_ns": _busy_ns(work, group, groups, kind) for kind in WorkKind}
