"""What a program did, counted: the same each time that it runs, however busy the machine is.

A count is known for the whole recording (``total``) and for its steps (``by_step``). Steps make
runs of different lengths comparable, exactly. What a trace does not tell has no total, and
``why_not`` says what to record.

ops
    The operators that the program calls, and the functions of its backward pass; ``all_ops`` has
    those, too, that run inside of others.
synchronisations
    With device work, the calls in which the host waits for a device. Without, the operators that
    would wait for one: reading a tensor's value in Python (``.item()``, ``if tensor``), and those
    whose output's size depends on values (``nonzero``). An optimizer's own counters are on the
    CPU, wherever its parameters are: reading them waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from stepscope import units
from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.shared import shared, shared_analyses
from stepscope.analysis.base.sums import nearest
from stepscope.analysis.base.tree import is_named, outermost, rows_named
from stepscope.analysis.calls.operator_inputs import operator_inputs
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.code.own_lines import place_of
from stepscope.analysis.code.sampled_stacks import own_path
from stepscope.analysis.device.busy import device_busy
from stepscope.analysis.findings.spots import place_words
from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.memory.peak import peaks_of_memory
from stepscope.analysis.memory.usage import with_memory
from stepscope.analysis.steps.compilation import graph_breaks, recompilations
from stepscope.analysis.steps.parts import host_parts
from stepscope.analysis.steps.phases import compilations, without_compilation
from stepscope.analysis.steps.steps import step_table
from stepscope.analysis.work.idle import waiting_calls
from stepscope.analysis.work.work import WorkKind, device_work
from stepscope.trace.keys import BYTES
from stepscope.trace.measures import MEASURES, Measure, Sums, measured
from stepscope.trace.model import NO_SLICE, NO_STACK, Int64, SliceKind, Trace, UInt32
from stepscope.units import Unit

MOST_ROWS = 200  # the largest rows of a quantity are enough to find the one that grew
MOST_PLACES = 12  # lines that are kept of a row


@dataclass(frozen=True, slots=True)
class Share:
    """An operator, kernel or line, and its part of a quantity."""

    name: str
    total: float
    places: tuple[tuple[str, float], ...] = ()  # its lines if known, the largest first

    @property
    def place(self) -> str:
        """Return the line that has the largest part of the quantity; empty if no line is known."""
        return self.places[0][0] if self.places else ""

    @property
    def words(self) -> str:
        return f"{self.name} at {self.place}" if self.place else self.name

    def new_place(self, before: Share | None) -> str:
        """Return the line whose amount grew; lines may have moved since."""
        places = list(self.places)
        for former in before.places if before is not None else ():
            same = [place for place in places if place == former] or [
                place for place in places if place[1] == former[1]
            ]
            if same:
                places.remove(same[0])
        return places[0][0] if places else self.place


@dataclass(frozen=True, slots=True)
class Quantity:
    name: str
    words: str
    unit: Unit
    total: float | None  # None if unknown
    by_step: tuple[float, ...] = ()  # empty if it is not counted by step, or without steps
    rows: tuple[Share, ...] = ()  # the largest first
    why_not: str = ""

    @property
    def later_steps(self) -> tuple[float, ...]:
        """Return all steps but the first, which may include one-time work."""
        return self.by_step[1:] if len(self.by_step) > 2 else self.by_step

    @property
    def a_step(self) -> float | None:
        """Return the usual amount in a step; None if it is not counted by step."""
        return float(np.median(self.later_steps)) if self.by_step else None

    def text(self, value: float) -> str:
        return self.unit.text(value)

    def to_json(self) -> dict[str, Any]:
        rows = [{"name": row.name, "total": row.total} for row in self.rows]
        amounts = {"total": self.total, "a_step": self.a_step, "unit": self.unit.one}
        return {"name": self.name, **amounts, "rows": rows}


@shared
def quantities(trace: Trace) -> Mapping[str, Quantity]:
    with shared_analyses():
        counted = {name: make(trace, name) for name, make in _MAKERS.items()}
        return counted | {added.name: _added(trace, added) for added in MEASURES}


def quantity_names() -> tuple[str, ...]:
    return (*_MAKERS, *(added.name for added in MEASURES))


def measured_quantities(trace: Trace) -> tuple[Quantity, ...]:
    """Return the measures from outside the package that a trace has values of."""
    return tuple(_added(trace, added) for added, _ in measured(trace.slices))


def _added(trace: Trace, added: Measure) -> Quantity:
    """Sum a measure from outside the package; a weighted one is a mean."""
    values = getattr(trace.slices, added.name)
    rows = np.flatnonzero(values != added.absent)
    if not len(rows):
        return Quantity(added.name, added.title.lower(), added.unit, None, why_not="not recorded")
    amounts = values[rows]
    if added.sums is Sums.WEIGHTED:
        weight = np.maximum(trace.slices.duration_ns[rows], 1)
        mean = float(np.average(amounts, weights=weight))
        return Quantity(added.name, added.title.lower(), added.unit, mean)
    whole = _quantity_of_rows(trace, added.name, rows, amounts)
    return replace(whole, words=added.title.lower())


def unit_of(name: str) -> Unit:
    """Return the unit of a quantity; of step times, too."""
    stated = {added.name: added.unit for added in MEASURES}
    return stated.get(name) or _UNITS.get(name, units.COUNT)


def words_of(name: str) -> str:
    return _WORDS.get(name, name.replace("_", " "))


def _quantity_of_rows(
    trace: Trace,
    name: str,
    rows: Int64,
    amount: Int64 | None = None,
) -> Quantity:
    """Count slices, or sum their amounts."""
    amounts = np.ones(len(rows), np.int64) if amount is None else amount
    return Quantity(
        name,
        words_of(name),
        unit_of(name),
        int(amounts.sum()),
        _by_step(trace, _asked_ns(trace)[rows], amounts),
        tuple(_shares(trace, rows, amounts)),
    )


@shared
def _asked_ns(trace: Trace) -> Int64:
    """Return the start of each slice, or of device work's launch, which decides its step."""
    work, slices = device_work(trace), trace.slices
    launched = work.call != NO_SLICE
    if not launched.any():
        return slices.start_ns
    asked_ns = slices.start_ns.copy()
    asked_ns[work.rows[launched]] = slices.start_ns[work.call[launched]]
    return asked_ns


def _by_step(trace: Trace, time_ns: Int64, amount: Int64) -> tuple[float, ...]:
    steps = step_table(trace)
    if not len(steps):
        return ()
    order = np.argsort(steps.start_ns, kind="stable")
    at = np.searchsorted(steps.start_ns[order], time_ns, side="right") - 1
    inside = (at >= 0) & (time_ns < steps.end_ns[order][np.maximum(at, 0)])
    sums = np.bincount(at[inside], amount[inside].astype(np.float64), len(steps))
    return tuple(sums.tolist())


def _shares(trace: Trace, rows: Int64, amount: Int64) -> Iterator[Share]:
    """Yield the shares of a quantity by name, each with the lines that have most of it."""
    slices = trace.slices
    names, which = np.unique(slices.name[rows], return_inverse=True)
    which = which.reshape(-1)
    sums = np.bincount(which, amount.astype(np.float64), len(names))
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(names)))
    for at in np.argsort(-sums, kind="stable")[:MOST_ROWS].tolist():
        mine = order[ends[at - 1] if at else 0 : ends[at]]
        places = _places(trace, rows[mine], amount[mine])
        yield Share(trace.strings[int(names[at])], float(sums[at]), places)


def _places(trace: Trace, rows: Int64, amount: Int64) -> tuple[tuple[str, float], ...]:
    """Return the program's lines with their amounts; empty without stacks."""
    stacks, which = np.unique(_stacks(trace)[rows], return_inverse=True)
    sums = np.bincount(which.reshape(-1), amount.astype(np.float64), len(stacks))
    line_of_stack, sums_of_lines = _own_lines(trace), dict[str, float]()
    for row, mine in zip(stacks.tolist(), sums.tolist(), strict=True):
        if row == NO_STACK:
            continue
        if row not in line_of_stack:
            path = own_path(trace, row)
            line_of_stack[row] = place_words(path[-1]) if path else ""
        if line_of_stack[row]:
            sums_of_lines[line_of_stack[row]] = sums_of_lines.get(line_of_stack[row], 0.0) + mine
    return tuple(sorted(sums_of_lines.items(), key=lambda item: -item[1])[:MOST_PLACES])


@shared
def _own_lines(_trace: Trace) -> dict[int, str]:
    """Return a dictionary of the own lines of stacks, which all quantities of a trace fill."""
    return {}


@shared
def _stacks(trace: Trace) -> UInt32:
    """Return the stack of each slice, or of the nearest slice around it that has one."""
    stack = trace.slices.stack
    return np.append(stack, np.uint32(NO_STACK))[nearest(trace.slices.parent, stack != NO_STACK)]


def _unknown(name: str, why: str) -> Quantity:
    return Quantity(name, words_of(name), unit_of(name), None, why_not=why)


def _ops(trace: Trace, name: str) -> Quantity:
    rows = np.flatnonzero(trace.slices.kind == SliceKind.OPERATOR)
    return _quantity_of_rows(trace, name, outermost(trace, rows))


def _of_kind(kind: SliceKind, trace: Trace, name: str) -> Quantity:
    return _quantity_of_rows(trace, name, np.flatnonzero(trace.slices.kind == kind))


def _copied_bytes(trace: Trace, name: str) -> Quantity:
    work = device_work(trace)
    rows = work.rows[work.kind == WorkKind.COPY]
    size = trace.slices.args.dense(BYTES, len(trace), -1)[rows]
    if (size < 0).any():
        return _unknown(name, "the trace does not say how large copies are")
    return _quantity_of_rows(trace, name, rows, size)


def _synchronisations(trace: Trace, name: str) -> Quantity:
    work = device_work(trace)
    if len(work):
        return _quantity_of_rows(trace, name, waiting_calls(trace, work))
    slices = trace.slices
    would = is_named(trace, landmarks().waits.__contains__) & (slices.kind == SliceKind.OPERATOR)
    rows = np.flatnonzero(would & (host_parts(trace) != Part.OPTIMIZER))
    return _quantity_of_rows(trace, name, outermost(trace, rows))


def _whole(find: Callable[[Trace], Int64], trace: Trace, name: str) -> Quantity:
    """Count what happens in the course of a run rather than in each step."""
    rows = find(trace)
    shares = tuple(_shares(trace, rows, np.ones(len(rows), np.int64)))
    return Quantity(name, words_of(name), units.COUNT, len(rows), (), shares)


def _flops(trace: Trace, name: str) -> Quantity:
    inputs = operator_inputs(trace)
    flops = flops_of(trace)
    if not len(inputs) or inputs.is_sample:
        return _unknown(name, "shapes were not recorded: --shapes, record_shapes=True")
    rows = np.flatnonzero(flops)
    return _quantity_of_rows(trace, name, rows, flops[rows])


_NO_MEMORY = "memory was not recorded: --memory, profile_memory=True"


def _peak_memory(trace: Trace, name: str) -> Quantity:
    peaks = sorted(peaks_of_memory(trace), key=lambda peak: (peak.device == "cpu", -peak.bytes))
    if not peaks:
        return _unknown(name, _NO_MEMORY)
    holders: list[Share] = []
    for holder in peaks[0].holders:
        what = " in ".join(filter(None, (holder.operator or holder.category, holder.module)))
        place = place_of(holder.line)
        holders.append(
            Share(
                f"{holder.category}: {what}",
                holder.bytes,
                ((place_words(place), float(holder.bytes)),) if place else (),
            )
        )
    words = f"{words_of(name)} of {peaks[0].device}"
    return Quantity(name, words, units.BYTES, peaks[0].bytes, (), tuple(holders))


def _allocated_bytes(trace: Trace, name: str) -> Quantity:
    trace = with_memory(trace)
    memory = trace.memory
    if not len(memory):
        return _unknown(name, _NO_MEMORY)
    taken = np.flatnonzero(memory.size > 0)
    size = memory.size[taken]
    inside = memory.slice[taken] != NO_SLICE
    rows = memory.slice[taken][inside].astype(np.int64)
    by_step = _by_step(trace, memory.time_ns[taken], size)
    shares = tuple(_shares(trace, rows, size[inside]))
    return Quantity(name, words_of(name), units.BYTES, int(size.sum()), by_step, shares)


def _device_busy(trace: Trace, name: str) -> Quantity:
    busy = device_busy(trace)
    window_ns = int(busy.window_ns.sum())
    if not window_ns:
        return _unknown(name, "no device did any work")
    shares = tuple(
        Share(device, float(mine) / max(float(whole), 1))
        for device, mine, whole in zip(busy.device, busy.busy_ns, busy.window_ns, strict=True)
    )
    total = float(busy.busy_ns.sum()) / window_ns
    return Quantity(name, words_of(name), units.SHARE, total, (), shares)


def step_times(trace: Trace) -> Int64:
    """Return the duration of each step in order, without compilation."""
    steps = step_table(trace)
    return without_compilation(trace, steps.start_ns, steps.duration_ns)


def operator_times(trace: Trace, name: str) -> tuple[float, ...]:
    """Return the time of an operator, kernel or range in each step."""
    rows = outermost(trace, rows_named(trace, name.__eq__))
    return _by_step(trace, _asked_ns(trace)[rows], trace.slices.duration_ns[rows])


def operator_calls(trace: Trace, name: str) -> Quantity:
    """Count the calls of one operator, kernel or range."""
    counted = _quantity_of_rows(trace, name, rows_named(trace, name.__eq__))
    return replace(counted, words=f"calls of {name}")


# Names whose words are more than the name itself.
_WORDS = {
    "ops": "operators called",
    "all_ops": "operators in all",
    "copies": "copies to or from devices",
    "copied_bytes": "bytes copied to or from devices",
    "flops": "floating-point operations",
    "allocated_bytes": "bytes allocated",
    "device_busy": "device busy time",
}
_UNITS = {  # of those that are no counts
    "step_time": units.TIME,
    "copied_bytes": units.BYTES,
    "flops": units.FLOPS,
    "peak_memory": units.BYTES,
    "allocated_bytes": units.BYTES,
    "device_busy": units.SHARE,
}
_MAKERS: dict[str, Callable[[Trace, str], Quantity]] = {
    "ops": _ops,
    "all_ops": partial(_of_kind, SliceKind.OPERATOR),
    "kernels": partial(_of_kind, SliceKind.KERNEL),
    "copies": partial(_of_kind, SliceKind.MEMCPY),
    "copied_bytes": _copied_bytes,
    "synchronisations": _synchronisations,
    "compilations": partial(_whole, compilations),
    "recompilations": partial(_whole, recompilations),
    "graph_breaks": partial(_whole, graph_breaks),
    "flops": _flops,
    "peak_memory": _peak_memory,
    "allocated_bytes": _allocated_bytes,
    "device_busy": _device_busy,
}
