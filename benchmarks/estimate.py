"""A figure with the interval that it is known to: a bootstrap over processes.

Where the loader happens to put the libraries moves the cost of an operator by a factor, and stays
for the life of a process. So a process is one observation, however many blocks it timed, and the
interval comes from drawing processes again. Of two or three observations it is their range.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

RESAMPLES = 20_000
TAIL = 0.025  # on each side of a 95 % interval


class Estimate(NamedTuple):
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float

    def overlap(self, other: Estimate) -> float:
        """Return which share of the narrower interval both have in common; below 0: a gap."""
        common = min(self.high, other.high) - max(self.low, other.low)
        narrower = min(self.high - self.low, other.high - other.low)
        return common / narrower if narrower else float(common >= 0)


def ratio_of(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Return the ratio of the means; the nth of both were measured together.

    The mean is taken before the ratio: a process whose lower figure is by accident near zero then
    weighs no more than another.
    """
    drawn = np.random.default_rng(0).integers(0, len(above), (RESAMPLES, len(above)))
    tops, bottoms = (np.asarray(item, dtype=float)[drawn].sum(axis=1) for item in (above, below))
    ratios = np.divide(tops, bottoms, out=np.full(RESAMPLES, np.inf), where=bottoms > 0)
    tail = _tail(len(above))
    low, high = np.quantile(ratios, (tail, 1 - tail), method="nearest")
    value = sum(above) / sum(below) if sum(below) > 0 else np.inf
    return Estimate(float(value), float(low), float(high))


def mean_of(values: Sequence[float]) -> Estimate:
    """Return the mean."""
    return ratio_of(values, [1.0] * len(values))


def _tail(count: int) -> float:
    """Return what to cut off on each side: less of few, which a bootstrap takes for too certain.

    Hesterberg's expanded percentile interval, with Cornish and Fisher's Student quantile.
    """
    if count < 2:
        return TAIL
    z, free = -NormalDist().inv_cdf(TAIL), count - 1
    student = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    return NormalDist().cdf(-student * math.sqrt(count / free))
