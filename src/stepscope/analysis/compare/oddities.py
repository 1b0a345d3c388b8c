"""What is odd about a run's step times: a warm-up, a drift, steps of two kinds."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.steps.steps import MOST_WARM_UP
from stepscope.trace.model import Float64

WARM_FACTOR = 1.2  # a first step that takes this many times the usual one is still warming up
# Relative change from the first to the last part of a run that is worth a remark.
LEAST_DRIFT = 0.05
LEAST_APART = 0.10  # relative distance of two kinds of steps that is worth a remark

_FEWEST = 20  # steps: fewer show no pattern
_CORRELATED = 0.2  # autocorrelation above which neighbours count as alike
_RANK_CORRELATION = 0.7  # of time and position: a drift
_SMALLEST_KIND = 0.15  # share of the steps
_CLEAR_SEPARATION = 4.0  # Ashman's D; above 2 two peaks can be told apart


def warm_up(times: Float64) -> int:
    """Return how many of the first steps are warm-up."""
    if len(times) < 4:
        return 0
    usual = float(np.median(times))
    slow = times > WARM_FACTOR * usual
    first = int(np.argmin(slow)) if not slow.all() else 0
    return first if first <= MOST_WARM_UP * len(times) else 0


def block_length(values: Float64) -> int:
    """Return how many neighbouring steps are correlated."""
    most = max(len(values) // 8, 1)
    low, high = np.percentile(values, [5, 95]) if len(values) else (0.0, 0.0)
    centred = np.clip(values, low, high)
    centred = centred - centred.mean() if len(centred) else centred
    power = float(centred @ centred)
    if power <= 0:
        return 1
    for lag in range(1, most):
        if float(centred[lag:] @ centred[:-lag]) / power < _CORRELATED:
            return lag
    return most


def oddities(times: Float64, unit: str = "step") -> list[str]:
    if len(times) < _FEWEST:
        return []
    return [remark for remark in (drift(times, unit), two_kinds(times, unit)) if remark]


def drift(times: Float64, unit: str = "step") -> str:
    """Describe how steps become longer or shorter over the run; empty if they do not."""
    parts = np.array([float(np.median(part)) for part in np.array_split(times, 10)])
    order = np.argsort(np.argsort(parts)).astype(np.float64)
    correlation = float(np.corrcoef(order, np.arange(10))[0, 1])
    begin, end = float(np.median(parts[:3])), float(np.median(parts[-3:]))
    if begin <= 0 or abs(correlation) < _RANK_CORRELATION or abs(end / begin - 1) < LEAST_DRIFT:
        return ""
    way = "longer" if end > begin else "shorter"
    return f"{unit}s become {way} during the run: {end / begin - 1:+.0%} from its start to its end"


def two_kinds(times: Float64, unit: str = "step") -> str:
    """Describe two distinct lengths of steps; empty if there is one peak."""
    values = np.sort(times)
    n = len(values)
    sums, squares = np.cumsum(values), np.cumsum(values**2)
    cut = np.arange(max(int(n * _SMALLEST_KIND), 2), n - max(int(n * _SMALLEST_KIND), 2))
    if not len(cut):
        return ""
    low, high = sums[cut - 1] / cut, (sums[-1] - sums[cut - 1]) / (n - cut)
    at = int(np.argmax(cut * (n - cut) * (high - low) ** 2))  # the most variance between them
    k, first, second = int(cut[at]), float(low[at]), float(high[at])
    inside = squares[k - 1] / k - first**2 + (squares[-1] - squares[k - 1]) / (n - k) - second**2
    apart = (2 / max(float(inside), 1e-300)) ** 0.5 * (second - first)
    if first <= 0 or apart < _CLEAR_SEPARATION or second / first - 1 < LEAST_APART:
        return ""
    share = (n - k) / n
    return (
        f"{unit}s are of two kinds: {1 - share:.0%} take about 1, {share:.0%} take "
        f"{second / first:.2g} times as long"
    )
