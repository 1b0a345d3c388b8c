"""The facts of the first page and of notebooks: where a trace comes from, where its time went."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.analysis.base.tree import distinct_ids, ids_where
from stepscope.analysis.device.busy import device_busy
from stepscope.analysis.device.kernels import kernel_table
from stepscope.analysis.host.step_operators import step_operators
from stepscope.analysis.memory.sites import asker_of
from stepscope.analysis.memory.timeline import memory_peak
from stepscope.analysis.memory.usage import devices as memory_devices
from stepscope.analysis.memory.usage import with_memory
from stepscope.analysis.steps.phases import phase_table
from stepscope.analysis.work.kernel_names import kernel_name
from stepscope.analysis.work.work import DeviceWork, device_work
from stepscope.trace.keys import INPUT_DIMS
from stepscope.trace.model import SliceKind, Trace

_TOP = 10
_LONGEST_METADATA = 300  # characters of one value
_SHAPES = f'"{INPUT_DIMS}"'


@dataclass(frozen=True, slots=True)
class TopRow:
    """An operator or a kernel among those that took most of the time."""

    name: str
    count: float
    self_ns: float  # self time; all time of a kernel


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    busy_ns: int
    window_ns: int


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """When most memory of a device was in use."""

    device: str
    bytes: int
    time_ns: int  # on the trace's clock
    where: str  # the operator that allocated last, "" if unknown


@dataclass(frozen=True, slots=True)
class Overview:
    """The facts of a trace; times in ns."""

    events: int
    threads: int
    streams: int
    window_ns: int
    overhead_ns: int  # calibrated cost of the whole recording; 0 if unknown
    event_overhead_ns: float
    busy_ns: int  # of all devices: the total of the kernels' shares
    operators: tuple[TopRow, ...]  # of an average steady step, or of a run without steps
    kernels: tuple[TopRow, ...]
    devices: tuple[Device, ...]
    peaks: tuple[MemoryPeak, ...]
    phases: tuple[tuple[str, int, int], ...]  # name, count, ns


def overview_of(trace: Trace) -> Overview:
    slices, info = trace.slices, trace.info
    work = device_work(trace)
    streams = np.unique(slices.track[slices.on_device])
    busy = device_busy(trace, work) if len(work) else None
    return Overview(
        events=len(trace),
        threads=len(distinct_ids(slices.track)) - len(streams),
        streams=len(streams),
        window_ns=max(info.end_ns - info.start_ns, 0),
        overhead_ns=round(len(trace) * info.overhead_ns),
        event_overhead_ns=float(info.overhead_ns),
        busy_ns=0 if busy is None else int(busy.busy_ns.sum()),
        operators=tuple(_operators(trace)),
        kernels=tuple(_kernels(trace, work)),
        devices=()
        if busy is None
        else tuple(
            Device(name, int(busy.busy_ns[i]), int(busy.window_ns[i]))
            for i, name in enumerate(busy.device)
        ),
        peaks=tuple(_peaks(trace)),
        phases=tuple((phase.name, phase.count, phase.total_ns) for phase in phase_table(trace)),
    )


def _operators(trace: Trace) -> Iterator[TopRow]:
    """Yield the operators of an average step with the most self time, as in the terminal."""
    rows = step_operators(trace)
    for row in range(min(len(rows), _TOP)):
        yield TopRow(rows.name[row], float(rows.calls[row]), float(rows.self_ns[row]))


def source_of(trace: Trace) -> dict[str, str]:
    """Return where a trace comes from, as labels and texts."""
    info = trace.info
    of_ranks = f" of {info.world_size}" if info.world_size else ""
    facts = {
        "framework": ", ".join(f"{name} {version}" for name, version in info.versions.items()),
        "device": ", ".join(_device_names(trace)),
        "host": " ".join(filter(None, [info.host, f"process {info.pid}" if info.pid else ""])),
        "rank": "" if info.rank is None else f"{info.rank}{of_ranks}",
        "written by": "" if info.producer == "stepscope" else info.producer,
        "recorded": ", ".join(_recorded(trace)),
    }
    return {label: text for label, text in facts.items() if text} | dict(info.sources)


def metadata_of(trace: Trace) -> dict[str, str]:
    """Return what the user, or a foreign file, says about the trace; long values are cut."""
    return {str(key): _cut(value) for key, value in trace.info.user.items() if value is not None}


def _kernels(trace: Trace, work: DeviceWork) -> Iterator[TopRow]:
    if not len(work):
        return
    table = kernel_table(trace, work)
    for i, name in enumerate(table.name[:_TOP]):
        yield TopRow(kernel_name(name), int(table.count[i]), int(table.total_ns[i]))


def _peaks(trace: Trace) -> Iterator[MemoryPeak]:
    trace = with_memory(trace)
    for device in memory_devices(trace):
        peak = memory_peak(trace, device)
        if peak is not None:
            yield MemoryPeak(device, peak.bytes, peak.time_ns, asker_of(trace, peak.slice))


def _recorded(trace: Trace) -> Iterator[str]:
    present = np.bincount(trace.slices.kind, minlength=256)
    for kind, words in ((SliceKind.MODULE, "modules"), (SliceKind.PYTHON, "Python calls")):
        if present[kind]:
            yield words
    if len(ids_where(trace.slices.args.rest, trace.strings, lambda rest: _SHAPES in rest)):
        yield "shapes"
    if len(trace.stacks) > 1:
        yield "stacks"
    if len(with_memory(trace).memory):
        yield "memory"


def _device_names(trace: Trace) -> Iterator[str]:
    names = [device.name for device in trace.devices()]
    for name in dict.fromkeys(filter(None, names)):
        times = names.count(name)
        yield f"{times} x {name}" if times > 1 else name


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_METADATA else f"{text[:_LONGEST_METADATA]} …"
