"""Operators, ranges and runtime calls: by name, shapes, stack and module."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.distinct import distinct
from stepscope.analysis.host.averages import grouped
from stepscope.analysis.host.counted import counted_once, self_within, taken
from stepscope.analysis.host.waiting import waiting_texts
from stepscope.analysis.labels import Labels
from stepscope.report.scopes import scopes_of
from stepscope.report.sections.calls import calls_of
from stepscope.report.tables import add_table
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.host.averages import Averages
    from stepscope.report.payload import Payload
    from stepscope.report.scopes import Scope
    from stepscope.report.sections.calls import Calls
    from stepscope.trace.model import Int64, Trace

    Columns = dict[str, Sequence[str] | NDArray[Any]]

_KINDS = {
    SliceKind.OPERATOR: "operator",
    SliceKind.RANGE: "range",
    SliceKind.STEP: "step",
    SliceKind.PYTHON: "Python function",
    SliceKind.RUNTIME: "runtime call",
}
_OTHER = "other"
_ALWAYS = ("count", "self_cpu_ns")  # in every table, whatever they hold
_BYTES = ("self_cpu_bytes", "cpu_bytes", "self_device_bytes", "device_bytes")


def add_operators(trace: Trace, payload: Payload) -> None:
    """Add a table per grouping: ``operators.name``, and ``.shapes``, ``.stack``, ``.module``.

    It holds the rows of all scopes, one after the other; ``scope`` says of which each row is.
    """
    calls = calls_of(trace)
    scopes = [_Scoped(calls, scope) for scope in scopes_of(trace)]
    payload.add_value("operators.groupings", ["name", *calls.groupings])
    payload.add_value("operators.scopes", [scoped.to_json() for scoped in scopes])
    groupings: dict[str, Labels[str] | None] = {"name": None, **calls.groupings}
    for grouping, by in groupings.items():
        each = calls.each if by is None else _told_apart(calls.each, by)
        counted = {
            scoped.scope.when: counted_once(each, calls.tree, scoped.scope.within)
            for scoped in {scoped.scope.when: scoped for scoped in scopes}.values()
        }
        tables = [
            scoped.columns(each, counted[scoped.scope.when], grouping, by) for scoped in scopes
        ]
        add_table(payload, f"operators.{grouping}", _stacked(tables))


class _Scoped:
    """The events of a scope, as its tables add them up."""

    def __init__(self, calls: Calls, scope: Scope) -> None:
        self.scope = scope
        self._kind = calls.tree.of(calls.tree.trace.slices.kind)
        self._rows = np.flatnonzero(scope.events(calls.tree))
        each = calls.each
        own_ns = each.self_cpu_ns
        if scope.within is not None:
            own_ns = np.where(each.is_device, 0, self_within(calls.tree, scope.within))
        waits = waiting_texts(each.key.texts)[each.key.codes]
        self._running_ns = int(own_ns[self._rows][~waits[self._rows]].sum())
        self._on_devices = bool(each.is_device.any())
        launched_ns = int(each.self_device_ns[self._rows][~each.is_device[self._rows]].sum())
        # Work whose launch is not known counts for all threads together only.
        self._device_ns = max(launched_ns, taken(each, self._rows).total_self_device_ns)

    def to_json(self) -> dict[str, Any]:
        """Return what the scope is, and what its shares are of."""
        totals = {"self_cpu_ns": self._running_ns, "self_device_ns": self._device_ns}
        return self.scope.to_json() | totals

    def columns(
        self, each: Averages, counted: Averages, grouping: str, by: Labels[str] | None
    ) -> Columns:
        """Return the table by name, or by name and one more label.

        ``each`` has the calls as they are, ``counted`` as they add up.
        """
        key = _dense(each.key.take(self._rows))
        rows = grouped(replace(taken(counted, self._rows), key=key))
        called_ns = grouped(replace(taken(each, self._rows), key=key)).cpu_ns
        first = self._rows[rows.first]
        on_host = np.flatnonzero(~rows.is_device)
        columns: Columns = {
            "name": [rows.key[int(row)] for row in on_host],
            "kind": [
                _KINDS.get(SliceKind(int(code)), _OTHER) for code in self._kind[first[on_host]]
            ],
        }
        if by is not None:
            columns[grouping] = list(by.take(first[on_host]))
        numbers = self._numbers(rows, called_ns)
        return columns | {name: column[on_host] for name, column in numbers.items()}

    def _numbers(self, rows: Averages, called_ns: Int64) -> dict[str, NDArray[Any]]:
        """Return the columns of numbers; what ran on devices has a page of its own."""
        waits = waiting_texts(rows.key.texts)[rows.key.codes]
        running_ns = np.where(waits, 0, rows.self_cpu_ns)
        numbers: dict[str, NDArray[Any] | None] = {
            "count": rows.count,
            "self_cpu_ns": running_ns,
            "waiting_ns": rows.self_cpu_ns - running_ns,
            "share": running_ns / max(self._running_ns, 1),
            "cpu_ns": rows.cpu_ns,
            "mean_ns": called_ns / np.maximum(rows.count, 1),
            "self_device_ns": rows.self_device_ns if self._on_devices else None,
            "device_ns": rows.device_ns if self._on_devices else None,
            **{name: getattr(rows, name) for name in _BYTES},
            "flops": rows.flops,
            "flops_per_second": rows.flops_per_second,
        }
        return {name: column for name, column in numbers.items() if column is not None}


def _dense(key: Labels[str]) -> Labels[str]:
    """Return the same labels with no texts but theirs: a scope may have few of many."""
    codes, which = distinct(key.codes)
    return Labels(which.astype(np.uint32), [key.texts[code] for code in codes.tolist()])


def _stacked(parts: Sequence[Columns]) -> Columns:
    """Put tables one below the other, without the columns that nothing is in."""
    lengths = [len(part["name"]) for part in parts]
    names = list(dict.fromkeys(name for part in parts for name in part))
    table: Columns = {}
    for name in names:
        some = next(part[name] for part in parts if name in part)
        if isinstance(some, np.ndarray):
            column = np.concatenate(
                [part.get(name, np.zeros(n)) for part, n in zip(parts, lengths, strict=True)]
            )
            if name in _ALWAYS or column.any():
                table[name] = column
        else:
            table[name] = [text for part in parts for text in part[name]]
    if len(parts) > 1:
        table["scope"] = np.repeat(np.arange(len(parts)), lengths)
    return table


def _told_apart(each: Averages, by: Labels[str]) -> Averages:
    """Give events a key of their own for each pair of a name and a label."""
    pair = each.key.codes.astype(np.int64) * len(by.texts) + by.codes
    pairs, codes = distinct(pair)
    names = [each.key.texts[code // len(by.texts)] for code in pairs.tolist()]
    return replace(each, key=Labels(codes.astype(np.uint32), names))
