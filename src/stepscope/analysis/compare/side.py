"""One side of a comparison: what its usual step consists of, sorted in several ways.

The usual step is the mean of those steady steps, of all runs of the side, whose time is in the
middle half: other work of the machine lengthens some steps, and would else be the largest change.
All amounts are whole ns and add up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stepscope.analysis.compare.gaps import GapLines, gap_lines
from stepscope.analysis.compare.moments import Moments, Windows, moments, windows
from stepscope.analysis.compare.sorting import Sorting, sorting
from stepscope.analysis.shared import shared_analyses
from stepscope.analysis.sums import summed
from stepscope.trace.model import Int64, Trace

FEWEST_STEPS = 8  # with fewer steps, all of them count

_MIDDLE = (25, 75)  # percentiles
_ORDERED_STEPS = 3


class Work(NamedTuple):
    """What time is spent on; empty where that is not known or makes no sense."""

    kind: str  # "operator", "device", "python", "range", "idle", "runtime"
    module: str  # the path of the module that it belongs to
    name: str  # of the operator, the line of Python, the range
    shapes: str = ""


@dataclass(slots=True)
class Amount:
    """How much of something a usual step has."""

    ns: int = 0
    count: float = 0.0  # how often it runs
    first_ns: float = np.inf  # when it first runs in a step: the order of work
    samples: int = 0  # by how many it is known; 0: exactly

    @property
    def error_ns(self) -> float:
        """Return the standard error of the time, where samples tell it."""
        return self.ns / self.samples**0.5 if self.samples else 0.0


Amounts = dict[Work, Amount]


@dataclass(frozen=True, slots=True)
class Run:
    """One trace of a side."""

    label: str
    trace: Trace = field(repr=False)
    windows: Windows = field(repr=False)
    moments: Moments = field(repr=False)  # of all steady steps
    chosen: Windows = field(repr=False)  # the usual steps among them
    usual: Moments = field(repr=False)  # their moments
    sorting: Sorting = field(repr=False)


@dataclass(frozen=True, slots=True)
class Side:
    """The runs of one side, and their usual step."""

    runs: tuple[Run, ...]
    unit: str
    how: str
    chosen: int  # of how many steps the usual one is the mean
    step_ns: int
    work: Amounts
    phases: Mapping[str, Amount]
    kernels: Mapping[str, Amount]
    lines: Mapping[str, Amount]

    @property
    def step_times(self) -> list[Int64]:
        return [run.windows.duration_ns for run in self.runs]

    def series(self, wanted: Work) -> list[Int64]:
        return [_series(run, wanted) for run in self.runs]


def side_of(traces: Sequence[Trace], labels: Sequence[str], *, with_shapes: bool) -> Side:
    """Find what the usual step of some traces consists of."""
    found = [windows(trace) for trace in traces]
    unit = found[0].unit
    middle = _middle(np.concatenate([each.duration_ns for each in found]))
    runs = []
    for trace, label, all_steps in zip(traces, labels, found, strict=True):
        with shared_analyses():
            held = moments(trace, all_steps)
            which = middle(all_steps.duration_ns)
            chosen, usual = all_steps.take(which), held.of_steps(which)
            sorted_by = sorting(trace, with_shapes=with_shapes)
            runs.append(Run(label, trace, all_steps, held, chosen, usual, sorted_by))
    return _summed_up(tuple(runs), unit, found[0].how)


def _middle(duration_ns: Int64) -> Callable[[Int64], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    if len(duration_ns) < FEWEST_STEPS:
        return lambda times: np.ones(len(times), np.bool_)
    low, high = np.percentile(duration_ns, _MIDDLE)
    return lambda times: (times >= low) & (times <= high)


def _summed_up(runs: tuple[Run, ...], unit: str, how: str) -> Side:
    chosen = sum(len(run.chosen) for run in runs)
    total = sum(int(run.usual.ns.sum()) for run in runs)
    step_ns = round(total / max(chosen, 1))
    work: Amounts = {}
    phases: dict[str, Amount] = {}
    kernels: dict[str, Amount] = {}
    lines: dict[str, Amount] = {}
    for run in runs:
        with shared_analyses():
            gaps = gap_lines(run.trace, run.windows, run.usual, run.sorting)
            _add_work(work, run, gaps)
            _add(phases, run.sorting.phases_of(run.usual))
            _add(kernels, run.sorting.kernels_of(run.usual))
            _add(lines, gaps.all_lines)
    for amounts in (work, phases, kernels, lines):
        _each_step(amounts.values(), step_ns, max(chosen, 1))
    return Side(runs, unit, how, chosen, step_ns, work, phases, kernels, lines)


def _add(sums: dict[str, Amount], more: Mapping[str, tuple[int, int]]) -> None:
    for what, (ns, count) in more.items():
        amount = sums.setdefault(what, Amount())
        amount.ns += ns
        amount.count += count


def _add_work(work: Amounts, run: Run, gaps: GapLines) -> None:
    """Sum the moments of a run by what they are spent on; what no event covers, by its line."""
    sorted_by, held = run.sorting, run.usual
    group = sorted_by.group_at(held.owner)
    ns = summed(group, held.ns, len(sorted_by.groups))
    count = sorted_by.counts(run.chosen)
    first = np.full(len(sorted_by.groups), np.inf)
    early = slice(int(np.searchsorted(held.step, _ORDERED_STEPS)))  # they tell the order of work
    since = held.start_ns[early] - run.chosen.start_ns[held.step[early]]
    np.minimum.at(first, group[early], since)
    for i, (kind, module, name, shapes) in enumerate(sorted_by.groups):
        if not ns[i] and not count[i]:
            continue
        told = gaps.split(i, int(ns[i])) if sorted_by.is_gap[i] else None
        if told is None:
            told = {name: int(ns[i])}
        for text, share_ns in told.items():
            is_line = text != name
            key = Work("python" if is_line else kind, module, text, "" if is_line else shapes)
            amount = work.setdefault(key, Amount())
            amount.ns += share_ns
            amount.count += 0 if is_line else int(count[i])
            amount.first_ns = min(amount.first_ns, float(first[i]))
            if is_line:
                amount.samples += gaps.samples.get(text, 0)


def _each_step(amounts: Iterable[Amount], step_ns: int, steps: int) -> None:
    """Divide by the number of steps; the ns that rounding loses go to those that lost most."""
    held = list(amounts)
    if not held:
        return
    lost = []
    for amount in held:
        amount.ns, rest = divmod(amount.ns, steps)
        amount.count /= steps
        lost.append(rest)
    missing = step_ns - sum(amount.ns for amount in held)
    order = sorted(range(len(held)), key=lambda i: -lost[i])
    for i in range(missing):
        held[order[i % len(order)]].ns += 1


def _series(run: Run, wanted: Work) -> Int64:
    groups = [i for i, group in enumerate(run.sorting.groups) if Work(*group) == wanted]
    held = run.moments
    mine = run.sorting.group_at(held.owner) == (groups[0] if groups else -1)
    return summed(held.step[mine], held.ns[mine], len(run.windows))
