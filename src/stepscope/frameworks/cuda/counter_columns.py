"""Samples of hardware counters as columns of a Trace, on the recorder's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.device.counters import COUNTER_CATEGORY, PERCENT
from stepscope.frameworks.cuda.counters import NOT_TOLD, Counter, counters_captured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.trace.schema import Captured

_THOUSANDTHS = 1_000


def counters_captured_of(
    columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Captured | None:
    """Build the columns: a counter in whole % for each that a device has."""
    counters = []
    for device in devices:
        rows = np.flatnonzero(columns["device"] == device["number"])
        if not len(rows) or device["obstacle"]:
            continue
        shift_ns = clock_shift(device["bounds"])
        for i, (name, metric) in enumerate(zip(names, device["metrics"], strict=True)):
            if not metric:
                continue
            values = columns[f"counter{i}"][rows]
            percent = np.where(values < 0, NOT_TOLD, (values + _THOUSANDTHS // 2) // _THOUSANDTHS)
            time_ns = columns["start_ns"][rows] + shift_ns
            counters.append(Counter(name, device["number"], time_ns, {PERCENT: percent}))
    return counters_captured(counters, COUNTER_CATEGORY) if counters else None


def clock_shift(bounds: Sequence[tuple[int, int, int]]) -> int:
    """Return what to add to the device's clock to get ours.

    Each bound is a moment of the device's, and two of ours between which it lies. Where they
    contradict each other, the clocks drift: the middle is as good as any.
    """
    known = [bound for bound in bounds if bound[0]]
    if not known:
        return 0
    least = max(from_ns - device_ns for device_ns, from_ns, _ in known)
    most = min(to_ns - device_ns for device_ns, _, to_ns in known)
    return (least + most) // 2
