"""Where a series of measurements changes for good: E-divisive, with a permutation test.

The energy distance between what is before a point and what is after it is largest at a change; a
point is one when shuffled values seldom come to such a distance (Matteson and James, "A
Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data", 2014). The parts
are searched again. It assumes nothing of how measurements are distributed, and a few odd ones do
not make a change.

It is written here because it is forty lines: the libraries that have it bring SciPy, a compiler or
a service along, or are no longer kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stepscope.trace.model import Float64

ALPHA = 0.05  # how often a series without a change may be said to have one
FEWEST = 3  # on each side of a change; fewer measurements may be outliers
LEAST_EFFECT = 0.01  # a smaller relative change is of no interest
MOST = 400  # only the last measurements count: time and memory grow with their square

_SHUFFLES = 199


@dataclass(frozen=True, slots=True)
class ChangePoint:
    at: int  # the first measurement after it
    before: float  # the median of the part before, and after
    after: float
    p: float

    @property
    def change(self) -> float:
        """Return the relative change: 0.05 is 5 % more."""
        return self.after / self.before - 1 if self.before else 0.0


def change_points(
    values: Sequence[float], *, least_effect: float = LEAST_EFFECT, seed: int = 0
) -> list[ChangePoint]:
    """Return where a series changes, in order; positive values are compared by ratio."""
    series = np.asarray(values, np.float64)
    skipped = max(len(series) - MOST, 0)
    series = series[skipped:]
    scaled = np.log(series) if len(series) and (series > 0).all() else series
    generator = np.random.default_rng(seed)
    cuts: dict[int, float] = {}
    waiting = [(0, len(scaled))]
    while waiting:
        begin, end = waiting.pop()
        strongest = _strongest(scaled[begin:end], generator)
        if strongest is not None:
            at, p = begin + strongest[0], strongest[1]
            cuts[at] = p
            waiting += [(begin, at), (at, end)]
    return _relevant_changes(series, cuts, skipped, least_effect)


def _relevant_changes(
    series: Float64, cuts: dict[int, float], skipped: int, least_effect: float
) -> list[ChangePoint]:
    """Return the changes that are large enough; the others no longer divide the series."""
    at = sorted(cuts)
    while True:
        bounds = [0, *at, len(series)]
        parts = [series[a:b] for a, b in pairwise(bounds)]
        middle = [float(np.median(part)) if len(part) else 0.0 for part in parts]
        changes = [
            ChangePoint(skipped + cut, middle[i], middle[i + 1], cuts[cut])
            for i, cut in enumerate(at)
        ]
        small = [change for change in changes if abs(change.change) < least_effect]
        if not small:
            return changes
        at.remove(min(small, key=lambda change: abs(change.change)).at - skipped)


def _strongest(values: Float64, generator: np.random.Generator) -> tuple[int, float] | None:
    """Return where a part changes most and the p value; None if chance does as much."""
    if len(values) < 2 * FEWEST:
        return None
    apart = np.abs(values[:, None] - values)
    if not apart.any():
        return None
    at, strength = _best_split(apart)
    stronger = 0
    for _ in range(_SHUFFLES):
        order = generator.permutation(len(values))
        stronger += _best_split(apart[np.ix_(order, order)])[1] >= strength - 1e-12
    p = (1 + stronger) / (1 + _SHUFFLES)
    return (at, p) if p <= ALPHA else None


def _best_split(apart: Float64) -> tuple[int, float]:
    """Return the split with the largest energy distance, and that distance."""
    count = len(apart)
    # The sums of the distances before each point, and after it.
    before = np.cumsum(np.tril(apart).sum(1))
    after = np.cumsum(np.triu(apart).sum(1)[::-1])[::-1]
    n = np.arange(FEWEST, count - FEWEST + 1)
    m = count - n
    within_before, within_after = before[n - 1], after[n]
    between = before[-1] - within_before - within_after
    distance = (
        2 * between / (n * m) - 2 * within_before / (n * (n - 1)) - 2 * within_after / (m * (m - 1))
    )
    strength = distance * n * m / count
    best = int(np.argmax(strength))
    return int(n[best]), float(strength[best])
