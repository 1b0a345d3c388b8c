"""Power, clocks and temperature of devices as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepscope.analysis.device.counters import CounterMean
from stepscope.analysis.device.power import DevicePower
from stepscope.text.layout import Column, text_lines
from stepscope.units import percent_text

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
        yield f"{joules_text(power.joules_per_step)} a step"
    elif power.joules is not None:
        yield f"{joules_text(power.joules)} in all"
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


def joules_text(joules: float) -> str:
    """Return an energy in the unit that suits it: ``53.2 J``, ``1.20 kJ``."""
    for scale, unit in ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ")):
        if joules >= 0.9995 * scale:
            return f"{joules / scale:.3g} {unit}"
    return f"{joules * 1e3:.2g} mJ"


def power_text(devices: Sequence[DevicePower]) -> str:
    columns = [
        Column("Device", [device.device for device in devices]),
        _numbers("Power", [device.mean_watts for device in devices], "{:.0f} W"),
        _numbers("most", [device.most_watts for device in devices], "{:.0f} W"),
        _numbers("limit", [device.limit_watts for device in devices], "{:.0f} W"),
        Column("Energy", [_energy(device.joules) for device in devices]),
        Column("a step", [_energy(device.joules_per_step) for device in devices]),
        _numbers("SM clock", [device.mean_sm_mhz for device in devices], "{:,.0f} MHz"),
        _numbers("least", [device.least_sm_mhz for device in devices], "{:,.0f} MHz"),
        _numbers("Max SM clock", [device.most_sm_mhz for device in devices], "{:,.0f} MHz"),
        _numbers("Memory clock", [device.mean_memory_mhz for device in devices], "{:,.0f} MHz"),
        _numbers("Temp.", [device.most_celsius for device in devices], "{:.0f} °C"),
        _numbers("Busy", [device.busy_share for device in devices], "{:.0%}"),
        _numbers("Memory busy", [device.memory_share for device in devices], "{:.0%}"),
        _numbers("Held by power", [device.held_by_power for device in devices], "{:.1%}"),
        _numbers("by heat", [device.held_by_heat for device in devices], "{:.1%}"),
    ]
    return "\n".join(text_lines(columns, _WIDTH)) + "\n"


def _energy(joules: float | None) -> str:
    return "-" if joules is None else joules_text(joules)


def _numbers(title: str, values: Sequence[float | None], form: str) -> Column:
    return Column(title, ["-" if value is None else form.format(value) for value in values])
