"""Samples of hardware counters as columns of a Trace, on the recorder's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.device.counters import COUNTER_CATEGORY, PERCENT
from stepscope.frameworks.cuda.counters import NOT_TOLD, Counter, counters_captured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.trace.model import Int64
    from stepscope.trace.schema import Captured

_THOUSANDTHS = 1_000
LONG_NS, MOST_DRIFT = 100_000_000, 0.05
"""Over this time the ends of a recording tell the rate of a clock to some percent."""


def counters_captured_of(
    columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Captured | None:
    """Build the columns: a counter in whole % for each that a device has."""
    counters = []
    for device in devices:
        rows = np.flatnonzero(columns["device"] == device["number"])
        if not len(rows) or device["obstacle"]:
            continue
        start_ns, end_ns = columns["start_ns"][rows], columns["end_ns"][rows]
        if len(rows) > 1:  # the device lets the first begin long before
            start_ns = np.append(
                max(start_ns[0], end_ns[0] - end_ns[1] + start_ns[1]), start_ns[1:]
            )
        time_ns = on_our_clock(start_ns, device["bounds"])
        for i, (name, metric) in enumerate(zip(names, device["metrics"], strict=True)):
            if not metric:
                continue
            values = columns[f"counter{i}"][rows]
            percent = np.where(values < 0, NOT_TOLD, (values + _THOUSANDTHS // 2) // _THOUSANDTHS)
            counters.append(Counter(name, device["number"], time_ns, {PERCENT: percent}))
    return counters_captured(counters, COUNTER_CATEGORY) if counters else None


def on_our_clock(device_ns: Int64, bounds: Sequence[tuple[int, int, int]]) -> Int64:
    """Return moments of the device's clock on ours.

    Each bound is a moment of the device's, and two of ours between which it lies. The clocks of
    some machines count something else than ns: then the first and the last bound tell the rate.
    Where bounds contradict each other, the clocks drift: the middle is as good as any.
    """
    known = [bound for bound in bounds if bound[0]]
    if not known:
        return device_ns
    (first, *our_first), (last, *our_last) = known[0], known[-1]
    begin, end = sum(our_first) // 2, sum(our_last) // 2
    rate = (end - begin) / (last - first) if last - first >= LONG_NS else 1.0
    if abs(rate - 1) > MOST_DRIFT:
        return begin + ((device_ns - first) * rate).astype(np.int64)
    least = max(from_ns - moment for moment, from_ns, _ in known)
    most = min(to_ns - moment for moment, _, to_ns in known)
    return device_ns + (least + most) // 2
