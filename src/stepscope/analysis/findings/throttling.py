"""Clocks that are held down: the device runs slower than it could, by its power or its heat."""

from __future__ import annotations

from stepscope.analysis.device.power import DevicePower, device_power
from stepscope.analysis.findings.facts import Facts, moment
from stepscope.analysis.findings.model import DETECTORS, Finding, Severity

# Share of the steps in which clocks are held down; short dips at a peak of power are usual.
MIN_HELD = 0.25
MIN_LOST = 0.05  # the power limit costs any heavy training less of the clock

_FIX_POWER = (
    "The device draws all the power that it is allowed to. Raise the limit if the machine allows "
    "it (nvidia-smi -q -d POWER, nvidia-smi -pl), or draw less: lower precision, fewer wasted "
    "flops."
)
_FIX_HEAT = (
    "The device is too hot, or its power supply is slowing it down: check fans, air inlets and "
    "neighbouring devices (nvidia-smi -q -d TEMPERATURE,PERFORMANCE); nothing in the program can "
    "fix this."
)


@DETECTORS.register
def held_down_clocks(facts: Facts) -> Finding | None:
    """Find devices whose clocks power or heat held down for much of the steps."""
    held_down = [power for power in device_power(facts.trace) if _held_share(power) >= MIN_HELD]
    if not held_down:
        return None
    worst = max(held_down, key=_lost_share)
    lost = _lost_share(worst)
    if lost < MIN_LOST:
        return None
    by_heat = max(worst.held_by_heat or 0.0, worst.held_by_hardware or 0.0)
    is_heat = by_heat >= MIN_HELD
    what = "heat or the hardware" if is_heat else "its power limit"
    share = by_heat if is_heat else worst.held_by_power or 0.0
    info = facts.trace.info
    return Finding(
        id="held-down-clocks",
        title=f"Device {worst.device} runs at {1 - lost:.0%} of its clock: held down by {what}",
        text=f"Its SM clock is {worst.mean_sm_mhz:,.0f} MHz of {worst.most_sm_mhz:,.0f} MHz, and "
        f"held down by {what} for {share:.0%} of the time"
        f"{_power_words(worst)}. Compute-bound work takes up to {1 / (1 - lost) - 1:.0%} longer.",
        share=lost * share,
        evidence=moment(info.start_ns, info.end_ns),
        fix=_FIX_HEAT if is_heat else _FIX_POWER,
        # What the power limit costs is usual where a device is used well; heat is a defect.
        severity=Severity.MEDIUM if is_heat else Severity.LOW,
        of_ns=facts.ledger.unit_ns,
        unit=facts.ledger.unit,
    )


def _held_share(power: DevicePower) -> float:
    return max(power.held_by_power or 0.0, power.held_by_heat or 0.0, power.held_by_hardware or 0.0)


def _lost_share(power: DevicePower) -> float:
    """Return the share of its clock at which a device does not run."""
    if not power.most_sm_mhz or power.mean_sm_mhz is None:
        return 0.0
    return 1 - min(power.mean_sm_mhz / power.most_sm_mhz, 1.0)


def _power_words(power: DevicePower) -> str:
    if power.mean_watts is None or not power.limit_watts:
        return ""
    return f", at {power.mean_watts:.0f} W of {power.limit_watts:.0f} W"
