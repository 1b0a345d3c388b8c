"""Power, clocks and temperature of devices as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.table import columns_of
from stepscope.analysis.device.counters import CounterMean
from stepscope.analysis.device.power import DevicePower
from stepscope.text.layout import measured_column, text_lines
from stepscope.trace.measures import Measure, Shown
from stepscope.units import JOULES, TEXT, percent_text

_WORTH_TELLING = 0.005
"""Throttling for a smaller share of the time is not mentioned."""

_WIDTH = 24


def power_line(power: DevicePower) -> str:
    """Return a device's power, energy, clocks, temperature and throttling in one line."""
    return f"device {power.device}: " + "; ".join(_parts(power))


def _parts(power: DevicePower) -> Iterator[str]:
    if power.mean_watts is not None:
        limit = f" of {power.limit_watts:.0f} W" if power.limit_watts else ""
        most = f", {power.most_watts:.0f} W{limit} at most" if power.most_watts else ""
        when = "in the steps" if power.steps else "on average"
        watts = f"{power.mean_watts:.{0 if power.mean_watts >= 10 else 1}f} W"
        yield f"{watts} {when}{most}"
    if power.joules_per_step is not None:
        yield f"{JOULES.text(power.joules_per_step)} a step"
    elif power.joules is not None:
        yield f"{JOULES.text(power.joules)} in all"
    if power.mean_sm_mhz is not None:
        most = f" of {power.most_sm_mhz:,.0f}" if power.most_sm_mhz else ""
        yield f"SM clock {power.mean_sm_mhz:,.0f}{most} MHz"
    if power.most_celsius is not None:
        yield f"{power.most_celsius:.0f} °C at most"
    if held_words := held_down_words(power):
        yield f"clocks held down {held_words}"


def counter_lines(counters: Sequence[CounterMean]) -> Iterator[str]:
    for device in dict.fromkeys(counter.device for counter in counters):
        means = [
            f"{counter.name} {percent_text(counter.mean)}"
            for counter in counters
            if counter.device == device
        ]
        yield f"device {device}: {', '.join(means)} of its maximum, on average"


def held_down_words(power: DevicePower) -> str:
    """Return what lowered the clocks, and for how much of the time; empty for nothing."""
    reasons = (
        ("by power", power.held_by_power),
        ("by heat", power.held_by_heat),
        ("by the hardware", power.held_by_hardware),
    )
    return ", ".join(
        f"{what} {percent_text(share)} of the time"
        for what, share in reasons
        if share is not None and share >= _WORTH_TELLING
    )


def power_text(devices: Sequence[DevicePower]) -> str:
    columns = [
        measured_column(measure, values) for measure, values in power_columns(devices).items()
    ]
    return "\n".join(text_lines(columns, _WIDTH)) + "\n"


def power_columns(devices: Sequence[DevicePower]) -> dict[Measure, list[str] | NDArray[Any]]:
    """Return a column for each figure that was measured on at least one device."""
    columns = columns_of(devices, DevicePower).items()
    return {
        measure: values
        for measure, values in columns
        if measure.shown is not Shown.DATA and (measure.unit == TEXT or not np.isnan(values).all())
    }
