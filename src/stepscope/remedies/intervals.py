"""Gains with intervals, from windows that were timed in turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median
from typing import NamedTuple

_FEWEST = 5
_STEADY_SHARE = 0.6  # a program must be steady after this share of its windows


class Gain(NamedTuple):
    """How many times as fast, and the interval of it."""

    ratio: float
    low: float
    high: float
    windows: int

    def to_json(self) -> dict[str, float | None]:
        """Return the gain as plain data, for which an interval has an end or none."""
        high = self.high if math.isfinite(self.high) else None
        return {"ratio": self.ratio, "low": self.low, "high": high, "windows": self.windows}


NO_GAIN = Gain(1.0, 0.0, math.inf, 0)


def gain(before: Sequence[float], after: Sequence[float], level: float = 0.95) -> Gain:
    """Return how many times as fast ``after`` is, from windows of the same steps.

    The estimate is Hodges and Lehmann's, the interval Wilcoxon's: a window in which another program
    took the machine moves neither of them far.
    """
    ratios = [math.log(x / y) for x, y in zip(before, after, strict=False) if x > 0 and y > 0]
    count = len(ratios)
    if count < _FEWEST:
        return NO_GAIN._replace(ratio=math.exp(median(ratios)) if ratios else 1.0, windows=count)
    means = sorted((ratios[i] + ratios[j]) / 2 for i in range(count) for j in range(i, count))
    quantile = NormalDist().inv_cdf(0.5 + level / 2)
    half = quantile * math.sqrt(count * (count + 1) * (2 * count + 1) / 24) + 0.5
    rank = math.floor(len(means) / 2 - half)
    if rank < 0:  # too few windows for this level: no finite interval covers
        return Gain(math.exp(median(means)), 0.0, math.inf, count)
    low, high = means[rank], means[-1 - rank]
    return Gain(math.exp(median(means)), math.exp(low), math.exp(high), count)


def steady_from(before: Sequence[float], after: Sequence[float]) -> int:
    """Return the first window from which on the ratio of two programs is as in the second half."""
    ratios = [math.log(x / y) for x, y in zip(before, after, strict=False) if x > 0 and y > 0]
    count = len(ratios)
    late = ratios[count // 2 :]
    if not late:
        return 0
    middle = median(late)
    spread = median(abs(ratio - middle) for ratio in late)
    limit = middle - max(3 * spread, 0.1)
    first = next((place for place, ratio in enumerate(ratios) if ratio >= limit), 0)
    return min(first, int(count * _STEADY_SHARE))
