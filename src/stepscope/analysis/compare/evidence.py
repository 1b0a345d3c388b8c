"""Is a step different, judged by the work in it? A test that still works on a busy machine.

Other processes interrupt a run at any moment: whole steps, and their medians, may double. What one
call takes is interrupted seldom. So of each run the time of each kind of work is the sum, over the
calls in a step, of a low quantile of that call over all steps; how fast the machine was in a run is
what most of the work agrees on, and is divided out.

Then the runs are dealt to the sides anew in all ways (Westfall and Young): how often is the largest
change of any kind of work, or of the whole step, as large as the one seen? Testing many kinds of
work is corrected for by that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from stepscope.analysis.base.sums import distinct_pairs
from stepscope.analysis.compare.side import Run, Side, Work
from stepscope.analysis.compare.statistics import (
    ALPHA,
    CONFIDENCE,
    FEWEST_STEPS,
    Comparison,
    Test,
    Verdict,
)
from stepscope.trace.model import Bool, Float64, Int64

_QUANTILE = 0.1  # of the times of one call over the steps
_OFTEN = 0.5  # share of the steps that a call must be in
_MOST_MOMENTS = 3_000_000  # of a run; of longer runs, the first moments
_MOST_LABELINGS = 1000
_FLOOR = 0.002  # of a step: what changes by less is as good as unchanged
_DRAWS = 1000
_AFTER = " after "  # separates a gap's name from the work that ran before it
_AS_NARROW = 2.0  # an interval of the whole step this much wider than that of its parts
_OUTLYING = 3.0  # median deviations at which outliers are clipped


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the work in a step says about the change."""

    p: float  # probability of such a difference under random labelings
    changed: Mapping[Work, float]  # the kinds of work that did, by how much, of a step
    change: float  # what they add to a step, relative to it
    low: float
    high: float


def evidence(before: Side, after: Side, pairs: dict[Work, Work], seed: int = 0) -> Evidence | None:
    """Test the work of a step; None where there are too few runs for it.

    ``pairs`` tells what work of the first side is called on the second.
    """
    counts = len(before.runs), len(after.runs)
    labelings = comb(sum(counts), counts[0])
    steps = (sum(len(run.windows) for run in side.runs) for side in (before, after))
    if min(counts) < 2 or labelings * ALPHA < 2 or min(steps) < FEWEST_STEPS:
        return None
    names, times = _times(before, after, pairs)
    if not len(names):
        return None
    times = times / _speed(_with_whole_gaps(names, times))[:, None]
    step = float(np.median(times.sum(axis=1)))
    values = _clipped(np.column_stack([times, times.sum(axis=1)]) / step)
    scores = _scores(values, _labelings(counts, seed)).max(axis=1)
    is_after = np.arange(len(values)) >= counts[0]
    seen = _scores(values, ~is_after[None])[0]
    p = float((scores >= seen.max() - 1e-12).mean())
    least = min(float(np.quantile(scores, 1 - ALPHA)), float(seen[:-1].max()))
    changed = np.flatnonzero(seen[:-1] >= least)
    own = _interval(values[:, changed].sum(axis=1), is_after, seed)
    whole = _interval(values[:, -1], is_after, seed)
    # What did not change adds noise only, and much of it where the machine was busy.
    is_quiet = whole[2] - whole[1] <= _AS_NARROW * (own[2] - own[1]) + _FLOOR
    change, low, high = whole if is_quiet else own
    shift = np.median(values[is_after], axis=0) - np.median(values[~is_after], axis=0)
    changes: dict[Work, float] = {}
    for i in changed.tolist():
        work = names[i]._replace(name=names[i].name.partition(_AFTER)[0])
        changes[work] = changes.get(work, 0.0) + float(shift[i])
    return Evidence(p, changes, change, low, high)


def with_evidence(step: Comparison, work_evidence: Evidence | None) -> Comparison:
    """Return a comparison of step times with what the work in them says."""
    if work_evidence is None:
        return step
    is_real = (
        work_evidence.p < ALPHA
        and abs(work_evidence.change) >= step.least_effect
        and not work_evidence.low <= 0 <= work_evidence.high
    )
    if is_real:
        return replace(
            step,
            verdict=Verdict.SLOWER if work_evidence.change > 0 else Verdict.FASTER,
            test=Test.WORK,
            p=work_evidence.p,
            change=work_evidence.change,
            low=work_evidence.low,
            high=work_evidence.high,
        )
    verdict = Verdict.NOISE if step.is_real else step.verdict
    return replace(step, verdict=verdict, p=max(work_evidence.p, step.p), test=Test.WORK)


def _times(before: Side, after: Side, pairs: dict[Work, Work]) -> tuple[list[Work], Float64]:
    """Return how long each kind of work takes in a step of each run."""
    rows: dict[Work, int] = {}
    clean_times = []
    for side, is_before in ((before, True), (after, False)):
        for run in side.runs:
            by_work = _clean(run)
            if is_before:
                renamed: dict[Work, float] = {}
                for work, ns in by_work.items():
                    key = pairs.get(work, work)
                    renamed[key] = renamed.get(key, 0.0) + ns
                by_work = renamed
            clean_times.append(by_work)
            for work in by_work:
                rows.setdefault(work, len(rows))
    times = np.zeros((len(clean_times), len(rows)))
    for i, by_work in enumerate(clean_times):
        for work, ns in by_work.items():
            times[i, rows[work]] = ns
    return list(rows), times


def _clean(run: Run) -> dict[Work, float]:
    """Return the uninterrupted time of each kind of work in a step, in ns."""
    run_moments = run.moments
    end = min(len(run_moments.ns), _MOST_MOMENTS)
    step, ns = run_moments.step[:end], run_moments.ns[:end]
    if not end:
        return {}
    keys, kind = _kinds(run, end)
    number = _numbers(step * len(keys) + kind)
    width = int(number.max()) + 1
    site = kind * width + number
    order = np.lexsort((ns, site))
    site, ns = site[order], ns[order]
    _, first, count = np.unique(site, return_index=True, return_counts=True)
    often = count >= _OFTEN * (int(step[-1]) + 1)
    first, count = first[often], count[often]
    low = ns[first + (count * _QUANTILE).astype(np.int64)]
    sums = np.bincount(site[first] // width, low, len(keys))
    clean_ns: dict[Work, float] = {}
    for i in np.flatnonzero(sums).tolist():
        clean_ns[keys[i]] = clean_ns.get(keys[i], 0.0) + float(sums[i])
    return clean_ns


def _kinds(run: Run, end: int) -> tuple[list[Work], Int64]:
    """Return the kinds of work of a run, and that of each moment.

    What no event covers is told apart by what ran before: else all of it were one kind, and a line
    that became slower would be lost in it.
    """
    groups = [Work(*names) for names in run.sorting.groups]
    group = run.sorting.group_at(run.moments.owner[:end])
    before = np.roll(group, 1)
    before[0] = len(groups) - 1
    before = np.where(run.sorting.is_gap[group], before, len(groups))
    (ours, theirs), kind = distinct_pairs(group, before)
    keys = []
    for mine, last in zip(ours.tolist(), theirs.tolist(), strict=True):
        after = f"{_AFTER}{groups[last].name}" if last < len(groups) else ""
        keys.append(groups[mine]._replace(name=f"{groups[mine].name}{after}"))
    return keys, kind


def _numbers(code: Int64) -> Int64:
    """Return for each code how many equal ones come before it."""
    order = np.argsort(code, kind="stable")
    ordered = code[order]
    begins = np.ones(len(code), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    place = np.arange(len(code))
    number = np.empty(len(code), np.int64)
    number[order] = place - np.maximum.accumulate(np.where(begins, place, 0))
    return number


def _with_whole_gaps(names: list[Work], times: Float64) -> Float64:
    """Return the times with each gap as one kind of work, whatever ran before it.

    Work that is new splits a gap in two, and neither half says how fast the machine was.
    """
    whole: dict[Work, int] = {}
    at = [
        whole.setdefault(name._replace(name=name.name.partition(_AFTER)[0]), len(whole))
        for name in names
    ]
    sums = np.zeros((len(times), len(whole)))
    for column, place in zip(times.T, at, strict=True):
        sums[:, place] += column
    return sums


def _speed(times: Float64) -> Float64:
    """Return how slow the machine was in each run: the weighted median of its work's slow-downs."""
    usual = np.median(times, axis=0)
    is_measured = (times > 0).all(axis=0) & (usual > 0)
    if not is_measured.any():
        return np.ones(len(times))
    ratio, weight = times[:, is_measured] / usual[is_measured], usual[is_measured]
    order = np.argsort(ratio, axis=1)
    within = np.cumsum(weight[order], axis=1)
    at = (within < within[:, -1:] / 2).sum(axis=1)
    picked = np.take_along_axis(order, at[:, None], axis=1)
    return np.asarray(np.take_along_axis(ratio, picked, axis=1)[:, 0])


def _labelings(counts: tuple[int, int], seed: int) -> Bool:
    """Return the ways to assign runs to sides, as masks of the first side's runs."""
    n, k = sum(counts), counts[0]
    if comb(n, k) <= _MOST_LABELINGS:
        chosen = np.array(list(combinations(range(n), k)))
    else:
        generator = np.random.default_rng(seed)
        chosen = np.argsort(generator.random((_MOST_LABELINGS, n)), axis=1)[:, :k]
        chosen[0] = np.arange(k)  # the actual labeling is one of them
    first = np.zeros((len(chosen), n), np.bool_)
    first[np.arange(len(chosen))[:, None], chosen] = True
    return first


def _scores(values: Float64, first: Bool) -> Float64:
    """Return how clearly each kind of work differs between the sides, for each labeling."""
    weights = first / first.sum(axis=1, keepdims=True), ~first / (~first).sum(axis=1, keepdims=True)
    middle = weights[0] @ values, weights[1] @ values
    spread = np.zeros_like(middle[0])
    for weight, at in zip(weights, middle, strict=True):
        apart = np.abs(values[None] - at[:, None])  # one for each labeling, run and kind of work
        spread += np.einsum("wr,wrk->wk", weight, apart)
    return np.asarray(np.abs(middle[1] - middle[0]) / (_FLOOR + spread))


def _clipped(values: Float64) -> Float64:
    """Return the values with outliers clipped, whichever side they are on."""
    middle = np.median(values, axis=0)
    spread = _OUTLYING * np.median(np.abs(values - middle), axis=0) + _FLOOR
    return np.clip(values, middle - spread, middle + spread)


def _interval(values: Float64, is_after: Bool, seed: int) -> tuple[float, float, float]:
    """Return the change of some work and its interval, by bootstrapping the runs."""
    generator = np.random.default_rng(seed)
    one, other = values[~is_after], values[is_after]
    drawn = [
        np.median(side[generator.integers(0, len(side), (_DRAWS, len(side)))], axis=1)
        for side in (one, other)
    ]
    shift = float(np.median(other) - np.median(one))
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(drawn[1] - drawn[0], [tail, 100 - tail])
    return shift, float(low), float(high)
