"""The kernels of a trace by name: how often, how long, in which shape, and who launched them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.analysis.base.labels import shown_name
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import distinct, distinct_pairs, summed, weighted_mean
from stepscope.analysis.base.table import Table
from stepscope.analysis.device.busy import device_busy
from stepscope.analysis.device.math import uses_tensor_cores
from stepscope.analysis.work.work import DeviceWork, WorkKind, device_work
from stepscope.trace.fragments import pairs_of
from stepscope.trace.measures import Shown, Sums, measure, measured
from stepscope.trace.model import NO_SLICE, Float64, Int64, Trace
from stepscope.trace.table import added_columns
from stepscope.units import BYTES, COUNT, SHARE, TEXT, TIME

UNKNOWN = -1
_REGISTERS = "registers per thread"
_SHARED_MEMORY = "shared memory"
_OCCUPANCY = "est. achieved occupancy %"


@dataclass(frozen=True, slots=True)
class KernelTable(Table):
    """One row per kernel's name, the one with the longest total first. UNKNOWN: not in the trace.

    Shape and memory are those of the kernel's longest run.
    """

    name: tuple[str, ...] = measure("Name", TEXT)
    count: Int64 = measure("Calls", COUNT)
    total_ns: Int64 = measure("Total", TIME)
    busy_share: Float64 = measure("Of busy time", SHARE, "Overlapping kernels count twice")
    mean_ns: Int64 = measure("Mean", TIME)
    min_ns: Int64 = measure("Shortest", TIME, shown=Shown.PAGES)
    max_ns: Int64 = measure("Longest", TIME)
    kind: tuple[str, ...] = measure("Kind", TEXT, "Compute or communication", shown=Shown.PAGES)
    tensor_cores: tuple[str, ...] = measure("Tensor cores", TEXT, "Inferred from its name")
    operator: tuple[str, ...] = measure("Launched by", TEXT, "What launched most of its time")
    operators: Int64 = measure("Operators", COUNT, "That launched it", shown=Shown.PAGES)
    grid: tuple[str, ...] = measure("Grid", TEXT, "Of the longest run", shown=Shown.DETAILS)
    block: tuple[str, ...] = measure("Block", TEXT, "Of the longest run", shown=Shown.DETAILS)
    registers: Int64 = measure("Registers", COUNT, "Of a thread", shown=Shown.DETAILS)
    shared_memory_bytes: Int64 = measure("Shared memory", BYTES, "Of a block", shown=Shown.DETAILS)
    occupancy_percent: Int64 = measure(
        "Occupancy %", COUNT, "The trace's estimate, averaged over the kernel's time",
        shown=Shown.DETAILS,
    )  # fmt: skip
    added: Mapping[str, Int64] = added_columns()


@shared
def kernel_table(trace: Trace, work: DeviceWork | None = None) -> KernelTable:
    """Sum the kernels up by name, those with the longest total first."""
    work = work or device_work(trace)
    pieces = np.flatnonzero(work.is_kernel)
    rows, duration_ns = work.rows[pieces], work.duration_ns[pieces]
    ids, group = distinct(trace.slices.name[rows])
    total_ns = summed(group, duration_ns, len(ids))
    order = np.argsort(-total_ns, kind="stable")
    place = np.empty(len(ids), np.int64)
    place[order] = np.arange(len(ids))
    group, ids, total_ns = place[group], ids[order], total_ns[order]
    count = np.bincount(group, minlength=len(ids))
    # Sorted by duration, the last row of a group is its longest run.
    by_group = np.lexsort((duration_ns, group))
    ends = np.cumsum(count)
    longest, shortest = by_group[ends - 1], by_group[ends - count]
    shapes = [_shape(trace, int(row)) for row in rows[longest]]
    names = tuple(trace.strings[int(i)] for i in ids)
    operator, operators = _operators(work, rows, group, duration_ns, len(ids))
    return KernelTable(
        name=names,
        kind=tuple(WorkKind(kind).name.lower() for kind in work.kind[pieces[longest]]),
        tensor_cores=tuple(uses_tensor_cores(name).value for name in names),
        count=count,
        total_ns=total_ns,
        mean_ns=total_ns // np.maximum(count, 1),
        min_ns=duration_ns[shortest],
        max_ns=duration_ns[longest],
        busy_share=total_ns / max(int(device_busy(trace, work).busy_ns.sum()), 1),
        grid=tuple(grid for grid, _ in shapes),
        block=tuple(block for _, block in shapes),
        registers=_integer(trace, _REGISTERS)[rows[longest]],
        shared_memory_bytes=_integer(trace, _SHARED_MEMORY)[rows[longest]],
        occupancy_percent=weighted_mean(
            group, _integer(trace, _OCCUPANCY)[rows], duration_ns, len(ids), UNKNOWN
        ),
        operator=operator,
        operators=operators,
        added=sums_of_slices(trace, rows, group, len(ids)),
    )


def sums_of_slices(trace: Trace, rows: Int64, group: Int64, groups: int) -> dict[str, Int64]:
    """Return the added measures of some slices by group."""
    return {
        added.name: weighted_mean(group, values[rows], trace.slices.duration_ns[rows], groups)
        if added.sums is Sums.WEIGHTED
        else summed(group, values[rows], groups)
        for added, values in measured(trace.slices)
    }


def _integer(trace: Trace, key: str) -> Int64:
    return trace.slices.args.dense(key, len(trace.slices), UNKNOWN)


def _shape(trace: Trace, row: int) -> tuple[str, str]:
    rest = trace.slices.args.rest
    if not len(rest) or not rest[row]:
        return "", ""
    pairs = pairs_of(trace.strings[int(rest[row])])
    return _numbers(pairs.get("grid")), _numbers(pairs.get("block"))


def _numbers(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else ""


def _operators(
    work: DeviceWork, rows: Int64, group: Int64, duration_ns: Int64, groups: int
) -> tuple[tuple[str, ...], Int64]:
    """Return the operator that launched most of each group's time, and how many operators did."""
    trace, host = work.trace, work.operator[rows]
    with_operator = np.flatnonzero(host != NO_SLICE)
    if not len(with_operator):
        return ("",) * groups, np.zeros(groups, np.int64)
    present, place = np.unique(trace.slices.name[host[with_operator]], return_inverse=True)
    numbers: dict[str, int] = {}
    shown = [shown_name(trace.strings[int(i)]) for i in present]
    number = np.array([numbers.setdefault(text, len(numbers)) for text in shown])
    (of, name), which = distinct_pairs(group[with_operator], number[place])
    spent_ns = summed(which, duration_ns[with_operator], len(of))
    ascending = np.lexsort((spent_ns, of))
    names = dict(zip(of[ascending].tolist(), name[ascending].tolist(), strict=True))
    operator_names = tuple(numbers)
    texts = tuple(operator_names[names[i]] if i in names else "" for i in range(groups))
    return texts, np.bincount(of, minlength=groups)
