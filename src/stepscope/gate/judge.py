"""Judges runs by rules, against a baseline.

Counts are compared exactly: a count has grown if every run exceeds all runs of the baseline by more
than the allowance. Times are compared by the test in ``analysis/compare``: a time has grown if the
test says so, and by more than the allowance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.compare.change_points import LEAST_EFFECT
from stepscope.analysis.compare.diff import diff_traces
from stepscope.analysis.compare.model import NEW, Diff, signed
from stepscope.analysis.compare.statistics import Comparison, Verdict, compare_samples
from stepscope.analysis.quantities import (
    Quantity,
    operator_calls,
    operator_times,
    quantities,
    step_times,
    words_of,
)
from stepscope.gate.model import Check, Judgement, Outcome
from stepscope.gate.rules import DEVICE_BUSY, NAMES, STEP_TIME, Allowance, Rules, value_text
from stepscope.trace.model import Trace
from stepscope.trace.names import ENGINE
from stepscope.units import COUNT, SHARE, duration_text, percent_text

_MORE_ROWS = 4  # named beside the one that grew most
_NO_STEPS = "no steps were recognised: mark them with profiler.step(), or see docs/guide.md"
_NOT_WORTH_IT = 1e-9  # of a count that is a mean over steps


def judge(before: Sequence[Trace], after: Sequence[Trace], rules: Rules) -> Judgement:
    """Judge runs by rules; ``before`` may be empty if no rule compares."""
    with shared_analyses():
        timed = before and STEP_TIME in rules.grow
        diff = _compared(before, after, rules.grow[STEP_TIME]) if timed else None
        checks = tuple(_checks(before, after, rules, diff))
        return Judgement(checks, tuple(_notes(before, after)), diff)


def _checks(
    before: Sequence[Trace], after: Sequence[Trace], rules: Rules, diff: Diff | None
) -> Iterator[Check]:
    counted = [dict(quantities(trace)) for trace in after]
    if before:
        counts_before = [dict(quantities(trace)) for trace in before]
        for name, allowance in rules.grow.items():
            if name == STEP_TIME:
                if diff is not None:
                    yield _step_time(diff)
                continue
            pair = [run[name] for run in counts_before], [run[name] for run in counted]
            if name == DEVICE_BUSY:
                check = _busy(name, *pair, allowance)
            else:
                # An operator may call others: blame the one that the program calls.
                asked = "ops" if name == "all_ops" else name
                rows = ([run[asked] for run in counts_before], [run[asked] for run in counted])
                check = _counted(name, *pair, allowance, rows)
            if check.outcome is not Outcome.UNKNOWN or name in rules.chosen:
                yield check
        for name, allowance in rules.operator_calls.items():
            old, new = ([operator_calls(trace, name) for trace in side] for side in (before, after))
            yield _counted(f"{name} calls", old, new, allowance)
        for name, allowance in rules.operator_time.items():
            yield _operator_time(name, before, after, allowance)
    for name, most in rules.most.items():
        yield _limit(name, after, counted, most, is_most=True)
    for name, least in rules.least.items():
        yield _limit(name, after, counted, least, is_most=False)


# ---- what is counted


def _counted(
    name: str,
    before: Sequence[Quantity],
    after: Sequence[Quantity],
    allowance: Allowance,
    rows: tuple[Sequence[Quantity], Sequence[Quantity]] | None = None,
) -> Check:
    """Judge a count; if it grew, ``rows`` are searched first for the row to blame."""
    words = after[0].words
    lacking = next((quantity for quantity in (*before, *after) if quantity.total is None), None)
    if lacking is not None:
        side = "this run" if any(quantity is lacking for quantity in after) else "the baseline"
        return Check(name, words, Outcome.UNKNOWN, why=f"unknown for {side}: {lacking.why_not}")
    value, unit_word = _way_to_count(before, after)
    old, new = [value(quantity) for quantity in before], [value(quantity) for quantity in after]
    most = allowance.above(max(old))
    outcome = Outcome.PASSED
    if min(new) > most + _NOT_WORTH_IT:
        outcome = Outcome.FAILED
    elif max(new) < min(old) - _NOT_WORTH_IT:
        outcome = Outcome.BETTER
    text_of = after[0].text
    change = min(new) - max(old) if min(new) > max(old) else max(new) - min(old)
    failed = outcome is Outcome.FAILED
    return Check(
        name,
        f"{words}{unit_word}",
        outcome,
        _range(old, text_of),
        _range(new, text_of),
        _signed(change, text_of) if failed or outcome is Outcome.BETTER else "",
        allowance.text(name if name in NAMES else "ops"),
        f"{_range(new, text_of)}, and the baseline has {_range(old, text_of)}" if failed else "",
        grown_row(*(rows or (before, after))) or grown_row(before, after) if failed else "",
    )


def _way_to_count(
    before: Sequence[Quantity], after: Sequence[Quantity]
) -> tuple[Callable[[Quantity], float], str]:
    """Return how to compare: per step if there are steps, exactly if they are equally many."""
    steps = {len(quantity.by_step) for quantity in (*before, *after)}
    if 0 in steps:
        return (lambda quantity: float(quantity.total or 0)), ""
    if len(steps) == 1:
        return (lambda quantity: sum(quantity.later_steps) / len(quantity.later_steps)), " a step"
    return (lambda quantity: quantity.a_step or 0.0), " a step"


def grown_row(before: Sequence[Quantity], after: Sequence[Quantity]) -> str:
    """Name the row that grew most, and the next ones."""
    old, new = _by_row(before), _by_row(after)
    growth = {name: amount - old.get(name, 0.0) for name, amount in new.items()}
    # Forward operator and backward function grow alike: blame the forward's line.
    order = sorted(
        (name for name in growth if growth[name] > _NOT_WORTH_IT),
        key=lambda name: (-growth[name], name.startswith(ENGINE)),
    )
    if not order:
        return ""
    text_of = after[0].text
    per_step = " a step" if after[0].by_step else ""
    worst = order[0]
    more = [f"{name} +{text_of(_rounded(growth[name]))}" for name in order[1:_MORE_ROWS]]
    shares = [
        next((share for quantity in side for share in quantity.rows if share.name == worst), None)
        for side in (before, after)
    ]
    place = shares[1].new_place(shares[0]) if shares[1] is not None else ""
    return (
        f"{worst}{f' at {place}' if place else ''}: {text_of(_rounded(new[worst]))}{per_step}, "
        f"{text_of(_rounded(old.get(worst, 0.0)))} before{'; ' * bool(more)}{', '.join(more)}"
    )


def _by_row(side: Sequence[Quantity]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for quantity in side:
        steps = max(len(quantity.by_step), 1)
        for share in quantity.rows:
            sums[share.name] = sums.get(share.name, 0.0) + share.total / steps / len(side)
    return sums


def _rounded(value: float) -> float:
    return round(value) if value >= 10 else round(value, 1)


def _busy(
    name: str, before: Sequence[Quantity], after: Sequence[Quantity], allowance: Allowance
) -> Check:
    """Judge the devices' busy share in percentage points; less is worse."""
    words = after[0].words
    lacking = next((quantity for quantity in (*before, *after) if quantity.total is None), None)
    if lacking is not None:
        return Check(name, words, Outcome.UNKNOWN, why=lacking.why_not)
    old = [quantity.total or 0.0 for quantity in before]
    new = [quantity.total or 0.0 for quantity in after]
    fall = min(old) - max(new)
    failed = fall > allowance.amount + min(old) * allowance.share
    text_of = SHARE.text
    now, then = _range(new, text_of), _range(old, text_of)
    why = f"devices are busy {now} of the time, in the baseline {then}"
    return Check(
        name,
        words,
        Outcome.FAILED if failed else Outcome.PASSED,
        _range(old, text_of),
        _range(new, text_of),
        f"-{100 * fall:.1f} points" if fall > 0 else "",
        f"-{100 * (allowance.amount + allowance.share):.3g} points",
        why if failed else "",
    )


# ---- times


def _step_time(diff: Diff) -> Check:
    step = diff.step
    if not step.before_steps or not step.after_steps or "run" in (diff.before.unit, diff.unit):
        return Check(STEP_TIME, words_of(STEP_TIME), Outcome.UNKNOWN, why=_NO_STEPS)
    seen = step.difference / step.before if step.before else 0.0
    # The work may contradict the step times: then the interval covers both.
    widened = replace(step, change=seen, low=min(step.low, seen), high=max(step.high, seen))
    check = _timed(STEP_TIME, words_of(STEP_TIME), widened)
    grown = diff.difference_ns / diff.before_ns if diff.before_ns else 0.0
    if check.outcome is Outcome.FAILED and grown < step.least_effect:
        # The rows of a typical step must confirm it, which avoids false alarms.
        return replace(check, outcome=Outcome.PASSED, why="")
    return replace(check, guilty=_slower(diff)) if check.outcome is Outcome.FAILED else check


def _compared(before: Sequence[Trace], after: Sequence[Trace], allowance: Allowance) -> Diff:
    """Compare the two sides, with the allowance as the smallest change that matters."""
    medians = [float(np.median(ns)) for trace in before if len(ns := step_times(trace))]
    usual_ns = float(np.median(medians)) if medians else 0.0
    return diff_traces(before, after, least_effect=_least(allowance, usual_ns))


def _least(allowance: Allowance, usual_ns: float) -> float:
    return min(max(allowance.share_of(usual_ns), LEAST_EFFECT), 0.999)


def _slower(diff: Diff) -> str:
    """Name the work that takes longer, and its line."""
    row = diff.guilty
    if row is None:
        return ""
    new = " (new)" if row.status == NEW else ""
    text = f"{row.what}{new}: {signed(row.difference_ns)} a {diff.unit}"
    if row.before_count or row.after_count:
        count = COUNT.text
        text += f", {count(_rounded(row.after_count))} calls"
        text += f" and {count(_rounded(row.before_count))} before"
    line = next((table.rows[0] for table in diff.tables if table.by == "line" and table.rows), None)
    if line is not None and line.difference_ns > 0 and line.what != row.what:
        text += f"; by line {line.what}: {signed(line.difference_ns)}"
    return text


def _operator_time(
    name: str, before: Sequence[Trace], after: Sequence[Trace], allowance: Allowance
) -> Check:
    samples = [[operator_times(trace, name) for trace in side] for side in (before, after)]
    words = f"time of {name} a step"
    if not all(len(run) for side in samples for run in side):
        return Check(name, words, Outcome.UNKNOWN, why=_NO_STEPS)
    usual = compare_samples(*samples)
    least = _least(allowance, usual.before)
    check = _timed(name, words, compare_samples(*samples, least_effect=least))
    return replace(check, guilty=name) if check.outcome is Outcome.FAILED else check


def _timed(rule: str, words: str, comparison: Comparison) -> Check:
    outcome = {
        Verdict.SLOWER: Outcome.FAILED,
        Verdict.FASTER: Outcome.BETTER,
        Verdict.UNKNOWN: Outcome.UNKNOWN,
    }.get(comparison.verdict, Outcome.PASSED)
    change = f"{comparison.change:+.1%} ({comparison.low:+.1%} to {comparison.high:+.1%})"
    before, after = duration_text(comparison.before), duration_text(comparison.after)
    noise = ", noise" if comparison.verdict is Verdict.NOISE else ""
    why = {
        Outcome.FAILED: f"from {before} to {after}, {change}, p = {comparison.p:.2g}",
        Outcome.UNKNOWN: "; ".join(comparison.remarks[:1]),
    }
    return Check(
        rule,
        words,
        outcome,
        before,
        after,
        f"{change}{noise}",
        f"+{percent_text(comparison.least_effect)}",
        why.get(outcome, ""),
    )


# ---- limits


def _limit(
    name: str,
    after: Sequence[Trace],
    counted: Sequence[dict[str, Quantity]],
    bound: float,
    *,
    is_most: bool,
) -> Check:
    rule = f"{'max' if is_most else 'min'} {name}"
    allowed = f"{'at most' if is_most else 'at least'} {value_text(name, bound)}"
    if name == STEP_TIME:
        return _time_limit(rule, after, bound, allowed, is_most=is_most)
    asked = [quantity[name] for quantity in counted]
    lacking = next((quantity for quantity in asked if quantity.total is None), None)
    if lacking is not None:
        return Check(rule, words_of(name), Outcome.UNKNOWN, allowed=allowed, why=lacking.why_not)
    by_step = all(quantity.by_step for quantity in asked)
    each_word = " a step" if by_step else ""
    values = [(quantity.a_step if by_step else quantity.total) or 0.0 for quantity in asked]
    broken = min(values) > bound if is_most else max(values) < bound
    words = f"{asked[0].words}{each_word}"
    rows = asked[0].rows
    return Check(
        rule,
        words,
        Outcome.FAILED if broken else Outcome.PASSED,
        after=_range(values, asked[0].text),
        allowed=allowed,
        why=f"{_range(values, asked[0].text)}, and {allowed} is allowed" if broken else "",
        guilty=rows[0].words if broken and rows and is_most else "",
    )


def _time_limit(
    rule: str, after: Sequence[Trace], bound: float, allowed: str, *, is_most: bool
) -> Check:
    """Judge the step time; the rule is broken if most steps of every run exceed the bound."""
    medians = [float(np.median(ns)) for trace in after if len(ns := step_times(trace))]
    words = words_of(STEP_TIME)
    if not medians:
        return Check(rule, words, Outcome.UNKNOWN, allowed=allowed, why="no steps were recognised")
    broken = min(medians) > bound if is_most else max(medians) < bound
    medians_text = _range(medians, duration_text)
    why = f"a step takes {medians_text}, and {allowed} is allowed" if broken else ""
    outcome = Outcome.FAILED if broken else Outcome.PASSED
    return Check(rule, words, outcome, after=medians_text, allowed=allowed, why=why)


# ---- words


def _range(values: Sequence[float], text_of: Callable[[float], str]) -> str:
    low, high = min(values), max(values)
    return text_of(low) if low == high else f"{text_of(low)} to {text_of(high)}"


def _signed(change: float, text_of: Callable[[float], str]) -> str:
    return f"+{text_of(change)}" if change >= 0 else f"-{text_of(-change)}"


def _notes(before: Sequence[Trace], after: Sequence[Trace]) -> Iterator[str]:
    """Yield reasons why the two sides may not be comparable."""
    lost = sum(trace.info.losses.events for trace in (*before, *after))
    if lost:
        yield f"{lost:,} events were lost in recording: counts are too low"
    if not before:
        return
    old, new = before[0].info, after[0].info
    for name in sorted({*old.versions} & {*new.versions} - {"stepscope"}):
        if old.versions[name] != new.versions[name]:
            yield f"{name} is {new.versions[name]}, in the baseline {old.versions[name]}"
    if old.host and new.host and old.host != new.host:
        yield f"the baseline is from another machine ({old.host}, now {new.host}): times may differ"
