"""Power, clocks and temperature of devices as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepscope.analysis.device.counters import CounterMean
from stepscope.analysis.device.power import DevicePower
from stepscope.text.layout import Column, text_lines
from stepscope.units import percent_text

_WORTH_TELLING = 0.005
"""Share of the time in which clocks were held down, from which on that is said."""


_WIDTH = 24


def power_line(found: DevicePower) -> str:
    """Return a device's power, energy, clocks, temperature and throttling in one line."""
    return f"device {found.device}: " + "; ".join(_parts(found))


def _parts(found: DevicePower) -> Iterator[str]:
    if found.mean_watts is not None:
        limit = f" of {found.limit_watts:.0f} W" if found.limit_watts else ""
        most = f", {found.most_watts:.0f} W{limit} at most" if found.most_watts else ""
        when = "in the steps" if found.steps else "on average"
        yield f"{_watts(found.mean_watts)} {when}{most}"
    if found.joules_per_step is not None:
        yield f"{joules_text(found.joules_per_step)} a step"
    elif found.joules is not None:
        yield f"{joules_text(found.joules)} in all"
    if found.mean_sm_mhz is not None:
        most = f" of {found.most_sm_mhz:,.0f}" if found.most_sm_mhz else ""
        yield f"SM clock {found.mean_sm_mhz:,.0f}{most} MHz"
    if found.most_celsius is not None:
        yield f"{found.most_celsius:.0f} °C at most"
    if held := held_down_words(found):
        yield f"clocks held down {held}"


def counter_lines(counters: Sequence[CounterMean]) -> Iterator[str]:
    for device in dict.fromkeys(each.device for each in counters):
        told = [
            f"{each.name} {percent_text(each.mean)}" for each in counters if each.device == device
        ]
        yield f"device {device}: {', '.join(told)} of its maximum, on average"


def held_down_words(found: DevicePower) -> str:
    """Return what lowered the clocks, and for how much of the time; empty for nothing."""
    reasons = (
        ("by power", found.held_by_power),
        ("by heat", found.held_by_heat),
        ("by the hardware", found.held_by_hardware),
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
        Column("Device", [each.device for each in devices]),
        _numbers("Power", [each.mean_watts for each in devices], "{:.0f} W"),
        _numbers("most", [each.most_watts for each in devices], "{:.0f} W"),
        _numbers("limit", [each.limit_watts for each in devices], "{:.0f} W"),
        Column("Energy", [_energy(each.joules) for each in devices]),
        Column("a step", [_energy(each.joules_per_step) for each in devices]),
        _numbers("SM clock", [each.mean_sm_mhz for each in devices], "{:,.0f} MHz"),
        _numbers("least", [each.least_sm_mhz for each in devices], "{:,.0f} MHz"),
        _numbers("Max SM clock", [each.most_sm_mhz for each in devices], "{:,.0f} MHz"),
        _numbers("Memory clock", [each.mean_memory_mhz for each in devices], "{:,.0f} MHz"),
        _numbers("Temp.", [each.most_celsius for each in devices], "{:.0f} °C"),
        _numbers("Busy", [each.busy_share for each in devices], "{:.0%}"),
        _numbers("Memory busy", [each.memory_share for each in devices], "{:.0%}"),
        _numbers("Held by power", [each.held_by_power for each in devices], "{:.1%}"),
        _numbers("by heat", [each.held_by_heat for each in devices], "{:.1%}"),
    ]
    return "\n".join(text_lines(columns, _WIDTH)) + "\n"


def _watts(watts: float) -> str:
    return f"{watts:.0f} W" if watts >= 10 else f"{watts:.1f} W"


def _energy(joules: float | None) -> str:
    return "-" if joules is None else joules_text(joules)


def _numbers(title: str, values: Sequence[float | None], form: str) -> Column:
    return Column(title, ["-" if value is None else form.format(value) for value in values])
