"""Computes Paddle's summary, view by view, for traces of any framework.

The figures follow Paddle: its event types, what it merges, and what its ratios refer to. Paddle's
errors are corrected: bytes count once, a trace without steps has ratios of the whole recording, and
device work counts even if its launch is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.sums import around
from stepscope.analysis.base.tree import ids_where
from stepscope.analysis.flops.count import flops_of
from stepscope.enums import NamedAlike
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.views.events import (
    PHASES,
    Totals,
    kernel_table,
    memory_manipulation_table,
    model_rows,
    model_table,
    operator_table,
    user_defined_table,
)
from stepscope.frameworks.paddle.views.forest import NO_ROW, Forest, Work, rows_by_value
from stepscope.frameworks.paddle.views.groups import Groups
from stepscope.frameworks.paddle.views.tables import (
    DeviceRow,
    DeviceTable,
    DistributionRow,
    DistributionTable,
    EventRow,
    MemoryRow,
    MemoryTable,
    OverviewRow,
    OverviewTable,
    Peak,
    SummaryTables,
    share,
)
from stepscope.trace.model import NO_SLICE, Bool, Int64, Trace

OUTSIDE = "(outside of all events)"
_HIGH = 2**32


def memory_table(forest: Forest) -> MemoryTable:
    """Return allocations and releases by the event around them, the largest growth first.

    As in Paddle, phases inside an operator (OperatorInner) count for the event around them.
    Paddle adds the bytes of an operator's children to the operator's row, too, and so counts them
    twice; here they are only in the child's row. There is a row for what is outside of all events.
    """
    trace = forest.trace
    if not len(trace.memory):
        return MemoryTable((), {})
    host = _hosts(forest)
    rows = _rows(forest, host, trace.memory.size, "Allocated")
    # What the allocator takes from the device or gives back is in rows of their own, with size 0.
    reserved = np.where(trace.memory.size == 0, forest.memory_figures["increase"], 0)
    rows += _rows(forest, host, reserved, "Reserved")
    peaks = {place: _peak(forest, place) for place in dict.fromkeys(row.place for row in rows)}
    by_place = [row for place in peaks for row in rows if row.place == place]
    return MemoryTable(tuple(by_place), peaks)


def _rows(forest: Forest, host: Int64, size: Int64, memory_type: str) -> list[MemoryRow]:
    trace = forest.trace
    which = np.flatnonzero(size)
    host, size = host[which], size[which]
    tied = host != NO_SLICE
    name = np.zeros(len(which), np.int64)
    name[tied] = trace.slices.name[host[tied]] + 1  # 0: outside of all events
    visit = np.full(len(which), 0, np.int64)
    visit[tied] = forest.visit[host[tied]] + 1
    place = trace.memory.device[which].astype(np.int64)
    groups = Groups(place * _HIGH + name, visit * _HIGH + which)
    columns = (
        groups.key,
        groups.total((size > 0).astype(np.int64)),
        groups.total((size < 0).astype(np.int64)),
        groups.total(np.maximum(size, 0)),
        groups.total(np.maximum(-size, 0)),
    )
    rows = [
        MemoryRow(
            trace.strings[key // _HIGH],
            trace.strings[key % _HIGH - 1] if key % _HIGH else OUTSIDE,
            memory_type,
            *numbers,
        )
        for key, *numbers in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return sorted(rows, key=lambda row: -row.increased_bytes)


def _hosts(forest: Forest) -> Int64:
    """Return the host event that each memory event belongs to, or NO_SLICE."""
    counts = forest.is_event & (forest.types != TracerEventType.OperatorInner)
    return around(forest.parent, forest.trace.memory.slice, counts, itself=True)


def _peak(forest: Forest, place: str) -> Peak:
    """Return a place's largest use of memory, including the time before the recording if known."""
    trace, figures = forest.trace, forest.memory_figures
    rows = trace.memory.device == trace.strings.ids_of([place])[place]
    return Peak(*(int(figures[key][rows].max()) for key in ("peak_allocated", "peak_reserved")))


PROCESS_CPU_KEY = "Process Cpu Utilization"
SYSTEM_CPU_KEY = "System Cpu Utilization"

_EXTRA_INFO = "ExtraInfo"  # contains both in Paddle's files
_COMMUNICATION_OPERATORS = ("allreduce", "broadcast", "rpc")
_COMMUNICATION_KERNELS = ("nccl", "xccl")


class SortedKeys(NamedAlike):
    """What the rows of a view are sorted by: ascending for Min, else descending."""

    CPUTotal = 0
    CPUAvg = 1
    CPUMax = 2
    CPUMin = 3
    GPUTotal = 4
    GPUAvg = 5
    GPUMax = 6
    GPUMin = 7


class SummaryView(NamedAlike):
    DeviceView = 0
    OverView = 1
    ModelView = 2
    DistributedView = 3
    KernelView = 4
    OperatorView = 5
    MemoryView = 6
    MemoryManipulationView = 7
    UDFView = 8


_SORT_KEYS: dict[SortedKeys, Callable[[EventRow], float]] = {
    SortedKeys.CPUTotal: lambda row: -row.cpu_ns,
    SortedKeys.CPUAvg: lambda row: -row.cpu_ns / row.calls,
    SortedKeys.CPUMax: lambda row: -row.cpu.max_ns if row.cpu else 0,
    SortedKeys.CPUMin: lambda row: row.cpu.min_ns if row.cpu else 0,
    SortedKeys.GPUTotal: lambda row: -row.gpu.total_ns,
    SortedKeys.GPUAvg: lambda row: -row.gpu.total_ns / row.calls,
    SortedKeys.GPUMax: lambda row: -row.gpu.max_ns,
    SortedKeys.GPUMin: lambda row: row.gpu.min_ns,
}


def summary_tables(
    trace: Trace,
    *,
    sorted_by: SortedKeys = SortedKeys.CPUTotal,
    op_detail: bool = True,
    thread_sep: bool = False,
) -> SummaryTables:
    """Return all views of a trace.

    ``op_detail`` adds rows for the contents of operators and the kernels that they launch;
    ``thread_sep`` separates operators and ranges by thread.
    """
    by_gpu = sorted_by.name.startswith("GPU")
    forest = Forest(trace)
    steps = union(*_interval(trace, forest.of_type(TracerEventType.ProfileStep)))
    phases = model_rows(forest)
    totals = _totals(forest, phases, steps)
    communication = _communication(forest)
    flops = forest.summed_up(flops_of(trace))
    sort = _sorter(sorted_by)
    return SummaryTables(
        total_ns=totals.step_ns,
        has_steps=steps.total_ns > 0,
        device=_device_table(forest, totals),
        overview=_overview_table(forest, phases, communication, totals),
        model=model_table(forest, phases, totals),
        distribution=_distribution_table(communication, totals),
        operators=operator_table(forest, flops, sort, thread_sep=thread_sep, op_detail=op_detail),
        kernels=kernel_table(forest, sort if by_gpu else _sorter(SortedKeys.GPUTotal)),
        memory_manipulation=memory_manipulation_table(forest, totals),
        user_defined=user_defined_table(forest, totals, sort, thread_sep=thread_sep),
        memory=memory_table(forest),
    )


@dataclass(frozen=True, slots=True)
class _Communication:
    """When devices exchanged data and when they computed, and the number of exchanges."""

    host: Intervals
    device: Intervals
    computation: Intervals
    host_calls: int
    device_calls: int


def _sorter(sorted_by: SortedKeys) -> Callable[[list[EventRow]], list[EventRow]]:
    return lambda rows: sorted(rows, key=_SORT_KEYS[sorted_by])


def _interval(trace: Trace, rows: Int64) -> tuple[Int64, Int64]:
    start_ns = trace.slices.start_ns[rows]
    return start_ns, start_ns + trace.slices.duration_ns[rows]


def _totals(forest: Forest, phases: dict[TracerEventType, Int64], steps: Intervals) -> Totals:
    """Return the denominators of ratios: the steps, else the whole recording."""
    rows = phases.get(TracerEventType.ProfileStep)
    if rows is not None and steps.total_ns:
        kernel_ns, device_ns = (ns[rows].sum() for ns in (forest.kernel_ns, forest.device_ns))
        return Totals(steps.total_ns, int(kernel_ns), int(device_ns))
    slices, info = forest.trace.slices, forest.trace.info
    recorded_ns = info.end_ns - info.start_ns
    if recorded_ns <= 0 and len(slices):
        recorded_ns = int(slices.end_ns.max() - slices.start_ns.min())
    duration_ns = slices.duration_ns
    return Totals(
        recorded_ns,
        int(duration_ns[forest.kernels().rows].sum()),
        int(duration_ns[forest.work.rows].sum()),
    )


def _device_table(forest: Forest, totals: Totals) -> DeviceTable:
    rows = [
        DeviceRow("CPU(Process)", _cpu_use(forest.trace, PROCESS_CPU_KEY)),
        DeviceRow("CPU(System)", _cpu_use(forest.trace, SYSTEM_CPU_KEY)),
    ]
    kernels = forest.kernels()
    for device in Groups(forest.work.device, forest.work.seen).key.tolist():
        own = kernels.rows[kernels.device == device]
        busy_ns = union(*_interval(forest.trace, own)).total_ns
        rows.append(DeviceRow(f"GPU{device}", share(busy_ns, totals.step_ns)))
    return DeviceTable(tuple(rows))


def _cpu_use(trace: Trace, key: str) -> float | None:
    """Return a fraction that the recording measured, or None."""
    user = trace.info.user
    extra = user.get(_EXTRA_INFO)
    value = user.get(key, extra.get(key) if isinstance(extra, dict) else None)
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def _overview_table(
    forest: Forest,
    phases: dict[TracerEventType, Int64],
    communication: _Communication,
    totals: Totals,
) -> OverviewTable:
    """Return the host's types, the longest first, then the devices' types as Paddle meets them."""
    on_host: dict[TracerEventType, tuple[int, int]] = {}
    for event_type, rows in _rows_by_type(forest).items():
        if event_type in PHASES and event_type in phases:
            outermost = phases[event_type]
            total_ns = int(forest.trace.slices.duration_ns[outermost].sum())
            on_host[event_type] = len(outermost), total_ns
        elif event_type != TracerEventType.Communication:
            covered = union(*_interval(forest.trace, rows))
            on_host[event_type] = len(rows), covered.total_ns
    if communication.host_calls:
        exchanges = communication.host_calls, communication.host.total_ns
        on_host[TracerEventType.Communication] = exchanges
    host = sorted(on_host.items(), key=lambda item: -item[1][1])
    device = _device_types(forest)
    if communication.device_calls:
        exchanges = communication.device_calls, communication.device.total_ns
        device[TracerEventType.Communication] = exchanges
    rows_of = ((False, host), (True, device.items()))
    return OverviewTable(
        tuple(
            OverviewRow(event_type.name, on_device, calls, time_ns, share(time_ns, totals.step_ns))
            for on_device, types in rows_of
            for event_type, (calls, time_ns) in types
        )
    )


def _rows_by_type(forest: Forest) -> dict[TracerEventType, Int64]:
    """Return host events and calls by type, in the order in which Paddle meets the types."""
    hosts = dict(forest.events_by_type)
    calls = rows_by_value(forest.types, np.flatnonzero(forest.is_runtime))
    first = {event_type: 2 * int(forest.visit[rows].min()) for event_type, rows in hosts.items()}
    for event_type, rows in calls.items():  # a call is met right after the event around it
        after = 2 * int(forest.visit.take(forest.parent[rows]).min()) + 1
        first[event_type] = min(after, first.get(event_type, after))
        hosts[event_type] = np.sort(np.concatenate([hosts.get(event_type, rows[:0]), rows]))
    return {
        TracerEventType(event_type): hosts[event_type]
        for event_type in sorted(hosts, key=first.__getitem__)
    }


def _device_types(forest: Forest) -> dict[TracerEventType, tuple[int, int]]:
    """Return calls and time of the devices' types, in the order in which Paddle meets them."""
    work = forest.work
    types = forest.types[work.rows].astype(np.int64)
    place = np.full(len(types), NO_ROW, np.int64)
    for number, device in enumerate(Groups(work.device, work.seen).key.tolist()):
        place[work.device == device] = number
    met = Groups(types, place * len(types) + work.seen).key.tolist()
    times_of = {}
    for event_type in met:
        rows = work.rows[types == event_type]
        covered = union(*_interval(forest.trace, rows))
        times_of[TracerEventType(event_type)] = len(rows), covered.total_ns
    return times_of


def _distribution_table(communication: _Communication, totals: Totals) -> DistributionTable:
    host, device = communication.host, communication.device
    exchange = union(
        np.concatenate([host.start_ns, device.start_ns]),
        np.concatenate([host.end_ns, device.end_ns]),
    )
    if not communication.host_calls and not communication.device_calls:
        return DistributionTable(())
    times = {
        TracerEventType.ProfileStep.name: totals.step_ns,
        TracerEventType.Communication.name: exchange.total_ns,
        "Computation": communication.computation.total_ns,
        "Overlap": exchange.shared_with(communication.computation).total_ns,
    }
    return DistributionTable(
        tuple(DistributionRow(name, ns, share(ns, totals.step_ns)) for name, ns in times.items())
    )


def _communication(forest: Forest) -> _Communication:
    """Find communication by type and by name, and all other kernels.

    As in Paddle, a kernel that a communication launched through an event inside it also counts as
    computation, unless its name says that it communicates.
    """
    trace, slices = forest.trace, forest.trace.slices
    exchanges = np.zeros(len(slices), np.bool_)
    exchanges[forest.of_type(TracerEventType.Communication)] = True
    operators = forest.of_type(TracerEventType.Operator)
    exchanges[operators[_named(trace, operators, _COMMUNICATION_OPERATORS)]] = True
    within = forest.inside(exchanges) | exchanges
    kernels = forest.kernels()
    of_exchange = _at_host(within, kernels)
    directly = _at_host(exchanges, kernels)
    says_so = _named(trace, kernels.rows, _COMMUNICATION_KERNELS)
    host = _interval(trace, np.flatnonzero(exchanges))
    device = _interval(trace, kernels.rows[of_exchange | says_so])
    return _Communication(
        host=union(*host),
        device=union(*device),
        computation=union(*_interval(trace, kernels.rows[~directly & ~says_so])),
        host_calls=_distinct(*host),
        device_calls=_distinct(*device),
    )


def _at_host(marked: Bool, work: Work) -> Bool:
    if not len(marked):
        return np.zeros(0, np.bool_)
    of_marked: Bool = marked[work.host] & (work.host != NO_ROW)
    return of_marked


def _named(trace: Trace, rows: Int64, words: tuple[str, ...]) -> Bool:
    name = trace.slices.name[rows]
    ids = ids_where(name, trace.strings, lambda text: any(word in text.lower() for word in words))
    return np.isin(name, ids)


def _distinct(start_ns: Int64, end_ns: Int64) -> int:
    return len(np.unique(np.stack([start_ns, end_ns]), axis=1).T)
