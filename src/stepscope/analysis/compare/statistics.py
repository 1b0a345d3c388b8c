"""Is the difference between two sets of step times real, or noise?

A side is one or several runs, a run the times of its steps in their order. Neighbouring steps are
alike (the machine is busy for a while), and so are the steps of one run (its memory lies where it
lies): neither are independent samples. So steps are drawn in blocks, and with several runs a side
it is the runs that are compared, each by its median.

Everything is deterministic: the same samples and seed give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import comb, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepscope.analysis.compare.change_points import LEAST_EFFECT
from stepscope.analysis.compare.oddities import oddities, warm_up
from stepscope.analysis.compare.resampling import (
    RUN_SPREAD,
    blocks,
    drawn_medians,
    logs,
    permuted,
    permuted_runs,
    t_test,
    two_sided_quantile,
)
from stepscope.trace.model import Float64

ALPHA = 0.01  # how often an unchanged program may be called changed
CONFIDENCE = 0.95  # of the interval of the change
# With one run a side, a smaller change is not reported: whole runs differ by several percent.
SINGLE_RUN_EFFECT = 0.10
FEWEST_STEPS = 5  # fewer steps on a side say nothing about how much they vary

_FEWEST_LABELINGS = round(2 / ALPHA)  # ways to assign runs to sides; with fewer no p is below ALPHA
_AGREEING = 0.5  # the lower quartile must change by this share of the median's change
_APART = 1.25  # factor by which faster steps must be slower to rule out noise
_LOWER = 25  # the percentile that other work of the machine hardly touches


class Verdict(Enum):
    """The conclusion about the change."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"  # any change is smaller than the least one that matters
    NOISE = "noise"  # the difference is within what the samples vary by
    UNKNOWN = "unknown"  # too few steps, or one run a side

    @property
    def is_real(self) -> bool:
        return self in (Verdict.SLOWER, Verdict.FASTER)


class Test(Enum):
    """The test that gave the p value."""

    __test__ = False  # for pytest: it is none of its tests

    RUNS = "permutation of runs"
    FEW_RUNS = "t test over runs"
    BLOCKS = "permutation of blocks of steps"
    WORK = "permutation of runs, by the work in a step"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two sides differ; times are those of a median step, in the unit of the samples.

    The change is relative: 0.05 is 5 % more. ``remarks`` say what is odd about the samples and
    what they cannot tell.
    """

    before: float
    after: float
    change: float
    low: float  # of the interval of the change
    high: float
    p: float  # probability of such a difference in an unchanged program
    verdict: Verdict
    test: Test
    before_runs: int
    after_runs: int
    before_steps: int
    after_steps: int
    least_effect: float = LEAST_EFFECT
    remarks: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        """Return by how much a step has become longer."""
        return self.after - self.before

    @property
    def is_real(self) -> bool:
        return self.verdict.is_real

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "is_real": self.is_real,
            "before": self.before,
            "after": self.after,
            "difference": self.difference,
            "change": self.change,
            "interval": [self.low, self.high],
            "confidence": CONFIDENCE,
            "p": self.p,
            "test": self.test.value,
            "least_effect": self.least_effect,
            "runs": [self.before_runs, self.after_runs],
            "steps": [self.before_steps, self.after_steps],
            "remarks": list(self.remarks),
        }


def compare_samples(
    before: Iterable[ArrayLike],
    after: Iterable[ArrayLike],
    *,
    least_effect: float = LEAST_EFFECT,
    alpha: float = ALPHA,
    seed: int = 0,
    unit: str = "step",
) -> Comparison:
    """Compare the step times of some runs with those of others.

    Each run is a sequence of step times in their order; start-up is recognised and left out.
    """
    if not 0 <= least_effect < 1:
        raise ValueError(
            f"least_effect is {least_effect!r}; give a fraction below 1, such as 0.01 for 1 %"
        )
    sides = (_side(before, unit), _side(after, unit))
    generator = np.random.default_rng(seed)
    measured = _measured(sides, least_effect)
    if min(measured.before_steps, measured.after_steps) < FEWEST_STEPS or measured.before <= 0:
        return measured
    p, test = _p_value(sides, generator)
    low, high = _interval(sides, generator)
    comparison = replace(measured, p=p, test=test, low=low, high=high)
    return replace(
        comparison, verdict=_verdict(comparison, sides, alpha), remarks=_remarks(comparison, sides)
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p values for their number: of the smallest ones, few are small by chance (Holm)."""
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min((len(p_values) - rank) * p_values[i], 1.0))
        adjusted[i] = largest
    return adjusted


def corrected(comparisons: Sequence[Comparison], alpha: float = ALPHA) -> list[Comparison]:
    """Return comparisons with corrected p values, and verdicts that still hold."""
    adjusted = holm([comparison.p for comparison in comparisons])
    return [
        replace(
            comparison,
            p=p,
            verdict=Verdict.NOISE if comparison.is_real and p > alpha else comparison.verdict,
        )
        for comparison, p in zip(comparisons, adjusted, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Side:
    """The runs of one side without warm-up, and notes about them."""

    runs: tuple[Float64, ...]
    notes: tuple[str, ...]

    @property
    def steps(self) -> int:
        return sum(len(run) for run in self.runs)

    def at(self, percent: float) -> Float64:
        """Return a percentile of each run's steps."""
        return np.array([np.percentile(run, percent) for run in self.runs])

    @property
    def median(self) -> float:
        return float(np.median(self.at(50))) if self.runs else 0.0


def _side(runs: Iterable[ArrayLike], unit: str) -> _Side:
    kept_runs, notes = [], []
    for number, given in enumerate(runs):
        times = np.asarray(given, np.float64).reshape(-1)
        if not np.isfinite(times).all():
            raise ValueError(f"run {number} has a {unit} whose time is not a number")
        first = warm_up(times)
        if first:
            notes.append(f"the first {first} {unit}s warm up and are left out")
        if len(times):
            kept_runs.append(times[first:])
            notes.extend(oddities(times[first:], unit))
    return _Side(tuple(kept_runs), _counted(notes, len(kept_runs)))


def _counted(notes: list[str], runs: int) -> tuple[str, ...]:
    """Say each note once, with the number of runs that it is true of."""
    if runs == 1:
        return tuple(notes)
    alike: dict[str, list[str]] = {}
    for note in notes:
        alike.setdefault(note.partition(":")[0] if ":" in note else note, []).append(note)
    return tuple(f"{same[0]} ({len(same)} of {runs} runs)" for same in alike.values())


def _measured(sides: tuple[_Side, _Side], least_effect: float) -> Comparison:
    """Return a comparison with everything that needs no test."""
    before, after = (side.median for side in sides)
    change = after / before - 1 if before > 0 else 0.0
    few = f"there are fewer than {FEWEST_STEPS} steps on a side: too few to tell how they vary"
    return Comparison(
        *(before, after, change, change, change, 1.0, Verdict.UNKNOWN, Test.NONE),
        *(len(sides[0].runs), len(sides[1].runs), sides[0].steps, sides[1].steps),
        least_effect,
        (few,),
    )


def _p_value(sides: tuple[_Side, _Side], generator: np.random.Generator) -> tuple[float, Test]:
    counts = [len(side.runs) for side in sides]
    if min(counts) < 2:
        parts = [np.concatenate([blocks(logs(run)) for run in side.runs]) for side in sides]
        return permuted(parts[0], parts[1], generator), Test.BLOCKS
    both = logs(np.concatenate([side.at(50) for side in sides]))
    before, after = both[: counts[0]], both[counts[0] :]
    if comb(sum(counts), counts[0]) >= _FEWEST_LABELINGS:
        return permuted_runs(before, after, generator), Test.RUNS
    return t_test(before, after), Test.FEW_RUNS


def _interval(sides: tuple[_Side, _Side], generator: np.random.Generator) -> tuple[float, float]:
    """Return the bootstrap interval of the change; few runs are drawn as blocks of steps."""
    drawn = [drawn_medians(side.runs, generator) for side in sides]
    shifts = drawn[1] - drawn[0]
    point = log(sides[1].median / sides[0].median) if sides[1].median > 0 else -np.inf
    runs = [len(side.runs) for side in sides]
    stretch = 1.0
    if min(runs) >= 2:
        # A few draws from a few runs vary less than the runs themselves do.
        few = min(runs)
        stretch = (few / (few - 1)) ** 0.5
        stretch *= two_sided_quantile(CONFIDENCE, sum(runs) - 2) / two_sided_quantile(CONFIDENCE)
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile((shifts - np.median(shifts)) * stretch, [tail, 100 - tail])
    return float(np.expm1(point + low)), float(np.expm1(point + high))


def _verdict(comparison: Comparison, sides: tuple[_Side, _Side], alpha: float) -> Verdict:
    within = max(abs(comparison.low), abs(comparison.high)) <= comparison.least_effect
    if within:
        return Verdict.SAME
    is_shown = (
        comparison.p < alpha
        and not comparison.low <= 0 <= comparison.high
        and _agrees(comparison, sides)
    )
    if not (is_shown or _is_clear(comparison, sides)):
        is_large = comparison.p < alpha and abs(comparison.change) >= SINGLE_RUN_EFFECT
        return Verdict.UNKNOWN if is_large else Verdict.NOISE
    if abs(comparison.change) < comparison.least_effect:
        return Verdict.NOISE
    if comparison.test is Test.BLOCKS and abs(comparison.change) < SINGLE_RUN_EFFECT:
        return Verdict.UNKNOWN
    return Verdict.SLOWER if comparison.change > 0 else Verdict.FASTER


def _agrees(comparison: Comparison, sides: tuple[_Side, _Side]) -> bool:
    """Tell whether the faster steps changed like the median.

    Other work of the machine makes some steps slower; a slower program all of them.
    """
    before, after = (float(np.median(side.at(_LOWER))) for side in sides)
    change = after / before - 1 if before > 0 else 0.0
    return change / comparison.change >= _AGREEING if comparison.change else True


def _is_clear(comparison: Comparison, sides: tuple[_Side, _Side]) -> bool:
    """Tell whether the faster steps of every run lie apart from those of the other side.

    However much a busy machine makes the others vary.
    """
    slow, fast = (side.at(_LOWER) for side in (sides if comparison.change < 0 else sides[::-1]))
    return bool(float(np.min(slow)) >= _APART * float(np.max(fast)))


def _remarks(comparison: Comparison, sides: tuple[_Side, _Side]) -> tuple[str, ...]:
    remarks = []
    if min(comparison.before_runs, comparison.after_runs) == 1:
        remarks.append(
            "with one run per side, a change in the program cannot be told from the variation "
            "between runs: record each side five times, alternating between them"
        )
    elif comparison.test is Test.FEW_RUNS:
        remarks.append(
            f"{comparison.before_runs} and {comparison.after_runs} runs say little about how much "
            f"runs differ: {RUN_SPREAD:.0%} is assumed in addition; with five per side, no "
            "assumption is needed"
        )
    for word, side in zip(("before", "after"), sides, strict=True):
        remarks.extend(f"{word}: {note}" for note in side.notes)
    return tuple(remarks)
