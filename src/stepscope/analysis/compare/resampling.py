"""How far two sides differ by chance: samples dealt and drawn anew, and Student's t."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import atan, comb, cos, erf, pi, sin, sqrt

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.compare.oddities import block_length

_MANY = 200  # degrees of freedom: from here on it is the normal distribution

Float64 = NDArray[np.float64]

# How much runs of one program differ where there are too few to tell: address layout, clock rates
# and other programs. This prior weighs as much as three runs.
RUN_SPREAD = 0.03

_PRIOR_RUNS = 3
_PERMUTATIONS = 3000
_DRAWS = 1000
_MOST_BLOCKS = 64


def logs(times: Float64) -> Float64:
    """Return logarithms, so that differences are relative; 0 counts as 1e-9 of the maximum."""
    floor = max(float(times.max()), 1e-300) * 1e-9
    logs: Float64 = np.log(np.maximum(times, floor))
    return logs


def blocks(values: Float64) -> Float64:
    """Return medians of blocks of neighbouring steps that are long enough to be independent."""
    length = max(block_length(values), -(-len(values) // _MOST_BLOCKS))
    whole = len(values) // length * length
    if length == 1 or not whole:
        return values
    return np.asarray(np.median(values[:whole].reshape(-1, length), axis=1))


def permuted(before: Float64, after: Float64, generator: np.random.Generator) -> float:
    """Test the difference of medians by permuting blocks between the sides.

    The mean, without outliers, has half a say: many ways to deal have the same medians.
    """
    values = np.concatenate([before, after])
    middle = float(np.median(values))
    far = 3 * float(np.median(np.abs(values - middle))) + 1e-12
    values = np.clip(values, middle - far, middle + far)
    n = len(before)
    dealt = values[np.argsort(generator.random((_PERMUTATIONS, len(values))), axis=1)]
    seen = _middle_difference(values[None, :n], values[None, n:])[0]
    as_large = int((_middle_difference(dealt[:, :n], dealt[:, n:]) >= seen - 1e-12).sum())
    return (1 + as_large) / (1 + _PERMUTATIONS)


def _middle_difference(before: Float64, after: Float64) -> Float64:
    shift = np.median(after, axis=1) - np.median(before, axis=1)
    return np.asarray(np.abs(shift + after.mean(axis=1) - before.mean(axis=1)) / 2)


def permuted_runs(before: Float64, after: Float64, generator: np.random.Generator) -> float:
    """Test by permuting whole runs whether one side has the higher medians.

    Their ranks are summed: one run in which the machine was busy counts no more than another.
    """
    values = np.concatenate([before, after])
    n, k = len(values), len(before)
    ranks = (values[:, None] > values).sum(1) + ((values[:, None] == values).sum(1) - 1) / 2
    ranks -= (n - 1) / 2
    is_exact = comb(n, k) <= _PERMUTATIONS
    if is_exact:
        chosen = np.array(list(combinations(range(n), k)))
    else:
        chosen = np.argsort(generator.random((_PERMUTATIONS, n)), axis=1)[:, :k]
    seen = abs(float(ranks[:k].sum()))
    as_large = int((np.abs(ranks[chosen].sum(axis=1)) >= seen - 1e-9).sum())
    return as_large / len(chosen) if is_exact else (1 + as_large) / (1 + len(chosen))


def t_test(before: Float64, after: Float64) -> float:
    """Test the difference of means of few runs, with a prior for their variance."""
    variance, free = _run_variance(before, after)
    error = (variance * (1 / len(before) + 1 / len(after))) ** 0.5
    return two_sided_p(abs(float(after.mean() - before.mean())) / error, free)


def _run_variance(before: Float64, after: Float64) -> tuple[float, int]:
    """Return the variance between runs of a side, with its degrees of freedom.

    What few runs show of it is not trusted alone: the prior has the weight of some runs.
    """
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in (before, after))
    free = len(before) + len(after) - 2 + _PRIOR_RUNS
    return (_PRIOR_RUNS * RUN_SPREAD**2 + squares) / free, free


def drawn_medians(runs: Sequence[Float64], generator: np.random.Generator) -> Float64:
    """Return medians of a side over runs that are drawn with replacement."""
    if len(runs) > 2:  # the medians' spread includes that of the steps
        of_runs = np.array([np.percentile(run, 50) for run in runs])
        medians = np.broadcast_to(logs(of_runs)[:, None], (len(runs), _DRAWS))
    else:
        medians = np.stack([_drawn_of_run(run, generator) for run in runs])
    picked = generator.integers(0, len(medians), (_DRAWS, len(medians)))
    return np.asarray(np.median(medians[picked, np.arange(_DRAWS)[:, None]], axis=1))


def _drawn_of_run(run: Float64, generator: np.random.Generator) -> Float64:
    values = blocks(logs(run))
    picks = generator.integers(0, len(values), (_DRAWS, len(values)))
    return np.asarray(np.median(values[picks], axis=1))


def two_sided_p(t: float, free: int = _MANY) -> float:
    """Return how often the absolute value is at least ``t`` (Abramowitz and Stegun 26.7.3, .4)."""
    if free >= _MANY:
        return max(1 - erf(t / sqrt(2)), 0.0)
    angle = atan(t / sqrt(free))
    term, total = 1.0, 0.0
    if free % 2:
        term = cos(angle)
        for i in range(1, free // 2 + 1):
            total += term
            term *= cos(angle) ** 2 * 2 * i / (2 * i + 1)
        within = 2 / pi * (angle + sin(angle) * total)
    else:
        for i in range(1, free // 2 + 1):
            total += term
            term *= cos(angle) ** 2 * (2 * i - 1) / (2 * i)
        within = sin(angle) * total
    return min(max(1 - within, 0.0), 1.0)


def two_sided_quantile(confidence: float, free: int = _MANY) -> float:
    """Return the value that the absolute one stays below with this probability."""
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        if two_sided_p(middle, free) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high
