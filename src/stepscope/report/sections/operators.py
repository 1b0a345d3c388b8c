"""Operators, ranges and runtime calls: by name, shapes, stack and module."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.distinct import distinct
from stepscope.analysis.host.averages import grouped
from stepscope.analysis.labels import Labels
from stepscope.report.sections.calls import calls_of
from stepscope.report.tables import add_table
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.host.averages import Averages
    from stepscope.report.payload import Payload
    from stepscope.report.sections.calls import Calls
    from stepscope.trace.model import Trace

_KINDS = {
    SliceKind.OPERATOR: "operator",
    SliceKind.RANGE: "range",
    SliceKind.STEP: "step",
    SliceKind.PYTHON: "Python function",
    SliceKind.RUNTIME: "runtime call",
}
_OTHER = "other"
_BYTES = ("self_cpu_bytes", "cpu_bytes", "self_device_bytes", "device_bytes")


def add_operators(trace: Trace, payload: Payload) -> None:
    """Add a table per grouping: ``operators.name``, and ``.shapes``, ``.stack``, ``.module``."""
    calls = calls_of(trace)
    each = calls.each
    payload.add_value("operators.groupings", ["name", *calls.groupings])
    payload.add_value("operators.self_cpu_ns", each.total_self_cpu_ns)
    payload.add_value("operators.self_device_ns", each.total_self_device_ns)
    add_table(payload, "operators.name", _columns(calls, grouped(each)))
    for grouping, labels in calls.groupings.items():
        rows = grouped(_told_apart(each, labels))
        told = labels.take(rows.first)
        add_table(payload, f"operators.{grouping}", _columns(calls, rows, grouping, told))


def _told_apart(each: Averages, by: Labels[str]) -> Averages:
    """Give events a key of their own for each pair of a name and a label."""
    pair = each.key.codes.astype(np.int64) * len(by.texts) + by.codes
    pairs, codes = distinct(pair)
    names = [each.key.texts[code // len(by.texts)] for code in pairs.tolist()]
    return replace(each, key=Labels(codes.astype(np.uint32), names))


def _columns(
    calls: Calls, rows: Averages, grouping: str = "", told: Labels[str] | None = None
) -> dict[str, Sequence[str] | NDArray[Any]]:
    """Return the columns that hold something; what ran on devices has a page of its own."""
    on_host = np.flatnonzero(~rows.is_device)
    kind = calls.tree.of(calls.tree.trace.slices.kind)[rows.first[on_host]]
    columns: dict[str, Sequence[str] | NDArray[Any]] = {
        "name": [rows.key[int(row)] for row in on_host],
        "kind": [_KINDS.get(SliceKind(int(code)), _OTHER) for code in kind],
    }
    if told is not None:
        columns[grouping] = told.take(on_host)
    numbers: dict[str, NDArray[Any] | None] = {
        "count": rows.count,
        "self_cpu_ns": rows.self_cpu_ns,
        "cpu_ns": rows.cpu_ns,
        "mean_ns": rows.cpu_ns / np.maximum(rows.count, 1),
        "share": rows.self_cpu_ns / max(rows.total_self_cpu_ns, 1),
        "self_device_ns": rows.self_device_ns if rows.is_device.any() else None,
        "device_ns": rows.device_ns if rows.is_device.any() else None,
        **{name: getattr(rows, name) for name in _BYTES},
        "flops": rows.flops,
        "flops_per_second": rows.flops_per_second,
    }
    for name, column in numbers.items():
        if column is not None and (name in {"count", "self_cpu_ns"} or column.any()):
            columns[name] = column[on_host]
    return columns
