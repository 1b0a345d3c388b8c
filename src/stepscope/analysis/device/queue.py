"""The queues between host and devices: how long launched work waits, and how much of it.

A piece of work is in the queue from the moment its launching call begins until the work starts. The
calls of some drivers return after the work has started, so the call's end would make no sense as
the moment. All kernels of a CUDA graph enter the queue with the one call that launches the graph.
Work whose call is not in the trace is counted and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from stepscope.analysis.base.labels import Labels
from stepscope.analysis.base.table import Table
from stepscope.analysis.work.work import DeviceWork, device_work
from stepscope.trace.measures import Shown, measure
from stepscope.trace.model import NO_SLICE, Float64, Int64, Trace
from stepscope.units import COUNT, RATIO, TEXT, TIME


@dataclass(frozen=True, slots=True)
class LaunchDelays(Table):
    """One row per piece of work whose launching call is known, in the order of their starts."""

    device: Labels[str] = measure("Device", TEXT)
    stream: Labels[str] = measure("Stream", TEXT)
    work: Int64 = measure("Row of the work", COUNT, shown=Shown.DATA)
    call: Int64 = measure("Row of the call", COUNT, shown=Shown.DATA)
    delay_ns: Int64 = measure("Delay", TIME)  # from the start of the call to that of the work
    after_call_ns: Int64 = measure("After the call", TIME, shown=Shown.DATA)  # negative: before
    ahead: Int64 = measure("Ahead", COUNT)  # pieces of work in the queue when the call began
    name: Sequence[str] = measure("Work", TEXT)
    operator: Sequence[str] = measure("Launched by", TEXT)  # "" if unknown


@dataclass(frozen=True, slots=True)
class LaunchQueues(Table):
    """One row per stream, and one per device that has several (``stream`` is "all")."""

    device: tuple[str, ...] = measure("Device", TEXT)
    stream: tuple[str, ...] = measure("Stream", TEXT)
    launches: Int64 = measure("Launches", COUNT, "Pieces of work whose launching call is known")
    unknown: Int64 = measure("Unknown", COUNT, "Pieces of work whose launching call is not known")
    mean_delay_ns: Int64 = measure("Mean delay", TIME)
    median_delay_ns: Int64 = measure("Median delay", TIME)
    max_delay_ns: Int64 = measure("Longest delay", TIME)
    longest: Int64 = measure("Longest queue", COUNT, "Pieces of work that waited at a time")
    empty_ns: Int64 = measure("Empty", TIME, "From the first call to the last start")
    mean_length: Float64 = measure("Mean queue", RATIO, "Over that time")


@dataclass(frozen=True, slots=True)
class QueueLength(Table):
    """The length of a queue over time: ``length[i]`` from ``time_ns[i]`` to the next."""

    time_ns: Int64
    length: Int64


ALL_STREAMS = "all"


def launch_delays(trace: Trace, work: DeviceWork | None = None) -> LaunchDelays:
    """Return how long each piece of work waited from its launch to its start."""
    work = work or device_work(trace)
    launched = np.flatnonzero(work.call != NO_SLICE)
    call, slices = work.call[launched], trace.slices
    ahead = np.zeros(len(launched), np.int64)
    for stream in range(len(work.streams)):
        mine = np.flatnonzero(work.stream[launched] == stream)
        ahead[mine] = _ahead(slices.start_ns[call[mine]], work.start_ns[launched[mine]])
    streams = work.stream[launched].astype(np.uint32)
    return LaunchDelays(
        device=Labels(streams, [work.devices[device] for device, _ in work.streams]),
        stream=Labels(streams, [name for _, name in work.streams]),
        work=work.rows[launched],
        call=call,
        delay_ns=work.start_ns[launched] - slices.start_ns[call],
        after_call_ns=work.start_ns[launched] - slices.ends_of(call),
        ahead=ahead,
        name=work.names(work.rows[launched]),
        operator=work.operator_names(work.rows[launched]),
    )


def launch_queues(trace: Trace, work: DeviceWork | None = None) -> LaunchQueues:
    """Return the length and the delay of the queue of every stream, and of every device."""
    work = work or device_work(trace)
    groups = []
    for device, name in enumerate(work.devices):
        own = [i for i, (of, _) in enumerate(work.streams) if of == device]
        if len(own) != 1:
            groups.append((name, ALL_STREAMS, np.flatnonzero(work.device == device)))
        groups += [(name, work.streams[i][1], np.flatnonzero(work.stream == i)) for i in own]
    rows = [_queue_numbers(work, pieces) for _, _, pieces in groups]
    names = [field.name for field in fields(LaunchQueues)][2:-1]
    integers = np.array([numbers for numbers, _ in rows], np.int64).reshape(-1, len(names)).T
    return LaunchQueues(
        device=tuple(device for device, _, _ in groups),
        stream=tuple(stream for _, stream, _ in groups),
        mean_length=np.array([length for _, length in rows], np.float64),
        **dict(zip(names, integers, strict=True)),
    )


def queue_length(trace: Trace, device: str, stream: str = ALL_STREAMS) -> QueueLength:
    """Return the length of a queue over time, for a chart."""
    work = device_work(trace)
    streams = [
        i
        for i, (of, name) in enumerate(work.streams)
        if work.devices[of] == device and stream in {name, ALL_STREAMS}
    ]
    if not streams:
        queues = ", ".join(f"{work.devices[of]}/{name}" for of, name in work.streams)
        raise ValueError(f"no work on stream {stream!r} of device {device!r}; there is {queues}")
    pieces = np.flatnonzero(np.isin(work.stream, streams) & (work.call != NO_SLICE))
    return _length_of(trace.slices.start_ns[work.call[pieces]], work.start_ns[pieces])


def _queue_numbers(work: DeviceWork, pieces: Int64) -> tuple[tuple[int, ...], float]:
    """Return the integers of a row of LaunchQueues, and the mean length."""
    launched = pieces[work.call[pieces] != NO_SLICE]
    if not len(launched):
        return (0, len(pieces), 0, 0, 0, 0, 0), 0.0
    start_ns = work.start_ns[launched]
    call_ns = work.trace.slices.start_ns[work.call[launched]]
    delay_ns = start_ns - call_ns
    queue = _length_of(call_ns, start_ns)
    lasts_ns = np.diff(queue.time_ns)
    window_ns = int(lasts_ns.sum())
    waited_ns = int((queue.length[:-1] * lasts_ns).sum())
    integers = (
        len(launched),
        len(pieces) - len(launched),
        int(delay_ns.sum()) // len(launched),
        int(np.median(delay_ns)),
        int(delay_ns.max()),
        int(queue.length.max()),
        int(lasts_ns[queue.length[:-1] == 0].sum()),
    )
    return integers, waited_ns / window_ns if window_ns else 0.0


def _length_of(call_ns: Int64, start_ns: Int64) -> QueueLength:
    """Return the queue length over time; work that starts before its call never waited."""
    came = np.minimum(call_ns, start_ns)
    times, moment = np.unique(np.concatenate([came, start_ns]), return_inverse=True)
    change = np.bincount(moment[: len(came)], minlength=len(times))
    change -= np.bincount(moment[len(came) :], minlength=len(times))
    return QueueLength(times, np.cumsum(change))


def _ahead(call_ns: Int64, start_ns: Int64) -> Int64:
    """Return how many earlier launches of the stream had not started at each call."""
    came, gone = np.sort(np.minimum(call_ns, start_ns)), np.sort(start_ns)
    earlier = np.searchsorted(came, call_ns, side="left")
    started = np.searchsorted(gone, call_ns, side="right")
    ahead: Int64 = np.maximum(earlier - started, 0)
    return ahead
