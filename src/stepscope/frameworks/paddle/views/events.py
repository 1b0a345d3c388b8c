"""Sums events by name: the Model, Operator, Kernel, Memory Manipulation and UserDefined views.

Sums are computed on columns; only the few numbers of each name become rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.tree import ids_where
from stepscope.analysis.calls.launches import launched_work
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.views.forest import NO_ROW, Forest, Work
from stepscope.frameworks.paddle.views.groups import Groups
from stepscope.frameworks.paddle.views.tables import ALL_THREADS, OTHERS, EventRow, EventTable, Span
from stepscope.trace.model import NO_PARENT, Bool, Int64, Trace

Sorter = Callable[[list[EventRow]], list[EventRow]]

PHASES = (
    TracerEventType.Dataloader,
    TracerEventType.Forward,
    TracerEventType.Backward,
    TracerEventType.Optimization,
)
_COPY_WORDS = ("memcpy", "memorycopy", "memset")
_HIGH = 2**32  # two 32-bit ids or rows make one key


@dataclass(frozen=True, slots=True)
class Totals:
    """The denominators of ratios, in ns."""

    step_ns: int  # the time that steps cover
    kernel_ns: int  # of kernels launched in steps
    device_ns: int  # of kernels, copies and fills launched in steps


def model_rows(forest: Forest) -> dict[TracerEventType, Int64]:
    """Return the steps, and the phases that are not nested in another phase."""
    is_phase = np.zeros(len(forest.types), np.bool_)
    is_phase[forest.of_type(*PHASES)] = True
    within = forest.inside(is_phase)
    rows = {
        event_type: forest.of_type(event_type)
        for event_type in (TracerEventType.ProfileStep, *PHASES)
    }
    return {
        event_type: outer_rows
        for event_type, of in rows.items()
        if len(outer_rows := of[~within[of]])
    }


def model_table(
    forest: Forest, phases_of: dict[TracerEventType, Int64], totals: Totals
) -> EventTable:
    """Return the steps, the phases in them and the rest; empty without a phase."""
    rows = []
    for event_type, members in phases_of.items():
        whole = Groups(np.zeros(len(members), np.int64), members)
        # Device time is that of kernels only: copies belong to no phase.
        spans = _spans(forest, members, whole, forest.kernel_ns)
        for calls, cpu, gpu in zip(whole.calls.tolist(), *spans, strict=True):
            level = int(event_type != TracerEventType.ProfileStep)
            rows.append(EventRow(ALL_THREADS, event_type.name, level, calls, cpu, gpu))
    phases = [row for row in rows if row.level]
    if not phases:
        return EventTable(())
    rest_ns = totals.step_ns - sum(row.cpu_ns for row in phases)
    left_gpu = totals.kernel_ns - sum(row.gpu.total_ns for row in phases)
    rows.append(EventRow(ALL_THREADS, OTHERS, 1, 0, Span.of(rest_ns), Span.of(left_gpu)))
    return EventTable(tuple([row.with_ratios(totals.step_ns, totals.kernel_ns) for row in rows]))


def operator_table(
    forest: Forest, flops: Int64, sort: Sorter, *, thread_sep: bool, op_detail: bool
) -> EventTable:
    """Return operators by name; ``op_detail`` adds their children and launched work."""
    members = forest.of_type(TracerEventType.Operator)
    groups = _by_name(forest, members, thread_sep=thread_sep)
    tops = _named_rows(forest, members, groups, thread_sep=thread_sep)
    tops = [
        row._replace(flops=count)
        for row, count in zip(tops, groups.total(flops[members]).tolist(), strict=True)
    ]
    details = _details(forest, members, groups) if op_detail and tops else {}
    number_of = {(row.thread, row.name): number for number, row in enumerate(tops)}
    rows = []
    for thread in dict.fromkeys(row.thread for row in tops):
        of_thread = sort([row for row in tops if row.thread == thread])
        cpu_ns = sum(row.cpu_ns for row in of_thread)
        gpu_ns = sum(row.gpu.total_ns for row in of_thread)
        for row in of_thread:
            rows.append(row.with_ratios(cpu_ns, gpu_ns))
            inside = details.get(number_of[row.thread, row.name], ())
            rows += [part._replace(thread=thread, operator=row.name) for part in inside]
    return EventTable(tuple(rows))


def user_defined_table(
    forest: Forest, totals: Totals, sort: Sorter, *, thread_sep: bool
) -> EventTable:
    """Return the user's ranges by name, except those that are named like copies."""
    ranges = forest.of_type(TracerEventType.PythonUserDefined)
    members = ranges[~_is_copy(forest, ranges)]
    groups = _by_name(forest, members, thread_sep=thread_sep)
    all_rows = _named_rows(forest, members, groups, thread_sep=thread_sep)
    rows = []
    for thread in dict.fromkeys(row.thread for row in all_rows):
        rows += sort([row for row in all_rows if row.thread == thread])
    return EventTable(tuple([row.with_ratios(totals.step_ns, totals.device_ns) for row in rows]))


def memory_manipulation_table(forest: Forest, totals: Totals) -> EventTable:
    """Return ranges that are named like copies and fills, in the order in which Paddle meets them.

    Only Paddle has such ranges: for other programs, CUDA's own calls are shown.
    """
    ranges = forest.of_type(TracerEventType.UserDefined, TracerEventType.PythonUserDefined)
    members = ranges[_is_copy(forest, ranges)]
    if len(members):
        groups = _by_name(forest, members, thread_sep=False)
        rows = _named_rows(forest, members, groups, thread_sep=False)
    else:
        rows = _copying_calls(forest)
    return EventTable(tuple([row.with_ratios(totals.step_ns, totals.device_ns) for row in rows]))


def _copying_calls(forest: Forest) -> list[EventRow]:
    slices = forest.trace.slices
    calls = np.flatnonzero(forest.is_runtime)
    calls = calls[_is_copy(forest, calls)]
    groups = Groups(slices.name[calls].astype(np.int64), calls)
    device_ns = np.zeros(len(slices), np.int64)
    work, call = launched_work(forest.trace)
    np.add.at(device_ns, call, slices.duration_ns[work])
    spans = (_device_spans(ns[calls], groups) for ns in (slices.duration_ns, device_ns))
    names = [forest.trace.strings[name] for name in groups.key.tolist()]
    return [
        EventRow(ALL_THREADS, name, 0, count, cpu, gpu)
        for name, count, cpu, gpu in zip(names, groups.calls.tolist(), *spans, strict=True)
    ]


def kernel_table(forest: Forest, sort: Sorter) -> EventTable:
    kernels = forest.kernels()
    slices = forest.trace.slices
    groups = Groups(slices.name[kernels.rows].astype(np.int64), kernels.seen)
    spans = _device_spans(slices.duration_ns[kernels.rows], groups)
    rows = sort(
        [
            EventRow(ALL_THREADS, forest.trace.strings[name], 0, calls, None, gpu)
            for name, calls, gpu in zip(
                groups.key.tolist(), groups.calls.tolist(), spans, strict=True
            )
        ]
    )
    gpu_ns = sum(row.gpu.total_ns for row in rows)
    return EventTable(tuple([row.with_ratios(0, gpu_ns) for row in rows]))


def thread_names(trace: Trace) -> list[str]:
    """Name the thread of each track by its number, with the process if that is ambiguous."""
    times = Counter(track.tid for track in trace.tracks)
    return [
        track.tid if times[track.tid] == 1 else f"{track.tid} of process {track.pid}"
        for track in trace.tracks
    ]


def _by_name(forest: Forest, members: Int64, *, thread_sep: bool) -> Groups:
    slices = forest.trace.slices
    key = slices.name[members].astype(np.int64)
    if thread_sep and len(members):
        key += slices.track[members].astype(np.int64) * _HIGH
    return Groups(key, forest.visit[members])


def _named_rows(
    forest: Forest, members: Int64, groups: Groups, *, thread_sep: bool
) -> list[EventRow]:
    trace = forest.trace
    threads = thread_names(trace) if thread_sep else []
    names = [trace.strings[key % _HIGH] for key in groups.key.tolist()]
    of_row = [threads[key // _HIGH] if thread_sep else ALL_THREADS for key in groups.key.tolist()]
    spans = _spans(forest, members, groups, forest.device_ns)
    return [
        EventRow(thread, name, 0, calls, cpu, gpu)
        for thread, name, calls, cpu, gpu in zip(
            of_row, names, groups.calls.tolist(), *spans, strict=True
        )
    ]


def _spans(
    forest: Forest, members: Int64, groups: Groups, device_ns: Int64
) -> tuple[list[Span], list[Span]]:
    slices = forest.trace.slices
    cpu, gpu = (groups.times(ns[members]) for ns in (slices.duration_ns, device_ns))
    cpu_self = groups.total(slices.self_ns[members])
    gpu_self = groups.total(forest.self_device_ns[members])
    return Span.of_columns(*cpu, cpu_self), Span.of_columns(*gpu, gpu_self)


def _device_spans(duration_ns: Int64, groups: Groups) -> list[Span]:
    times = groups.times(duration_ns)
    return Span.of_columns(*times, times[0])


def _details(forest: Forest, members: Int64, groups: Groups) -> dict[int, list[EventRow]]:
    """Return the detail rows of each group of operators."""
    group_of = np.full(len(forest.types), NO_ROW, np.int64)
    group_of[members] = groups.index()
    children = _children(forest, group_of)
    visit = forest.visit
    above = forest.parent[children]
    names = forest.trace.slices.name
    inner = Groups(
        group_of[above] * _HIGH + names[children],
        visit[above] * _HIGH + children,  # operators in traversal order, their children by time
    )
    inner_of = np.full(len(forest.types), NO_ROW, np.int64)
    inner_of[children] = inner.index()
    tops = groups.times(forest.trace.slices.duration_ns[members])[0]
    tops_gpu = groups.times(forest.device_ns[members])[0]
    spans = _spans(forest, children, inner, forest.device_ns)
    inner_gpu = np.array([span.total_ns for span in spans[1]], np.int64)
    kernels_of_inner = _launched(forest, inner_of, inner_gpu, level=2)
    details: dict[int, list[EventRow]] = {}
    for number, (key, calls, cpu, gpu) in enumerate(
        zip(inner.key.tolist(), inner.calls.tolist(), *spans, strict=True)
    ):
        top, name = divmod(key, _HIGH)
        row = EventRow("", forest.trace.strings[name], 1, calls, cpu, gpu)
        rows = details.setdefault(top, [])
        rows.append(row.with_ratios(int(tops[top]), int(tops_gpu[top])))
        rows += kernels_of_inner.get(number, ())
    for top, rows in _launched(forest, group_of, tops_gpu, level=1).items():
        details.setdefault(top, []).extend(rows)
    return details


def _children(forest: Forest, group_of: Int64) -> Int64:
    """Return the direct children of operators that are no operators themselves."""
    rows = forest.rows
    parent = forest.parent[rows]
    of_operator = group_of.take(parent, mode="clip") != NO_ROW
    of_operator &= parent != NO_PARENT
    of_operator &= forest.types[rows] != TracerEventType.Operator
    children: Int64 = rows[of_operator]
    return children


def _launched(
    forest: Forest, group_of: Int64, gpu_ns: Int64, *, level: int
) -> dict[int, list[EventRow]]:
    """Return, by name, the device work that the host events of each group launched themselves."""
    tied = forest.work.take(forest.work.host != NO_ROW)
    work = tied.take(group_of[tied.host] != NO_ROW)
    slices = forest.trace.slices
    groups = Groups(
        group_of[work.host] * _HIGH + slices.name[work.rows], _met_at(forest, work, level)
    )
    spans = _device_spans(slices.duration_ns[work.rows], groups)
    launched: dict[int, list[EventRow]] = {}
    for key, calls, gpu in zip(groups.key.tolist(), groups.calls.tolist(), spans, strict=True):
        group, name = divmod(key, _HIGH)
        row = EventRow("", forest.trace.strings[name], level, calls, None, gpu)
        launched.setdefault(group, []).append(row.with_ratios(0, int(gpu_ns[group])))
    return launched


def _met_at(forest: Forest, work: Work, level: int) -> Int64:
    """Return the order in which Paddle meets work: children of operators are visited by time."""
    if level == 1:
        return work.seen
    above = forest.visit[forest.parent[work.host]]
    met = np.empty(len(work.rows), np.int64)
    met[np.lexsort((work.seen, work.host, above))] = np.arange(len(work.rows))
    return met


def _is_copy(forest: Forest, rows: Int64) -> Bool:
    name = forest.trace.slices.name[rows]
    copies = ids_where(name, forest.trace.strings, _says_copy)
    return np.isin(name, copies)


def _says_copy(name: str) -> bool:
    return any(word in name.lower() for word in _COPY_WORDS)
