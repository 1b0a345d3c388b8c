"""The work of one rank in its steps, without waits for other ranks: what can make it late.

Own time is a step less its exposed communication. Samples split it by cause and by line; without
samples, slices split it by the parts of a step. Operators and kernels are counted per step, so that
any two ranks and any two steps can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.sums import distinct, nearest, with_children
from stepscope.analysis.base.tree import ids_where
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.findings.memory import DRIVER_ALLOCATION
from stepscope.analysis.findings.spots import place_words
from stepscope.analysis.steps.breakdown import step_breakdown
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.ledger import Ledger, ledger
from stepscope.analysis.steps.parts import host_parts
from stepscope.analysis.steps.steps import Steps, StepsBy, steady_steps, step_table
from stepscope.analysis.steps.unit import WHOLE_RUN
from stepscope.analysis.work.work import WorkKind, device_work
from stepscope.trace.model import Bool, Int64, SliceFlags, SliceKind, ThreadState, Trace
from stepscope.trace.names import COLLECTION

Float32 = NDArray[np.float32]

MOST_ROWS = 48
"""The number of operators, kernels and lines kept per rank: the longest."""

MOST_CELLS = 60_000
"""The limit per table: a rank with very many steps keeps fewer rows."""

"""The unit of a rank without steps: all of its recording is one."""

_COUNTED = (SliceKind.OPERATOR, SliceKind.RANGE)


@dataclass(frozen=True, slots=True)
class StepRows:
    """Figures by name (row) and step (column)."""

    names: tuple[str, ...]
    ns: Float32
    calls: Float32


@dataclass(frozen=True, slots=True)
class StepWork:
    """A rank's steps and its work in them, a value or column per step."""

    unit: str  # "step", "request" or "run"
    how: str  # how steps were recognised
    by_marks: bool  # their numbers are the program's own
    number: Int64
    start_ns: Int64
    end_ns: Int64
    is_steady: Bool
    exposed_ns: Int64  # communication without overlapping compute
    causes: StepRows  # by cause of the own time; calls are 0
    lines: StepRows  # of the program; names are ``cause|place``
    operators: StepRows
    kernels: StepRows
    ready_ns: Float32  # the step's thread was ready, but other threads had all cores

    def __len__(self) -> int:
        return len(self.number)

    @property
    def own_ns(self) -> Int64:
        return self.end_ns - self.start_ns - self.exposed_ns


def step_work(trace: Trace, exposed: Intervals) -> StepWork:
    """Return a rank's own work; ``exposed`` is communication without overlapping compute."""
    steps = step_table(trace)
    if not len(steps):
        return _of_run(trace, exposed)
    start_ns, end_ns = steps.start_ns, steps.end_ns
    exposed_ns = exposed.covered(start_ns, end_ns)
    spent = ledger(trace) if len(trace.samples) else None
    causes, lines = _of_samples(trace, spent, exposed, len(steps)) if spent else (None, None)
    in_step = _Finder(start_ns, end_ns)
    return StepWork(
        unit=steps.unit,
        how=steps.by.value,
        # A program may restart its step numbers: then the order identifies steps.
        by_marks=steps.by is StepsBy.MARKS and len(np.unique(steps.number)) == len(steps),
        number=steps.number.astype(np.int64),
        start_ns=start_ns,
        end_ns=end_ns,
        is_steady=steady_steps(trace),
        exposed_ns=exposed_ns,
        causes=causes or _of_parts(trace, end_ns - start_ns - exposed_ns),
        lines=lines or _nothing(len(steps)),
        operators=_operators(trace, in_step),
        kernels=_kernels(trace, in_step),
        ready_ns=_ready_ns(trace, steps, in_step),
    )


def _of_run(trace: Trace, exposed: Intervals) -> StepWork:
    """Return the whole recording as one step."""
    info, slices = trace.info, trace.slices
    begin, end = info.start_ns, info.end_ns
    if len(slices):
        begin, end = min(begin, int(slices.start_ns[0])), max(end, int(slices.end_ns.max()))
    start_ns, end_ns = np.array([begin]), np.array([end])
    in_step = _Finder(start_ns, end_ns)
    own_ns = end_ns - start_ns - exposed.covered(start_ns, end_ns)
    spent = ledger(trace) if len(trace.samples) else None
    causes, lines = _of_samples(trace, spent, exposed, 1) if spent else (None, None)
    unknown = StepRows(("own work",), own_ns[None].astype(np.float32), np.zeros((1, 1), np.float32))
    return StepWork(
        *(WHOLE_RUN, "the whole recording", False, np.zeros(1, np.int64), start_ns, end_ns),
        np.ones(1, np.bool_),
        exposed.covered(start_ns, end_ns),
        causes or unknown,
        lines or _nothing(1),
        _operators(trace, in_step),
        _kernels(trace, in_step),
        np.zeros(1, np.float32),
    )


class _Finder:
    """Finds the step that contains a moment; -1 for none."""

    def __init__(self, start_ns: Int64, end_ns: Int64) -> None:
        self._order = np.argsort(start_ns, kind="stable")
        self._start, self._end = start_ns[self._order], end_ns[self._order]

    def __len__(self) -> int:
        return len(self._start)

    def __call__(self, time_ns: Int64) -> Int64:
        at = np.searchsorted(self._start, time_ns, side="right") - 1
        inside = (at >= 0) & (time_ns < self._end[at])
        return np.where(inside, self._order[at], -1)


def step_of(work: StepWork, time_ns: Int64) -> Int64:
    """Return the index of the step that contains each moment, -1 for none."""
    return _Finder(work.start_ns, work.end_ns)(time_ns)


def _nothing(steps: int) -> StepRows:
    empty = np.zeros((0, steps), np.float32)
    return StepRows((), empty, empty)


def _of_samples(
    trace: Trace, spent: Ledger, exposed: Intervals, steps: int
) -> tuple[StepRows, StepRows] | tuple[None, None]:
    """Split the own time by cause and by line, without waits for other ranks."""
    samples = trace.samples
    sampled = spent.row >= 0
    if not sampled.any():
        return None, None
    rows = spent.row[sampled]
    waited = exposed.covered(samples.time_ns[rows], samples.end_ns[rows])
    share = 1 - waited / np.maximum(samples.duration_ns[rows], 1)
    weight = spent.weight_ns[sampled] * np.clip(share, 0, 1)
    cause, step = spent.cause[sampled].astype(np.int64), spent.step[sampled]
    is_own = cause != Cause.COMMUNICATION
    weight, cause, step = weight[is_own], cause[is_own], step[is_own]
    by_cause = np.bincount(cause * steps + step, weight, len(Cause) * steps)
    causes = by_cause.reshape(len(Cause), steps)
    some = np.flatnonzero(causes.any(axis=1))
    names = tuple(Cause(int(i)).words for i in some)
    causes_by_step = StepRows(
        names, causes[some].astype(np.float32), np.zeros((len(some), steps), np.float32)
    )
    moments = np.stack([spent.stack[sampled][is_own], cause, step])
    return causes_by_step, _lines(spent, moments, weight, steps)


def _lines(spent: Ledger, moments: Int64, weight: NDArray[Any], steps: int) -> StepRows:
    """Sum moments by line and cause; each column of ``moments`` is a stack, a cause and a step."""
    stack, cause, step = moments
    codes: dict[str, int] = {}
    pairs, which = np.unique(stack * len(Cause) + cause, return_inverse=True)
    code_of = []
    for pair in pairs.tolist():
        of_stack, of_cause = divmod(pair, len(Cause))
        line = spent.stacks[of_stack].line if of_stack in spent.stacks else None
        place = place_words(line) if line is not None else ""
        code_of.append(codes.setdefault(f"{Cause(of_cause).words}|{place}", len(codes)))
    code = np.array(code_of, np.int64)[which.reshape(-1)]
    ns = np.bincount(code * steps + step, weight, len(codes) * steps).reshape(-1, steps)
    return _longest(list(codes), ns, np.zeros_like(ns))


def _of_parts(trace: Trace, own_ns: Int64) -> StepRows:
    """Split the own time by the parts of a step, as slices define them; the rest is other."""
    breakdown = step_breakdown(trace)
    parts = [part for part in Part if part not in (Part.COMMUNICATION, Part.OTHER)]
    ns = np.stack([breakdown.parts_ns[:, part] for part in parts]).astype(np.float64)
    rest = np.maximum(own_ns - ns.sum(axis=0), 0)
    ns = np.concatenate([ns, rest[None]])
    some = np.flatnonzero(ns.any(axis=1))
    names = [*(Cause(int(part)).words for part in parts), Cause.OTHER.words]
    own_ns_of_part = ns[some].astype(np.float32)
    return StepRows(tuple(names[i] for i in some), own_ns_of_part, np.zeros_like(own_ns_of_part))


def _operators(trace: Trace, in_step: _Finder) -> StepRows:
    slices = trace.slices
    counted = np.isin(slices.kind, _COUNTED) & (slices.flags & SliceFlags.ASYNC == 0)
    # A late rank waits less in collectives, which is not work of its own.
    counted &= host_parts(trace) != Part.COMMUNICATION
    asks = ids_where(slices.name, trace.strings, lambda n: DRIVER_ALLOCATION.search(n) is not None)
    if len(asks):
        counted |= np.isin(slices.name, asks) & (slices.kind == SliceKind.RUNTIME)
    rows = np.flatnonzero(counted & (slices.duration_ns > 0))
    return _by_name(trace, rows, slices.self_ns[rows], in_step)


def _kernels(trace: Trace, in_step: _Finder) -> StepRows:
    work = device_work(trace)
    rows = work.rows[work.kind != WorkKind.COMMUNICATION]
    return _by_name(trace, rows, trace.slices.duration_ns[rows], in_step)


def _by_name(trace: Trace, rows: Int64, ns: Int64, in_step: _Finder) -> StepRows:
    steps = len(in_step)
    step = in_step(trace.slices.start_ns[rows])
    inside = step >= 0
    rows, ns, step = rows[inside], ns[inside], step[inside]
    ids, code = distinct(trace.slices.name[rows])
    cell = code * steps + step
    total = np.bincount(cell, ns, len(ids) * steps).reshape(-1, steps)
    calls = np.bincount(cell, minlength=len(ids) * steps).reshape(-1, steps)
    return _longest([trace.strings[int(i)] for i in ids], total, calls)


def _longest(names: list[str], ns: NDArray[Any], calls: NDArray[Any]) -> StepRows:
    steps = max(ns.shape[1], 1)
    most = max(min(MOST_ROWS, MOST_CELLS // steps), 4)
    order = np.argsort(-ns.sum(axis=1), kind="stable")
    collecting = [i for i in order.tolist()[most:] if names[i].startswith(COLLECTION)]
    chosen = np.array([*order[:most].tolist(), *collecting], np.int64)
    return StepRows(
        tuple(names[i] for i in chosen),
        ns[chosen].astype(np.float32),
        calls[chosen].astype(np.float32),
    )


def _ready_ns(trace: Trace, steps: Steps, in_step: _Finder) -> Float32:
    samples = trace.samples
    is_ready = np.isin(samples.track, steps.track) & (samples.state == ThreadState.READY)
    step = in_step(samples.time_ns[is_ready])
    inside = step >= 0
    ns = np.bincount(step[inside], samples.duration_ns[is_ready][inside], len(in_step))
    return ns.astype(np.float32)


def busy_host(trace: Trace, communicates: Bool) -> Intervals:
    """Return when a thread runs an operator that has nothing to do with communication."""
    slices = trace.slices
    holds = with_children(slices.parent, communicates.astype(np.int64)) > 0
    inside = nearest(slices.parent, communicates) >= 0
    computes = (slices.kind == SliceKind.OPERATOR) & ~holds & ~inside
    computes &= slices.flags & SliceFlags.ASYNC == 0
    rows = np.flatnonzero(computes)
    return union(slices.start_ns[rows], slices.ends_of(rows))
