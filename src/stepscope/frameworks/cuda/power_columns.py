"""What NVML told of devices, as counters of a Trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.device import counters as words
from stepscope.frameworks.cuda.counters import NOT_TOLD, Counter, counters_captured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepscope.trace.model import Int64
    from stepscope.trace.schema import Captured

# NVML's bits.
_POWER_BITS = 0x4 | 0x80  # the power limit, a brake from outside
_HEAT_BITS = 0x20 | 0x40
_SLOWDOWN_BIT = 0x8  # by the hardware, which tells with a bit of its own why, mostly


def power_captured(columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]) -> Captured:
    """Build the columns, for the devices that the program uses; all, where that is not known."""
    counters = [
        counter
        for device in devices
        if device["cuda"] is not None
        for counter in _counters(columns, device, device["cuda"])
    ]
    return counters_captured(counters, words.POWER_CATEGORY)


def _counters(
    columns: Mapping[str, Any], device: Mapping[str, Any], number: int
) -> Iterator[Counter]:
    rows = np.flatnonzero(columns["device"] == device["number"])
    if not len(rows):
        return
    time_ns: Int64 = columns["time_ns"][rows]
    told: dict[str, Int64] = {key: columns[key][rows] for key in _TOLD}
    groups = {
        words.POWER: {words.MILLIWATTS: told["power_mw"]},
        words.CLOCKS: {words.SM_MHZ: told["sm_mhz"], words.MEMORY_MHZ: told["memory_mhz"]},
        words.TEMPERATURE: {words.CELSIUS: told["celsius"]},
        words.UTILISATION: {
            words.BUSY_PERCENT: told["busy_percent"],
            words.MEMORY_PERCENT: told["memory_busy_percent"],
        },
        words.HELD_DOWN: _reasons(told["reasons"]),
        words.ENERGY: {words.MILLIJOULES: told["energy_mj"]},
    }
    for name, values in groups.items():
        yield Counter(name, number, time_ns, values)
    limits = {
        words.MILLIWATTS: np.array([device["power_limit_mw"]], np.int64),
        words.SM_MHZ: np.array([device["most_sm_mhz"]], np.int64),
    }
    yield Counter(words.LIMITS, number, time_ns[:1], limits, is_instant=True)


_TOLD = (
    *("power_mw", "energy_mj", "sm_mhz", "memory_mhz", "celsius"),
    *("busy_percent", "memory_busy_percent", "reasons"),
)


def _reasons(bits: Int64) -> dict[str, Int64]:
    """Return whether power or heat holds the clocks down: 1 or 0."""
    known = bits != NOT_TOLD
    by_power, by_heat = (bits & _POWER_BITS) != 0, (bits & _HEAT_BITS) != 0
    by_other = ((bits & _SLOWDOWN_BIT) != 0) & ~by_power & ~by_heat
    return {
        key: np.where(known, is_so.astype(np.int64), NOT_TOLD)
        for key, is_so in (
            (words.BY_POWER, by_power),
            (words.BY_HEAT, by_heat),
            (words.BY_HARDWARE, by_other),
        )
    }
