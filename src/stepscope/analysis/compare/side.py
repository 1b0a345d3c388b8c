"""One side of a comparison: what its usual step consists of, sorted in several ways.

The usual step is the mean of those steady steps, of all runs of the side, whose time is in the
middle half: other work of the machine lengthens some steps, and would else be the largest change.
All amounts are whole ns and add up to it.

The time that no operator covers is known exactly, and the lines of Python that run then by samples:
their shares are scaled to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stepscope.analysis.base.intervals import union
from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.base.sums import summed
from stepscope.analysis.code.sampled_stacks import SampledStack, sampled_stacks
from stepscope.analysis.compare.moments import Moments, Windows, moments, windows
from stepscope.analysis.compare.sorting import Sorting, sorting
from stepscope.analysis.work.work import device_work
from stepscope.trace.model import NO_STACK, Int64, Trace

FEWEST_SAMPLES = 20  # fewer samples outside operators say too little

OTHER_LINES = "libraries, not called by a line of the program"
DEVICE_BUSY = "while devices work"

FEWEST_STEPS = 8  # with fewer steps, all of them count

_MIDDLE = (25, 75)  # percentiles
_ORDERED_STEPS = 3


class Work(NamedTuple):
    """A kind of work; fields that are unknown or make no sense are empty."""

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
        """Return the standard error of a sampled time, 0 for others."""
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
    chosen: int  # number of steps whose mean is the usual one
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
    """Return the usual step of some traces."""
    run_windows = [windows(trace) for trace in traces]
    unit = run_windows[0].unit
    middle = _middle(np.concatenate([window.duration_ns for window in run_windows]))
    runs = []
    for trace, label, all_steps in zip(traces, labels, run_windows, strict=True):
        with shared_analyses():
            all_moments = moments(trace, all_steps)
            which = middle(all_steps.duration_ns)
            chosen, usual = all_steps.take(which), all_moments.of_steps(which)
            sorted_by = sorting(trace, with_shapes=with_shapes)
            runs.append(Run(label, trace, all_steps, all_moments, chosen, usual, sorted_by))
    return _summed_up(tuple(runs), unit, run_windows[0].how)


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
    """Sum a run's moments by kind of work; gaps between events by their lines."""
    sorted_by, usual = run.sorting, run.usual
    group = sorted_by.group_at(usual.owner)
    ns = summed(group, usual.ns, len(sorted_by.groups))
    count = sorted_by.counts(run.chosen)
    first = np.full(len(sorted_by.groups), np.inf)
    early = slice(int(np.searchsorted(usual.step, _ORDERED_STEPS)))  # they tell the order of work
    since = usual.start_ns[early] - run.chosen.start_ns[usual.step[early]]
    np.minimum.at(first, group[early], since)
    for i, (kind, module, name, shapes) in enumerate(sorted_by.groups):
        if not ns[i] and not count[i]:
            continue
        split = gaps.split(i, int(ns[i])) if sorted_by.is_gap[i] else None
        if split is None:
            split = {name: int(ns[i])}
        for text, share_ns in split.items():
            is_line = text != name
            key = Work("python" if is_line else kind, module, text, "" if is_line else shapes)
            amount = work.setdefault(key, Amount())
            amount.ns += share_ns
            amount.count += 0 if is_line else int(count[i])
            amount.first_ns = min(amount.first_ns, float(first[i]))
            if is_line:
                amount.samples += gaps.samples.get(text, 0)


def _each_step(amounts: Iterable[Amount], step_ns: int, steps: int) -> None:
    """Divide by the number of steps; what rounding loses goes to the rows that lost most."""
    groups = list(amounts)
    if not groups:
        return
    lost = []
    for amount in groups:
        amount.ns, rest = divmod(amount.ns, steps)
        amount.count /= steps
        lost.append(rest)
    missing = step_ns - sum(amount.ns for amount in groups)
    order = sorted(range(len(groups)), key=lambda i: -lost[i])
    for i in range(missing):
        groups[order[i % len(order)]].ns += 1


def _series(run: Run, wanted: Work) -> Int64:
    groups = [i for i, group in enumerate(run.sorting.groups) if Work(*group) == wanted]
    run_moments = run.moments
    mine = run.sorting.group_at(run_moments.owner) == (groups[0] if groups else -1)
    return summed(run_moments.step[mine], run_moments.ns[mine], len(run.windows))


@dataclass(frozen=True, slots=True)
class GapLines:
    """The time of each line, by which the time of groups that are gaps is split."""

    shares: Mapping[int, Mapping[str, int]]  # the sampled ns of each line or function in a group
    samples: Mapping[str, int]  # number of samples in each where no operator runs
    all_lines: Mapping[str, tuple[int, int]]

    def split(self, group: int, ns: int) -> dict[str, int] | None:
        """Split the exact time of a group by its samples; None if it has too few."""
        shares = self.shares.get(group)
        return scaled(shares, ns) if shares else None


def gap_lines(trace: Trace, steps: Windows, usual: Moments, by: Sorting) -> GapLines:
    """Find the lines that run in the steps.

    All steady steps tell the shares, so that there are more samples; ``usual`` are the moments of
    those whose time is split.
    """
    samples = trace.samples
    if not len(samples) or not len(steps):
        return GapLines({}, {}, {})
    rows, weight = _samples_in(trace, steps)
    stacks, stack = sampled_stacks(trace), samples.stack[rows].astype(np.int64)
    texts = line_texts(stacks, stack, _work_of)
    group = by.group_at(samples.slice[rows].astype(np.int64))
    in_gap = by.is_gap[group]
    shares: dict[int, dict[str, int]] = {}
    if int(in_gap.sum()) >= FEWEST_SAMPLES:
        for gap_group in np.unique(group[in_gap]).tolist():
            shares[gap_group] = _sums(texts, weight, group == gap_group)
    total = int(usual.ns.sum())
    everything = _sums(line_texts(stacks, stack), weight, np.ones(len(rows), np.bool_))
    taken = _sums(texts, np.ones(len(rows), np.int64), in_gap)
    if not everything:
        return GapLines(shares, taken, {})
    rest = 0
    if usual.on_device:
        is_work = np.zeros(len(trace.slices) + 1, np.bool_)
        is_work[device_work(trace).rows] = True
        rest = int(usual.ns[is_work[usual.owner]].sum())
    lines = scaled(everything, total - rest)
    line_times = {line: (ns, 0) for line, ns in lines.items()}
    return GapLines(shares, taken, {**line_times, DEVICE_BUSY: (rest, 0)} if rest else line_times)


def scaled(shares: Mapping[str, int], ns: int) -> dict[str, int]:
    """Split a time by shares into whole ns that add up to it."""
    total = sum(shares.values())
    parts = {what: ns * share // total for what, share in shares.items()}
    largest = max(shares, key=lambda what: shares[what])
    parts[largest] += ns - sum(parts.values())
    return parts


def _line_of(stack: SampledStack) -> str:
    place = stack.line
    if place is None:
        return OTHER_LINES
    return f"{place.file}:{place.line} {place.function}"


def _work_of(stack: SampledStack) -> str:
    """Return a stack's line, or its function if the function itself does the work.

    The time of a loop is spread over its lines, each of which may look smaller than the noise of
    something else; a line that calls something is a place of its own.
    """
    place = stack.line
    if place is None or stack.beyond or stack.callee or place.function == "<module>":
        return _line_of(stack)
    return f"{place.file} {place.function}"


def line_texts(
    stacks: Mapping[int, SampledStack],
    rows: Int64,
    text_of: Callable[[SampledStack], str] = _line_of,
) -> tuple[list[str], Int64]:
    """Return the distinct lines of some stacks, and the index of each stack's line among them."""
    texts: dict[str, int] = {}
    distinct_stacks, which = np.unique(rows, return_inverse=True)
    code = [texts.setdefault(text_of(stacks[int(row)]), len(texts)) for row in distinct_stacks]
    return list(texts), np.array(code, np.int64)[which.reshape(-1)]


def _samples_in(trace: Trace, steps: Windows) -> tuple[Int64, Int64]:
    """Return the samples within the steps, on their threads, and the samples' weights.

    With device work, those while devices are idle.
    """
    samples = trace.samples
    rows = np.flatnonzero(np.isin(samples.track, steps.track) & (samples.stack != NO_STACK))
    time = union(steps.start_ns, steps.end_ns)
    rows = rows[time.contain(samples.time_ns[rows])]
    work = device_work(trace)
    if len(work):
        busy = work.busy(np.ones(len(work), np.bool_))
        rows = rows[~busy.contain(samples.time_ns[rows])]
    return rows, np.maximum(samples.duration_ns[rows], 1)


def _sums(texts: tuple[list[str], Int64], weight: Int64, which: np.ndarray) -> dict[str, int]:
    words, code = texts
    sums = np.bincount(code[which], weight[which], len(words))
    return {words[i]: int(sums[i]) for i in np.flatnonzero(sums).tolist()}
