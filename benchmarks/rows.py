"""A row of the result table. A bar holds, or is missed, only when the whole interval says so."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from estimate import Estimate, mean_of, ratio_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Verdict(StrEnum):
    """What the interval says about the bar."""

    HOLDS = "holds"
    MISSED = "MISSED"
    UNDECIDED = "undecided"  # the bar lies within the interval
    NO_BAR = ""  # shown for information


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured, ours, the peer's, their ratio with its interval, the bar, the verdict."""

    what: str
    ours: str
    peer: str
    ratio: str
    bar: str
    verdict: Verdict
    judged: Estimate | None = None  # what was held against the bar


def share_row(
    what: str,
    ours: Sequence[float],
    peer: Sequence[float],
    beside: str,
    at_most: float | None,
    *,
    show: Callable[[float], str] | None = None,
) -> Row:
    """Compare ours with a peer that it costs a share of: the smaller the better."""
    ratio, show = ratio_of(ours, peer), show or seconds
    return Row(
        what,
        show(mean_of(ours).value),
        f"{beside} {show(mean_of(peer).value)}",
        f"{_figure(ratio.value)} × {_interval(ratio, _figure)}",
        "" if at_most is None else f"≤ {_figure(at_most)} ×",
        _verdict(ratio, at_most),
        ratio,
    )


def faster_row(
    what: str,
    ours: Sequence[float],
    peer: Sequence[float],
    beside: str,
    at_least: float | None,
) -> Row:
    """Compare times with a peer that it is so many times faster than: the larger the better."""
    ratio = ratio_of(peer, ours)
    slower = Estimate(-ratio.value, -ratio.high, -ratio.low)
    return Row(
        what,
        seconds(mean_of(ours).value),
        f"{beside} {seconds(mean_of(peer).value)}",
        f"{_figure(ratio.value)} × faster {_interval(ratio, _figure)}",
        "" if at_least is None else f"≥ {_figure(at_least)} ×",
        _verdict(slower, None if at_least is None else -at_least),
        ratio,
    )


def limit_row(
    what: str,
    ours: Sequence[float],
    at_most: float,
    show: Callable[[float], str] | None = None,
    *,
    peer: str = "",
    ratio: str = "",
) -> Row:
    """Hold a figure of ours against a limit of its own; the peer's is shown for information.

    A time can be missed only where the machine is ours: programs beside it only ever lengthen it.
    """
    value, show, is_time = mean_of(ours), show or seconds, show is None
    verdict = _verdict(value, at_most)
    if is_time and verdict is Verdict.MISSED and busy():
        verdict = Verdict.UNDECIDED
    shown = f"{show(value.value)} {_interval(value, show)}"
    return Row(what, shown, peer, ratio, f"≤ {show(at_most)}", verdict, value)


def exact_row(what: str, ours: str, peer: str, bar: str, holds: bool) -> Row:
    """Return the row of what is counted and not estimated."""
    return Row(what, ours, peer, "", bar, Verdict.HOLDS if holds else Verdict.MISSED)


def note_row(what: str, why_not: str) -> Row:
    """Return the row of what could not be measured, and why."""
    return Row(what, "not measured", why_not, "", "", Verdict.NO_BAR)


def busy() -> bool:
    """Tell whether programs beside this one want the cores."""
    return os.getloadavg()[0] > 1 + (os.cpu_count() or 1) / 4


def seconds(value: float) -> str:
    """Return a time with the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.0f} ns"


def megabytes(value: float) -> str:
    """Return a size in MB."""
    return f"{value / 1e6:.3g} MB" if value < 1e8 else f"{value / 1e6:.0f} MB"


def _figure(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def _interval(of: Estimate, show: Callable[[float], str]) -> str:
    return f"({show(of.low)} to {show(of.high)})"


def _verdict(of: Estimate, at_most: float | None) -> Verdict:
    if at_most is None:
        return Verdict.NO_BAR
    if of.high <= at_most:
        return Verdict.HOLDS
    return Verdict.MISSED if of.low > at_most else Verdict.UNDECIDED
