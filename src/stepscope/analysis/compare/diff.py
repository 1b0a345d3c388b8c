"""Two sides compared: the verdict, then what changed, in tables that add up to the change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np

from stepscope.analysis.base.shared import both, shared_analyses
from stepscope.analysis.compare.change_points import LEAST_EFFECT
from stepscope.analysis.compare.evidence import evidence, with_evidence
from stepscope.analysis.compare.matching import Match, matched, renamed_modules
from stepscope.analysis.compare.model import (
    GONE,
    MOVED,
    NEW,
    RENAMED,
    SAME,
    Diff,
    DiffTable,
    Quantity,
    Row,
)
from stepscope.analysis.compare.side import Amount, Amounts, Run, Side, Work, side_of
from stepscope.analysis.compare.sorting import knows_shapes
from stepscope.analysis.compare.statistics import Comparison, compare_samples, corrected
from stepscope.analysis.findings import Finding, find_problems
from stepscope.analysis.memory.blocks import blocks_of_device, totals_of
from stepscope.analysis.memory.usage import devices, with_memory
from stepscope.trace.measures import Measure, Sums, measured
from stepscope.trace.model import Bool, SliceKind, Trace
from stepscope.units import BYTES

_SYNCHRONIZE = ("Synchronize", "synchronize")


def memory_changes(before: Mapping[str, float], after: Mapping[str, float]) -> list[Quantity]:
    return [
        Quantity(f"peak memory, {device}", before[device], after[device], BYTES, is_each_step=False)
        for device in before
        if device in after
    ]


def peaks_of(traces: Sequence[Trace]) -> dict[str, float]:
    """Return the peak of each device's memory, the median over runs."""
    peaks: dict[str, list[float]] = {}
    for trace in traces:
        filled = with_memory(trace)
        for device in devices(filled) if len(filled.memory) else ():
            blocks, _ = blocks_of_device(filled, device)
            totals = totals_of(filled, device, blocks)
            peaks.setdefault(device, []).append(float(totals.bytes[totals.peak_row]))
    return {device: float(np.median(values)) for device, values in peaks.items()}


def count_changes(sides: tuple[Side, Side]) -> list[Quantity]:
    counts = [_events(side) for side in sides]
    events = [
        Quantity(what, before, counts[1][what])
        for what, before in counts[0].items()
        if before or counts[1][what]
    ]
    before, after = (_measures(side) for side in sides)
    measures = [
        Quantity(
            measure.title.lower(), amount, after[measure], measure.unit, measure.sums is Sums.ADDED
        )
        for measure, amount in before.items()
        if measure in after
    ]
    return [*events, *measures]


def _measures(side: Side) -> dict[Measure, float]:
    """Return the sum of each added measure in a step, the mean of a weighted one."""
    totals: dict[Measure, float] = {}
    weights: dict[Measure, float] = {}
    for run in side.runs:
        slices, inside = run.trace.slices, _in_windows(run)
        for measure, values in measured(slices):
            rows = np.flatnonzero((values != measure.absent) & inside)
            is_mean = measure.sums is Sums.WEIGHTED
            weight = slices.duration_ns[rows] if is_mean else np.ones(len(rows), np.int64)
            totals[measure] = totals.get(measure, 0) + float((values[rows] * weight).sum())
            more = float(weight.sum()) if is_mean else len(run.windows)
            weights[measure] = weights.get(measure, 0) + more
    return {measure: total / max(weights[measure], 1) for measure, total in totals.items()}


def _in_windows(run: Run) -> Bool:
    """Return a mask of the slices that start in a steady step."""
    start_ns = run.trace.slices.start_ns
    at = np.searchsorted(run.windows.start_ns, start_ns, side="right") - 1
    return (at >= 0) & (start_ns < run.windows.end_ns[at])


def _events(side: Side) -> dict[str, float]:
    sums = dict.fromkeys(("operators", "kernels", "copies", "synchronisations"), 0)
    steps = 0
    for run in side.runs:
        slices = run.trace.slices
        steps += len(run.windows)
        inside = _in_windows(run)
        kind = slices.kind[inside]
        sums["operators"] += int((kind == SliceKind.OPERATOR).sum())
        sums["kernels"] += int((kind == SliceKind.KERNEL).sum())
        sums["copies"] += int((kind == SliceKind.MEMCPY).sum())
        calls = slices.name[inside & (slices.kind == SliceKind.RUNTIME)]
        ids, count = np.unique(calls, return_counts=True)
        for name, number in zip(ids.tolist(), count.tolist(), strict=True):
            if any(word in run.trace.strings[name] for word in _SYNCHRONIZE):
                sums["synchronisations"] += number
    return {what: count / max(steps, 1) for what, count in sums.items()}


MOST_TESTED = 8  # only the largest rows are tested, and p values are corrected for their number

OUTSIDE = "outside of modules"

_MOST_SHARED = 6_000_000  # with more slices, cached results would fill the memory
_FEW_EVENTS = 300_000  # of one trace: looking for problems in a bigger one takes seconds
_UNEVEN = 0.25  # of a line's time: by so much do runs differ on a busy machine
_CERTAIN = 5.0  # errors
_KIND_WORDS = {"idle": "device idle: ", "python": "", "range": "", "runtime": ""}


def diff_traces(
    before: Sequence[Trace],
    after: Sequence[Trace],
    *,
    labels: tuple[Sequence[str], Sequence[str]] | None = None,
    least_effect: float = LEAST_EFFECT,
    findings: bool | None = None,
) -> Diff:
    """Compare the traces of some runs with those of others.

    ``findings`` looks for the problems of both sides, too; by default where traces are not big.
    """
    if not before or not after:
        raise ValueError("a comparison needs at least one trace before and one after")
    small = sum(len(trace) for trace in (*before, *after)) <= _MOST_SHARED
    with shared_analyses() if small else nullcontext():
        return _diff(before, after, labels, least_effect, findings)


def _diff(
    before: Sequence[Trace],
    after: Sequence[Trace],
    labels: tuple[Sequence[str], Sequence[str]] | None,
    least_effect: float,
    findings: bool | None,
) -> Diff:
    named = labels or ([f"before {i}" for i in range(len(before))],
                       [f"after {i}" for i in range(len(after))])  # fmt: skip
    with_shapes = all(knows_shapes(trace) for trace in (*before, *after))
    makers = [
        partial(_measured, traces, names, with_shapes=with_shapes)
        for traces, names in zip((before, after), named, strict=True)
    ]
    (one, peaks), (other, later_peaks) = both(*makers)
    sides = (one, other)
    step = compare_samples(
        sides[0].step_times, sides[1].step_times, least_effect=least_effect, unit=sides[1].unit
    )
    matches = matched(sides[0].work, sides[1].work)
    pairs = {work: match.after[0] for match in matches if match.after for work in match.before}
    shown = evidence(sides[0], sides[1], pairs)
    step = with_evidence(step, shown)
    changed = shown.changed if shown is not None and step.is_real else {}
    step = replace(step, remarks=(*_remarks(sides), *step.remarks))
    wanted = findings
    if wanted is None:
        wanted = max(len(trace) for trace in (*before, *after)) <= _FEW_EVENTS
    came, went = _findings(before, after) if wanted else ((), ())
    return Diff(
        sides[0],
        sides[1],
        step,
        tuple(_tables(sides, matches, changed)),
        tuple(memory_changes(peaks, later_peaks)),
        tuple(count_changes(sides)),
        came,
        went,
    )


def _remarks(sides: tuple[Side, Side]) -> list[str]:
    remarks = []
    if sides[0].unit != sides[1].unit:
        remarks.append(
            f"a {sides[0].unit} is compared with a {sides[1].unit}: before, {sides[0].how}; "
            f"after, {sides[1].how}"
        )
    elif sides[0].how != sides[1].how:
        remarks.append(f"steps were recognised differently: before, {sides[0].how}; after, "
                    f"{sides[1].how}")  # fmt: skip
    elif sides[0].unit == "run":
        remarks.append("no steps were recognised: whole traces are compared, as one step each")
    means = [float(np.concatenate(side.step_times).mean()) for side in sides]
    medians = [float(np.median(np.concatenate(side.step_times))) for side in sides]
    if min(*means, *medians) > 0:
        mean, median = means[1] / means[0] - 1, medians[1] / medians[0] - 1
        if abs(mean - median) > 0.05 and abs(mean) > 2 * abs(median):
            remarks.append(
                f"the mean {sides[1].unit} changed by {mean:+.0%}, the median by {median:+.1%}: "
                "a few take much longer on one side"
            )
    return remarks


def _tables(
    sides: tuple[Side, Side], matches: list[Match], changed: Mapping[Work, float] | None = None
) -> list[DiffTable]:
    before, after = sides
    work = _ranked(_work_row(match, before.work, after.work) for match in matches)
    work = _proven_first(work, changed or {})
    tables = [
        DiffTable("work", "what changed", _tested(work, sides)),
        DiffTable("phase", "phases", _plain_rows(before.phases, after.phases)),
    ]
    renamed = renamed_modules(before.work, after.work)
    if any(piece.module for piece in (*before.work, *after.work)):
        modules = [_by(side.work, _module_of) for side in sides]
        tables.append(
            DiffTable("module", "modules", _renamed_rows(modules[0], modules[1], renamed))
        )
    operators = [_by(side.work, _operator_of) for side in sides]
    was: dict[str, str] = {}
    for match in matches:
        if match.before and match.after:
            old, new = _operator_of(match.before[0]), _operator_of(match.after[0])
            is_free = old not in operators[1] and new not in operators[0]
            if is_free and old not in was.values():  # each row has its time from one
                was.setdefault(new, old)
    tables.append(DiffTable("operator", "operators", _plain_rows(operators[0], operators[1], was)))
    if before.kernels or after.kernels:
        kernels = [_whole(side.kernels, side, "no device work") for side in sides]
        tables.append(DiffTable("kernel", "kernels", _plain_rows(kernels[0], kernels[1])))
    if before.lines or after.lines:
        lines = [_whole(side.lines, side, "not sampled") for side in sides]
        tables.append(DiffTable("line", "lines of Python", _line_rows(lines[0], lines[1])))
    return tables


def _whole(amounts: Mapping[str, Amount], side: Side, otherwise: str) -> Mapping[str, Amount]:
    """Return the amounts; a side without any counts as one row of its whole step."""
    return amounts or {otherwise: Amount(side.step_ns)}


def words_of(work: Work) -> str:
    name = f"{_KIND_WORDS.get(work.kind, '')}{work.name}"
    shapes = f" {work.shapes}" if work.shapes else ""
    module = f" in {work.module}" if work.module else ""
    return f"{name}{shapes}{module}"


def _work_row(match: Match, before: Amounts, after: Amounts) -> Row:
    shown = (match.after or match.before)[0]
    sums = [
        Amount(
            sum(amounts[work].ns for work in works),
            sum(amounts[work].count for work in works),
        )
        for works, amounts in ((match.before, before), (match.after, after))
    ]
    errors = [
        amounts[work].error_ns ** 2
        for works, amounts in ((match.before, before), (match.after, after))
        for work in works
    ]
    if len(match.before) > 1 or len(match.after) > 1:
        shown = shown._replace(module="")
    was = words_of(match.before[0]) if match.status in (RENAMED, MOVED) and match.before else ""
    if len(match.before) > 1:
        was = f"{match.before[0].name} in {', '.join(sorted({w.module for w in match.before}))}"
    what = words_of(shown)
    return Row(
        what,
        sums[0].ns,
        sums[1].ns,
        sums[0].count,
        sums[1].count,
        match.status if was != what else SAME,
        was if was != what else "",
        shown.kind,
        shown.module,
        shown.name,
        shown.shapes,
        sum(errors) ** 0.5,
    )


def _ranked(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Put the largest change first; one within the error of sampling goes behind."""
    return tuple(sorted(rows, key=lambda row: (-row.certain_ns, -abs(row.difference_ns), row.what)))


def _proven_first(rows: tuple[Row, ...], changed: Mapping[Work, float]) -> tuple[Row, ...]:
    """Sort rows first whose work is proven to have changed, whatever slowed the machine down.

    Of what no event covers the samples tell the line: the one that stands out most.
    """
    before_ns = sum(row.before_ns for row in rows)
    pace = sum(row.after_ns for row in rows) / before_ns if before_ns else 1.0
    proven: dict[int, float] = {}
    for work, share in changed.items():
        mine = [
            i
            for i, row in enumerate(rows)
            if Work(row.kind, row.module, row.name, row.shapes) == work
        ]
        if not mine:
            lines = [i for i, row in enumerate(rows) if row.error_ns and row.module == work.module]
            mine = sorted(lines, key=lambda i: _stands_out(rows[i], pace, share), reverse=True)[:1]
        for i in mine:
            proven[i] = proven.get(i, 0.0) + share
    first = sorted(proven, key=lambda i: -abs(proven[i]))
    return (*(rows[i] for i in first), *(row for i, row in enumerate(rows) if i not in proven))


def _stands_out(row: Row, pace: float, share: float) -> tuple[float, float]:
    """Return by how many standard errors a line changed beyond the general slow-down.

    Of those that certainly did, the one that changed most stands out most.
    """
    expected_ns = pace * row.before_ns
    beyond_ns = float(np.copysign(row.after_ns - expected_ns, (row.after_ns - expected_ns) * share))
    errors = beyond_ns / float(np.hypot(row.error_ns, _UNEVEN * expected_ns))
    return min(errors, _CERTAIN), beyond_ns


def _tested(rows: tuple[Row, ...], sides: tuple[Side, Side]) -> tuple[Row, ...]:
    """Test whether the first rows changed; sampled work has no time in each step to test."""
    tested: dict[int, Comparison] = {}
    for i, row in enumerate(rows[:MOST_TESTED]):
        if row.error_ns or row.status != SAME or not row.difference_ns:
            continue
        work = Work(row.kind, row.module, row.name, row.shapes)
        tested[i] = compare_samples(sides[0].series(work), sides[1].series(work))
    fixed = dict(zip(tested, corrected(list(tested.values())), strict=True))
    return tuple(
        replace(row, comparison=fixed[i]) if i in fixed else row for i, row in enumerate(rows)
    )


def _by(amounts: Amounts, key: Callable[[Work], str]) -> dict[str, Amount]:
    sums: dict[str, Amount] = {}
    for work, amount in amounts.items():
        total = sums.setdefault(key(work), Amount())
        total.ns += amount.ns
        total.count += amount.count
        total.first_ns = min(total.first_ns, amount.first_ns)
    return sums


def _module_of(work: Work) -> str:
    return work.module or OUTSIDE


def _operator_of(work: Work) -> str:
    return words_of(work._replace(module="", kind=work.kind))


def _plain_rows(
    before: Mapping[str, Amount], after: Mapping[str, Amount], was: Mapping[str, str] | None = None
) -> tuple[Row, ...]:
    """Return a row for each name; ``was`` maps renamed ones to their former names."""
    former = was or {}
    nothing = Amount()
    rows = []
    for what in {**after, **{k: v for k, v in before.items() if k not in former.values()}}:
        old = former.get(what, what)
        one, other = before.get(old, nothing), after.get(what, nothing)
        if not one.ns and not other.ns:
            continue
        status = RENAMED if old != what else SAME
        status = NEW if old not in before else GONE if what not in after else status
        rows.append(
            Row(what, one.ns, other.ns, one.count, other.count, status, old if old != what else "")
        )
    return _ranked(rows)


def _renamed_rows(
    before: Mapping[str, Amount], after: Mapping[str, Amount], renamed: Mapping[str, str]
) -> tuple[Row, ...]:
    former_names = {new: old for old, new in renamed.items() if old in before and new in after}
    return _plain_rows(before, after, former_names)


def _line_rows(before: Mapping[str, Amount], after: Mapping[str, Amount]) -> tuple[Row, ...]:
    """Match lines as the rows of work are: their functions may have moved."""
    sides: list[Amounts] = [
        {Work("python", "", line): amount for line, amount in side.items()}
        for side in (before, after)
    ]
    was = {
        match.after[0].name: match.before[0].name
        for match in matched(sides[0], sides[1])
        if match.before and match.after and match.before != match.after
    }
    rows = _plain_rows(before, after, was)
    return tuple(replace(row, status=MOVED) if row.status == RENAMED else row for row in rows)


def _measured(
    traces: Sequence[Trace], names: Sequence[str], *, with_shapes: bool
) -> tuple[Side, dict[str, float]]:
    """Return one side and the peaks of its memory; both take long for large traces."""
    return side_of(traces, names, with_shapes=with_shapes), peaks_of(traces)


def _findings(
    before: Sequence[Trace], after: Sequence[Trace]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the problems that came and went; of several runs, those in most of them."""
    ours, theirs = (_usual_findings(traces) for traces in (before, after))
    came = tuple(finding for key, finding in theirs.items() if key not in ours)
    went = tuple(finding for key, finding in ours.items() if key not in theirs)
    return came, went


def _usual_findings(traces: Sequence[Trace]) -> dict[str, Finding]:
    findings_by_id: dict[str, list[Finding]] = {}
    for trace in traces:
        with shared_analyses():
            for finding in find_problems(trace):
                findings_by_id.setdefault(finding.id, []).append(finding)
    return {key: same[0] for key, same in findings_by_id.items() if 2 * len(same) > len(traces)}
