"""Device work: kernels by name and by who launched them, copies, communication, queues, idling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.labels import Labels, name_labels
from stepscope.analysis.base.sums import summed
from stepscope.analysis.base.table import Table
from stepscope.analysis.device.busy import device_busy
from stepscope.analysis.device.communication import collective_table, communication_overlap
from stepscope.analysis.device.copies import copy_table
from stepscope.analysis.device.counters import counter_means
from stepscope.analysis.device.kernels import UNKNOWN, kernel_table
from stepscope.analysis.device.power import device_power
from stepscope.analysis.device.queue import launch_queues
from stepscope.analysis.work.idle import IdleReason, device_idle
from stepscope.analysis.work.kernel_names import kernel_name
from stepscope.analysis.work.work import DeviceWork, device_work
from stepscope.report.base.payload import Payload, add_table, known_or_nan
from stepscope.report.sections.calls import Calls, calls_of
from stepscope.trace.model import NO_SLICE, Float64, Int64, Trace

Columns = dict[str, Sequence[str] | NDArray[Any]]

_POWER_NUMBERS = (
    *("mean_watts", "most_watts", "limit_watts", "joules_per_step", "joules"),
    *("mean_sm_mhz", "least_sm_mhz", "most_sm_mhz", "mean_memory_mhz", "most_celsius"),
    *("held_by_power", "held_by_heat", "held_by_hardware"),
)


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
    payload.add_value("kernels.total_ns", int(kernels.total_ns.sum()))
    busy_ns = int(device_busy(trace, work).busy_ns.sum())
    groupings = _groupings(calls_of(trace), work)
    payload.add_value("kernels.groupings", ["name", *groupings])
    for grouping, labels in groupings.items():
        add_table(payload, f"kernels.{grouping}", _by(work, grouping, labels, busy_ns))
    _add_others(work, payload)


def _add_others(work: DeviceWork, payload: Payload) -> None:
    trace = work.trace
    copies = copy_table(trace, work)
    collectives = collective_table(trace, work)
    overlap = communication_overlap(trace, work)
    idle = device_idle(trace, work)
    reasons, devices = np.nonzero(idle.parts_ns.T)
    tables: dict[str, Columns] = {
        "devices": _known_columns(device_busy(trace, work)),
        "idle": {
            "device": [idle.device[device] for device in devices],
            "reason": [IdleReason(int(reason)).words for reason in reasons],
            "total_ns": idle.parts_ns.T[reasons, devices],
            "share": idle.parts_ns.T[reasons, devices] / np.maximum(idle.idle_ns[devices], 1),
        },
        "queues": _known_columns(launch_queues(trace, work)),
        "copies": _known_columns(copies)
        | {"exposed_ns": copies.exposed_ns, "rate": _rate(copies.bytes_per_second)},
    }
    if len(collectives):
        tables["collectives"] = _known_columns(collectives) | {
            "rate": _rate(collectives.bytes_per_second)
        }
        tables["overlap"] = _known_columns(overlap) | {"exposed_ns": overlap.exposed_ns}
    for name, columns in tables.items():
        if len(next(iter(columns.values()))):
            add_table(payload, name, columns)


def _add_power(trace: Trace, payload: Payload) -> None:
    """Add ``power``: a row for each device whose power was recorded."""
    devices = device_power(trace)
    if not devices:
        return
    columns: Columns = {"device": [device.device for device in devices]}
    for name in _POWER_NUMBERS:
        values = [getattr(device, name) for device in devices]
        if any(value is not None for value in values):
            columns[name] = np.array([np.nan if v is None else float(v) for v in values])
    add_table(payload, "power", columns)


def _add_counters(trace: Trace, payload: Payload) -> None:
    """Add ``hardware``: a row for each hardware counter that was recorded."""
    counters = counter_means(trace)
    if counters:
        columns: Columns = {
            "device": [counter.device for counter in counters],
            "name": [counter.name for counter in counters],
            "mean": np.array([counter.mean for counter in counters]),
            "most": np.array([counter.most for counter in counters]),
        }
        add_table(payload, "hardware", columns)


def _known_columns(table: Table) -> Columns:
    """Return a table's columns, without those in which every number is unknown."""
    columns: Columns = {}
    for name, column in table.to_columns().items():
        if isinstance(column, np.ndarray):
            if not len(column) or (column != UNKNOWN).any():
                columns[name] = known_or_nan(column, UNKNOWN)
        elif any(column):
            columns[name] = column
    return columns


def _rate(bytes_per_second: Float64) -> Float64:
    return np.where(bytes_per_second > 0, bytes_per_second, np.nan)


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
    order = np.argsort(-total_ns, kind="stable")
    first, count, total_ns = first[order], count[order], total_ns[order]
    return {
        "name": _shown(names.take(first)),
        grouping: labels.take(first),
        "count": count,
        "total_ns": total_ns,
        "mean_ns": total_ns // np.maximum(count, 1),
        "busy_share": total_ns / max(busy_ns, 1),
    }
