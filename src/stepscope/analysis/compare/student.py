"""Student's t distribution for whole degrees of freedom, in closed form."""

from __future__ import annotations

from math import atan, cos, erf, pi, sin, sqrt

_MANY = 200  # degrees of freedom: from here on it is the normal distribution


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
