"""Device work: kernels by name and by who launched them, copies, communication, queues, idling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.labels import Labels, name_labels
from stepscope.analysis.base.sums import summed
from stepscope.analysis.base.table import Table, columns_of
from stepscope.analysis.device.busy import device_busy
from stepscope.analysis.device.communication import collective_table, communication_overlap
from stepscope.analysis.device.copies import copy_table
from stepscope.analysis.device.counters import CounterMean, counter_means
from stepscope.analysis.device.kernels import UNKNOWN, kernel_table, sums_of_slices
from stepscope.analysis.device.power import device_power
from stepscope.analysis.device.queue import launch_queues
from stepscope.analysis.work.idle import IdleReason, device_idle
from stepscope.analysis.work.kernel_names import kernel_name
from stepscope.analysis.work.work import DeviceWork, device_work
from stepscope.report.base.payload import Payload, add_headings, add_table, known_or_nan
from stepscope.report.sections.calls import Calls, calls_of
from stepscope.text.power import power_columns
from stepscope.trace.measures import Measure
from stepscope.trace.model import NO_SLICE, Int64, Trace

Columns = dict[str, Sequence[str] | NDArray[Any]]


def add_kernels(trace: Trace, payload: Payload) -> None:
    """Add ``kernels`` and its groupings, ``copies``, ``collectives`` and so on, if there are any.

    A grouping such as ``kernels.operator`` splits kernels by the call that launched them.
    """
    _add_power(trace, payload)
    _add_counters(trace, payload)
    work = device_work(trace)
    if not len(work):
        return
    kernels = kernel_table(trace, work)
    add_table(payload, "kernels.name", _known_columns(kernels) | {"name": _shown(kernels.name)})
    add_headings(payload, "kernels", kernels.on_pages())
    busy_ns = int(device_busy(trace, work).busy_ns.sum())
    groupings = _groupings(calls_of(trace), work)
    payload.add_value("kernels.groupings", ["name", *groupings])
    for grouping, labels in groupings.items():
        add_table(payload, f"kernels.{grouping}", _by(work, grouping, labels, busy_ns))
    _add_others(work, payload)


def _add_others(work: DeviceWork, payload: Payload) -> None:
    trace = work.trace
    idle = device_idle(trace, work)
    reasons, devices = np.nonzero(idle.parts_ns.T)
    if len(reasons):
        parts_ns = idle.parts_ns.T[reasons, devices]
        columns: Columns = {
            "device": [idle.device[device] for device in devices],
            "reason": [IdleReason(int(reason)).words for reason in reasons],
            "total_ns": parts_ns,
            "share": parts_ns / np.maximum(idle.idle_ns[devices], 1),
        }
        add_table(payload, "idle", columns)
    collectives = collective_table(trace, work)
    tables: dict[str, Table] = {
        "devices": device_busy(trace, work),
        "queues": launch_queues(trace, work),
        "copies": copy_table(trace, work),
        "collectives": collectives,
    }
    if len(collectives):
        tables["overlap"] = communication_overlap(trace, work)
    for name, table in tables.items():
        if len(table):
            add_table(payload, name, _known_columns(table))
            add_headings(payload, name, table.on_pages())


def _add_power(trace: Trace, payload: Payload) -> None:
    """Add ``power``: a row for each device whose power was recorded."""
    devices = device_power(trace)
    if not devices:
        return
    _add_measured(payload, "power", power_columns(devices))


def _add_counters(trace: Trace, payload: Payload) -> None:
    """Add ``hardware``: a row for each hardware counter that was recorded."""
    counters = counter_means(trace)
    if counters:
        _add_measured(payload, "hardware", columns_of(counters, CounterMean))


def _add_measured(payload: Payload, name: str, columns: Mapping[Measure, Any]) -> None:
    add_table(payload, name, {measure.name: values for measure, values in columns.items()})
    add_headings(payload, name, columns)


def _known_columns(table: Table) -> Columns:
    """Return a table's measures, without those in which every number is unknown."""
    columns: Columns = {}
    for measure, column in table.on_pages().items():
        if isinstance(column, np.ndarray):
            if not len(column) or (column != UNKNOWN).any():
                columns[measure.name] = known_or_nan(column, UNKNOWN)
        elif any(column):
            columns[measure.name] = column
    return columns


def _groupings(calls: Calls, work: DeviceWork) -> dict[str, Labels[str]]:
    """Return a label per kernel for each grouping, from the operator or range that launched it."""
    tree, launched = calls.tree, calls.launches
    if launched is None or not len(launched.work):
        return {}
    event = np.full(len(tree.trace.slices), NO_SLICE, np.int64)
    event[slice(len(tree)) if tree.rows is None else tree.rows] = np.arange(len(tree))
    host = np.full(len(tree), NO_SLICE, np.int64)
    host[launched.work] = launched.host
    launching = host[event[work.rows[work.is_kernel]]]
    labels = {"operator": name_labels(tree), **calls.groupings}
    return {name: _labels_of(column, launching) for name, column in labels.items()}


def _labels_of(column: Labels[str], event: Int64) -> Labels[str]:
    codes = np.where(event == NO_SLICE, len(column.texts), column.codes[event])
    return Labels(codes.astype(np.uint32), [*column.texts, ""])


def _shown(names: Sequence[str]) -> list[str]:
    return [kernel_name(name) for name in names]


def _by(work: DeviceWork, grouping: str, labels: Labels[str], busy_ns: int) -> Columns:
    """Sum kernels by name and label, the longest total first."""
    rows, duration_ns = work.rows[work.is_kernel], work.duration_ns[work.is_kernel]
    names = work.names(rows)
    pair = names.codes.astype(np.int64) * len(labels.texts) + labels.codes
    distinct, first, group = np.unique(pair, return_index=True, return_inverse=True)
    total_ns = summed(group, duration_ns, len(distinct))
    count = np.bincount(group, minlength=len(distinct))
    added = sums_of_slices(work.trace, rows, group, len(distinct))
    order = np.argsort(-total_ns, kind="stable")
    first, count, total_ns = first[order], count[order], total_ns[order]
    return {
        "name": _shown(names.take(first)),
        grouping: labels.take(first),
        "count": count,
        "total_ns": total_ns,
        "mean_ns": total_ns // np.maximum(count, 1),
        "busy_share": total_ns / max(busy_ns, 1),
        **{name: known_or_nan(column[order]) for name, column in added.items()},
    }
