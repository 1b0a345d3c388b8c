"""Power, clocks and temperature of devices: over the steps, and the energy of each.

A reading stands for the time until the next one. Energy is what the device counted itself. Where
it does not, or its counter moved too seldom to tell, it is what the power adds up to.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stepscope.analysis.base.intervals import Intervals
from stepscope.analysis.base.shared import shared
from stepscope.analysis.device.counters import (
    BUSY_PERCENT,
    BY_HARDWARE,
    BY_HEAT,
    BY_POWER,
    CELSIUS,
    CLOCKS,
    ENERGY,
    HELD_DOWN,
    LIMITS,
    MEMORY_MHZ,
    MEMORY_PERCENT,
    MILLIJOULES,
    MILLIWATTS,
    POWER,
    POWER_CATEGORY,
    SM_MHZ,
    TEMPERATURE,
    UTILISATION,
    Readings,
    counted_time,
    mean_over,
    readings_of,
)
from stepscope.trace.measures import Shown, measure
from stepscope.trace.model import Float64, Int64, Trace
from stepscope.units import COUNT, DEGREES, JOULES, MEGAHERTZ, SHARE, TEXT, TIME, WATTS

# The energy counter must have moved this often for its ends to be known to a few percent.
MIN_MOVES = 20


@dataclass(frozen=True, slots=True)
class DevicePower:
    """What a device took in the steady steps, or in the run where there are none.

    None: the device does not tell.
    """

    device: str = measure("Device", TEXT)
    readings: int = measure("Readings", COUNT, shown=Shown.DATA)
    over_ns: int = measure("Over", TIME, shown=Shown.DATA)
    steps: int = measure("Steps", COUNT, "0: over the run", shown=Shown.DATA)
    mean_watts: float | None = measure("Power", WATTS)
    most_watts: float | None = measure("Most", WATTS)
    limit_watts: float | None = measure("Limit", WATTS)
    joules: float | None = measure("Energy", JOULES)
    joules_per_step: float | None = measure("A step", JOULES)
    joules_by: str = measure("By", TEXT, "The device's counter, or its power", shown=Shown.DATA)
    mean_sm_mhz: float | None = measure("SM clock", MEGAHERTZ)
    least_sm_mhz: float | None = measure("Lowest", MEGAHERTZ)
    most_sm_mhz: float | None = measure("It can", MEGAHERTZ)
    mean_memory_mhz: float | None = measure("Memory clock", MEGAHERTZ)
    most_celsius: float | None = measure("Hottest", DEGREES)
    busy_share: float | None = measure("Busy", SHARE, "Of the time, in which some kernel ran")
    memory_share: float | None = measure("Memory busy", SHARE)
    held_by_power: float | None = measure("Held by power", SHARE, "Time with lowered clocks")
    held_by_heat: float | None = measure("By heat", SHARE)
    held_by_hardware: float | None = measure("By the hardware", SHARE, "For an unstated reason")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@shared
def device_power(trace: Trace) -> tuple[DevicePower, ...]:
    """Return the power and clocks of each device, if they were recorded."""
    all_readings = list(readings_of(trace, POWER_CATEGORY))
    if not all_readings:
        return ()
    window, steps = counted_time(trace)
    devices = [
        _of_device(readings, trace.tracks[track].pid, window, steps)
        for track, readings in all_readings
    ]
    return tuple(device for device in devices if device.readings)


def _of_device(readings: Readings, device: str, window: Intervals, steps: int) -> DevicePower:
    time_ns, power = readings.of(POWER, MILLIWATTS)
    joules, by = _energy(readings, window)
    over_s = window.total_ns / 1e9
    mean_watts = joules / over_s if joules is not None and over_s else None

    def mean(counter: str, key: str, scale: float = 1.0) -> float | None:
        return mean_over(*readings.of(counter, key), window, scale)

    def within(counter: str, key: str) -> Int64:
        times, values = readings.of(counter, key)
        inside: Int64 = values[window.contain(times)]
        return inside if len(inside) else values

    sm = within(CLOCKS, SM_MHZ)
    heat = within(TEMPERATURE, CELSIUS)
    watts = within(POWER, MILLIWATTS)
    return DevicePower(
        device=device,
        readings=len(time_ns) or len(readings.of(CLOCKS, SM_MHZ)[0]),
        over_ns=window.total_ns,
        steps=steps,
        mean_watts=mean_watts,
        most_watts=watts.max() / 1e3 if len(power) else None,
        limit_watts=_first(readings.of(LIMITS, MILLIWATTS)[1], 1e-3),
        joules=joules,
        joules_per_step=joules / steps if joules is not None and steps else None,
        joules_by=by,
        mean_sm_mhz=mean(CLOCKS, SM_MHZ),
        least_sm_mhz=float(sm.min()) if len(sm) else None,
        most_sm_mhz=_first(readings.of(LIMITS, SM_MHZ)[1]),
        mean_memory_mhz=mean(CLOCKS, MEMORY_MHZ),
        most_celsius=float(heat.max()) if len(heat) else None,
        busy_share=mean(UTILISATION, BUSY_PERCENT, 0.01),
        memory_share=mean(UTILISATION, MEMORY_PERCENT, 0.01),
        held_by_power=mean(HELD_DOWN, BY_POWER),
        held_by_heat=mean(HELD_DOWN, BY_HEAT),
        held_by_hardware=mean(HELD_DOWN, BY_HARDWARE),
    )


def _first(values: Int64, scale: float = 1.0) -> float | None:
    return float(values[0]) * scale if len(values) else None


def _energy(readings: Readings, window: Intervals) -> tuple[float | None, str]:
    """Return the energy used in a window, in J, and how it is known."""
    times, counted = readings.of(ENERGY, MILLIJOULES)
    if len(times) > 1:
        moved = np.flatnonzero(np.diff(counted, prepend=counted[0] - 1))
        inside = int(window.contain(times[moved]).sum())
        if inside >= MIN_MOVES:
            # Between two changes of the counter, the device used the difference.
            joules = _grown(times[moved], counted[moved].astype(np.float64), window) / 1e3
            return joules, "counter"
    times, power = readings.of(POWER, MILLIWATTS)
    if not len(times):
        return None, ""
    if len(times) == 1:
        return float(power[0]) * window.total_ns / 1e12, "power"
    steps_ns = np.diff(times)
    added = np.append(0.0, np.cumsum((power[1:] + power[:-1]) / 2 * steps_ns))  # mW ns
    return _grown(times, added, window) / 1e12, "power"


def _grown(times: Int64, sums: Float64, window: Intervals) -> float:
    """Return the growth of a counter in a window, extrapolated to the window's ends."""
    grown, span_ns = 0.0, max(int(times[-1] - times[0]), 1)
    for start, end in zip(window.start_ns.tolist(), window.end_ns.tolist(), strict=True):
        grown += float(np.interp(end, times, sums) - np.interp(start, times, sums))
        outside = max(times[0] - start, 0) + max(end - times[-1], 0)
        grown += float(sums[-1] - sums[0]) / span_ns * min(outside, end - start)
    return grown
