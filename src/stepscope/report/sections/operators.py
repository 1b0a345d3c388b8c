"""Operators, ranges and runtime calls: by name, shapes, stack and module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.intervals import Intervals
from stepscope.analysis.base.labels import Labels
from stepscope.analysis.base.sums import distinct
from stepscope.analysis.calls.waiting import waiting_texts
from stepscope.analysis.host.averages import Averages
from stepscope.analysis.host.counted import CallCells
from stepscope.report.base.payload import Payload, add_headings, add_table
from stepscope.report.base.steady import steady_time
from stepscope.report.sections.calls import Calls, calls_of
from stepscope.report.sections.threads import host_threads, process_name
from stepscope.trace.measures import Measure
from stepscope.trace.model import Int64, SliceKind, Trace
from stepscope.units import COUNT, FLOPS_RATE, SHARE, TEXT, TIME

Columns = dict[Measure, Any]  # Labels, or NDArray of numbers

_KINDS = {
    SliceKind.OPERATOR: "operator",
    SliceKind.RANGE: "range",
    SliceKind.STEP: "step",
    SliceKind.PYTHON: "Python function",
    SliceKind.RUNTIME: "runtime call",
}
_KIND_WORDS = tuple(_KINDS.get(SliceKind(code), "other") for code in range(max(SliceKind) + 1))
_ALWAYS = ("count", "self_cpu_ns")  # kept even if they are zero everywhere
_NAME, _KIND = Measure("name", "Name", TEXT), Measure("kind", "Kind", TEXT)
_COUNT = Measure("count", "Calls", COUNT)
_SHARE = Measure("share", "Share", SHARE, "Of the self time of all calls")
_WAITING = Measure(
    "waiting_ns", "Waiting", TIME,
    "Time in which the thread waited here for another thread, a file, a process or a timer",
)  # fmt: skip
_MEAN = Measure("mean_ns", "Mean", TIME, "Time of a call, with the calls inside")
_RATE = Measure(
    "flops_per_second", "FLOP/s", FLOPS_RATE,
    "In the device's time where it worked, else in the host's",
)  # fmt: skip


STEPS, RUN = "steps", "run"
EVERYWHERE = ""

MOST_THREADS = 40
"""Only the busiest threads can be picked, since each adds rows to every table."""


def add_operators(trace: Trace, payload: Payload) -> None:
    """Add a table per grouping: ``operators.name``, and ``.shapes``, ``.stack``, ``.module``.

    It has the rows of all scopes; the column ``scope`` tells them apart.
    """
    calls, scopes = calls_of(trace), scopes_of(trace)
    payload.add_value("operators.groupings", ["name", *calls.groupings])
    times = {scope.when: scope.within for scope in scopes}
    of_scope: list[_Scoped] = []
    headings: dict[Measure, None] = {}
    groupings: dict[str, Labels[str] | None] = {"name": None, **calls.groupings}
    for grouping, by in groupings.items():
        events = calls.single if by is None else _split_by(calls.single, by)
        cells = {when: CallCells(events, calls.tree, within) for when, within in times.items()}
        of_scope = of_scope or [_Scoped(calls, scope, cells[scope.when]) for scope in scopes]
        tables = [scoped.columns(cells[scoped.scope.when], grouping, by) for scoped in of_scope]
        add_table(payload, f"operators.{grouping}", _stacked(tables))
        headings = headings or dict.fromkeys(measure for table in tables for measure in table)
    payload.add_value("operators.scopes", [scoped.to_json() for scoped in of_scope])
    add_headings(payload, "operators", headings)


class _Scoped:
    """The tables of one scope, and the totals that its shares refer to."""

    def __init__(self, calls: Calls, scope: Scope, by_name: CallCells) -> None:
        self.scope = scope
        self._kind = calls.tree.of(calls.tree.trace.slices.kind)
        self._name = calls.single.key
        rows, _ = by_name.grouped(scope.tracks)
        waits = waiting_texts(rows.key.texts)[rows.key.codes]
        self._running_ns = int(rows.self_cpu_ns[~waits].sum())
        self._on_devices = bool(calls.single.is_device.any())
        launched_ns = int(rows.self_device_ns[~rows.is_device].sum())
        # Work without a known launch counts only for all threads together.
        self._device_ns = max(launched_ns, rows.total_self_device_ns)

    def to_json(self) -> dict[str, Any]:
        totals = {"self_cpu_ns": self._running_ns, "self_device_ns": self._device_ns}
        return self.scope.to_json() | totals

    def columns(self, cells: CallCells, grouping: str, by: Labels[str] | None) -> Columns:
        """Return the table by name, or by name and a label."""
        rows, called_ns = cells.grouped(self.scope.tracks)
        on_host = np.flatnonzero(~rows.is_device)
        first = rows.first[on_host]
        columns: Columns = {
            _NAME: self._name.take(first),
            _KIND: Labels(self._kind[first].astype(np.uint32), _KIND_WORDS),
        }
        if by is not None:
            columns[Measure(grouping, grouping, TEXT)] = by.take(first)
        numbers = self._numbers(rows, called_ns)
        return columns | {measure: column[on_host] for measure, column in numbers.items()}

    def _numbers(self, rows: Averages, called_ns: Int64) -> dict[Measure, NDArray[Any]]:
        """Return the columns of numbers; work on devices has a page of its own."""
        waits = waiting_texts(rows.key.texts)[rows.key.codes]
        running_ns = np.where(waits, 0, rows.self_cpu_ns)
        measures, sums = rows.measures(), rows.sums()
        if not self._on_devices:
            del sums["self_device_ns"], sums["device_ns"]
        return {
            _COUNT: rows.count,
            measures["self_cpu_ns"]: running_ns,
            _SHARE: running_ns / max(self._running_ns, 1),
            _WAITING: sums.pop("self_cpu_ns") - running_ns,
            measures["cpu_ns"]: sums.pop("cpu_ns"),
            _MEAN: called_ns / np.maximum(rows.count, 1),
            **{measures[name]: column for name, column in sums.items()},
            _RATE: rows.flops_per_second,
        }


def _stacked(parts: Sequence[Columns]) -> dict[str, Any]:
    """Concatenate tables, without the columns that are zero everywhere.

    The texts of a column are the same in all of them.
    """
    lengths = [len(part[_NAME]) for part in parts]
    table: dict[str, Any] = {}
    for measure in dict.fromkeys(measure for part in parts for measure in part):
        some = next(part[measure] for part in parts if measure in part)
        if isinstance(some, Labels):
            codes = np.concatenate([part[measure].codes for part in parts])
            table[measure.name] = Labels(codes, some.texts)
            continue
        column = np.concatenate(
            [part.get(measure, np.zeros(n)) for part, n in zip(parts, lengths, strict=True)]
        )
        if measure.name in _ALWAYS or column.any():
            table[measure.name] = column
    if len(parts) > 1:
        table["scope"] = np.repeat(np.arange(len(parts)), lengths)
    return table


def _split_by(events: Averages, by: Labels[str]) -> Averages:
    """Give each pair of a name and a label a key of its own."""
    pair = events.key.codes.astype(np.int64) * len(by.texts) + by.codes
    pairs, codes = distinct(pair)
    names = [events.key.texts[code // len(by.texts)] for code in pairs.tolist()]
    return replace(events, key=Labels(codes.astype(np.uint32), names))


@dataclass(frozen=True, slots=True)
class Scope:
    when: str  # STEPS or RUN
    where: str  # EVERYWHERE, ``process 10``, or the number of a track
    within: Intervals | None  # None: all the time
    tracks: tuple[int, ...] | None  # None: all threads

    def to_json(self) -> dict[str, Any]:
        """Return what the page looks up a scope by."""
        return {"when": self.when, "where": self.where}


def scopes_of(trace: Trace) -> list[Scope]:
    """Return the scopes of a trace; the first one is shown first."""
    steps = steady_time(trace)
    times = [(STEPS, steps), (RUN, None)] if steps is not None else [(RUN, None)]
    places: list[tuple[str, tuple[int, ...] | None]] = [(EVERYWHERE, None)]
    threads = host_threads(trace)
    processes: dict[str, list[int]] = {}
    for track in threads:
        processes.setdefault(process_name(trace.tracks[track]), []).append(track)
    if len(processes) > 1:
        places += [(name, tuple(tracks)) for name, tracks in processes.items()]
    if len(threads) > 1:
        busiest = set(_busiest(trace, threads))
        places += [(str(track), (track,)) for track in threads if track in busiest]
    return [
        Scope(when, where, within, tracks) for when, within in times for where, tracks in places
    ]


def _busiest(trace: Trace, threads: list[int]) -> list[int]:
    count = np.bincount(trace.slices.track, minlength=len(trace.tracks))
    return sorted(threads, key=lambda track: -int(count[track]))[:MOST_THREADS]
