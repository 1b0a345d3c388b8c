"""Numbers of devices over time: what was read of them while the program ran."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.shared import shared
from stepscope.analysis.steps.steps import steady_steps, step_table
from stepscope.trace.measures import measure
from stepscope.trace.model import Float64, Int64, Trace
from stepscope.units import COUNT, SHARE, TEXT

# What the counters are called, and the numbers in them.
POWER_CATEGORY = "gpu_power"
POWER, MILLIWATTS = "power", "mW"
ENERGY, MILLIJOULES = "energy", "mJ"
CLOCKS, SM_MHZ, MEMORY_MHZ = "clocks", "SM MHz", "memory MHz"
TEMPERATURE, CELSIUS = "temperature", "°C"
UTILISATION, BUSY_PERCENT, MEMORY_PERCENT = "utilisation", "device %", "memory %"
HELD_DOWN, BY_POWER, BY_HEAT, BY_HARDWARE = (
    *("clocks held down", "by power", "by heat"),
    "by the hardware",
)
LIMITS = "limits"

COUNTER_CATEGORY = "gpu_counters"
PERCENT = "%"

# Those worth a curve: the name and unit to show, and how much one of the unit is.
_CURVES = {
    (POWER_CATEGORY, POWER, MILLIWATTS): ("power", "W", 1e-3),
    (POWER_CATEGORY, CLOCKS, SM_MHZ): ("SM clock", "MHz", 1.0),
    (POWER_CATEGORY, TEMPERATURE, CELSIUS): ("temperature", "°C", 1.0),
    (POWER_CATEGORY, UTILISATION, BUSY_PERCENT): ("utilisation", "%", 1.0),
}
_ABSENT = -1


@dataclass(frozen=True, slots=True)
class DeviceCounter:
    """A number of a device over time."""

    name: str
    unit: str
    track: int  # of the device
    time_ns: Int64
    values: Float64


class Readings:
    """The values that were read of one device, in one category."""

    def __init__(self, trace: Trace, rows: Int64) -> None:
        self._trace, self._rows = trace, rows
        self._names = trace.marks.name[rows]
        used = np.unique(self._names).tolist()
        self._ids = {trace.strings[i]: i for i in used}

    @property
    def names(self) -> list[str]:
        return list(self._ids)

    def of(self, counter: str, key: str) -> tuple[Int64, Int64]:
        """Return the times and values of one counter, in order."""
        marks = self._trace.marks
        rows = self._rows[self._names == self._ids.get(counter, _ABSENT)]
        values = marks.args.dense(key, len(marks), _ABSENT)[rows]
        rows, values = rows[values != _ABSENT], values[values != _ABSENT]
        order = np.argsort(marks.time_ns[rows], kind="stable")
        return marks.time_ns[rows][order], values[order]


def readings_of(trace: Trace, category: str) -> Iterator[tuple[int, Readings]]:
    """Yield the track and the readings of each device."""
    marks = trace.marks
    if not len(marks):
        return
    category_id = trace.strings.ids_of([category]).get(category, _ABSENT)
    rows = np.flatnonzero(marks.category == category_id)
    for track in np.unique(marks.track[rows]).tolist():
        yield track, Readings(trace, rows[marks.track[rows] == track])


def device_counters(trace: Trace) -> list[DeviceCounter]:
    """Return the counters that are worth a curve."""
    counters = []
    for (category, counter, key), (name, unit, scale) in _CURVES.items():
        for track, readings in readings_of(trace, category):
            time_ns, values = readings.of(counter, key)
            if len(time_ns):
                counters.append(
                    DeviceCounter(name, unit, track, time_ns, np.multiply(values, scale))
                )
    for track, readings in readings_of(trace, COUNTER_CATEGORY):
        for counter in readings.names:
            time_ns, values = readings.of(counter, PERCENT)
            counters.append(
                DeviceCounter(counter, PERCENT, track, time_ns, np.multiply(values, 1.0))
            )
    return counters


@dataclass(frozen=True, slots=True)
class CounterMean:
    """A hardware counter of a device in the steady steps, or in the run where there are none."""

    device: str = measure("Device", TEXT)
    name: str = measure("Counter", TEXT)
    mean: float = measure("On average", SHARE, "Share of what the device can do")
    most: float = measure("At most", SHARE, "Of any sample")
    samples: int = measure("Samples", COUNT)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@shared
def counter_means(trace: Trace) -> tuple[CounterMean, ...]:
    """Return the hardware counters of each device, if any were recorded."""
    all_readings = list(readings_of(trace, COUNTER_CATEGORY))
    if not all_readings:
        return ()
    window, _ = counted_time(trace)
    means = []
    for track, readings in all_readings:
        for name in readings.names:
            time_ns, values = readings.of(name, PERCENT)
            mean = mean_over(time_ns, values, window, 0.01)
            if mean is None:
                continue
            inside = values[window.contain(time_ns)]
            most = float((inside if len(inside) else values).max()) / 100
            device = trace.tracks[track].pid
            means.append(CounterMean(device, name, mean, most, len(time_ns)))
    return tuple(means)


def counted_time(trace: Trace) -> tuple[Intervals, int]:
    """Return the time of the steady steps and their number; without steps, the run and 0."""
    steps, steady = step_table(trace), steady_steps(trace)
    if len(steps) and steady.any():
        return union(steps.start_ns[steady], steps.end_ns[steady]), int(steady.sum())
    ends = np.array([trace.info.start_ns]), np.array([trace.info.end_ns])
    return union(*ends), 0


def mean_over(times: Int64, values: Int64, window: Intervals, scale: float = 1.0) -> float | None:
    """Return the mean over a window; each value stands for the time until the next."""
    if not len(times):
        return None
    until = np.append(times[1:], max(int(window.end_ns[-1]) if len(window) else 0, times[-1] + 1))
    weight = window.covered(times, until)
    if not weight.sum():
        return float(values.mean()) * scale
    return float((values * weight).sum() / weight.sum()) * scale
