"""Converts device counters and NVML's readings to counters of a Trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.device import counters as words
from stepscope.trace.model import Args, IntColumn, Track
from stepscope.trace.schema import Captured, Marks, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepscope.trace.model import Int64

_THOUSANDTHS = 1_000
LONG_NS, MAX_DRIFT = 100_000_000, 0.05
"""Over this time the ends of a recording tell the rate of a clock to some percent."""


def hardware_counters_captured(
    columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Captured | None:
    counters = []
    for device in devices:
        rows = np.flatnonzero(columns["device"] == device["number"])
        if not len(rows) or device["obstacle"]:
            continue
        start_ns, end_ns = columns["start_ns"][rows], columns["end_ns"][rows]
        if len(rows) > 1:  # the device dates the first sample too early
            start_ns = np.append(
                max(start_ns[0], end_ns[0] - end_ns[1] + start_ns[1]), start_ns[1:]
            )
        time_ns = on_our_clock(start_ns, device["bounds"])
        for i, (name, metric) in enumerate(zip(names, device["metrics"], strict=True)):
            if not metric:
                continue
            values = columns[f"counter{i}"][rows]
            percent = np.where(values < 0, NO_READING, (values + _THOUSANDTHS // 2) // _THOUSANDTHS)
            counters.append(Counter(name, device["number"], time_ns, {words.PERCENT: percent}))
    return counters_captured(counters, words.COUNTER_CATEGORY) if counters else None


def on_our_clock(device_ns: Int64, bounds: Sequence[tuple[int, int, int]]) -> Int64:
    """Convert times of the device's clock to ours.

    Each bound is a time of the device, and two times of ours between which it lies. The clocks of
    some machines do not count ns: then the first and the last bound determine the rate. If bounds
    contradict each other, the clocks drift, and the middle is as good as any value.
    """
    usable = [bound for bound in bounds if bound[0]]
    if not usable:
        return device_ns
    (first, *our_first), (last, *our_last) = usable[0], usable[-1]
    begin, end = sum(our_first) // 2, sum(our_last) // 2
    rate = (end - begin) / (last - first) if last - first >= LONG_NS else 1.0
    if abs(rate - 1) > MAX_DRIFT:
        return begin + ((device_ns - first) * rate).astype(np.int64)
    least = max(from_ns - moment for moment, from_ns, _ in usable)
    most = min(to_ns - moment for moment, _, to_ns in usable)
    return device_ns + (least + most) // 2


# ---- what NVML says

# Bits of NVML's reasons for low clocks.
_POWER_BITS = 0x4 | 0x80  # the power limit, a brake from outside
_HEAT_BITS = 0x20 | 0x40
_SLOWDOWN_BIT = 0x8  # the hardware; another bit usually says why


def power_captured(columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]) -> Captured:
    """Build the counters of the devices in use; of all devices if the use is unknown."""
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
    readings: dict[str, Int64] = {key: columns[key][rows] for key in _READINGS}
    groups = {
        words.POWER: {words.MILLIWATTS: readings["power_mw"]},
        words.CLOCKS: {words.SM_MHZ: readings["sm_mhz"], words.MEMORY_MHZ: readings["memory_mhz"]},
        words.TEMPERATURE: {words.CELSIUS: readings["celsius"]},
        words.UTILISATION: {
            words.BUSY_PERCENT: readings["busy_percent"],
            words.MEMORY_PERCENT: readings["memory_busy_percent"],
        },
        words.HELD_DOWN: _reasons(readings["reasons"]),
        words.ENERGY: {words.MILLIJOULES: readings["energy_mj"]},
    }
    for name, values in groups.items():
        yield Counter(name, number, time_ns, values)
    limits = {
        words.MILLIWATTS: np.array([device["power_limit_mw"]], np.int64),
        words.SM_MHZ: np.array([device["most_sm_mhz"]], np.int64),
    }
    yield Counter(words.LIMITS, number, time_ns[:1], limits, is_instant=True)


_READINGS = (
    *("power_mw", "energy_mj", "sm_mhz", "memory_mhz", "celsius"),
    *("busy_percent", "memory_busy_percent", "reasons"),
)


def _reasons(bits: Int64) -> dict[str, Int64]:
    """Return, as 1 or 0, whether power or heat holds the clocks down."""
    is_known = bits != NO_READING
    by_power, by_heat = (bits & _POWER_BITS) != 0, (bits & _HEAT_BITS) != 0
    by_other = ((bits & _SLOWDOWN_BIT) != 0) & ~by_power & ~by_heat
    return {
        key: np.where(is_known, is_so.astype(np.int64), NO_READING)
        for key, is_so in (
            (words.BY_POWER, by_power),
            (words.BY_HEAT, by_heat),
            (words.BY_HARDWARE, by_other),
        )
    }


# ---- any counters

NO_READING = -1  # the device does not report this value
_COUNTER, _INSTANT = ord("C"), ord("i")


@dataclass(frozen=True, slots=True)
class Counter:
    """Readings of one device that belong together, by what they measure."""

    name: str
    device: int  # CUDA's number
    time_ns: Int64
    values: Mapping[str, Int64]  # NO_READING for missing values
    is_instant: bool = False  # reported once, not over time


def counters_captured(counters: Sequence[Counter], category: str) -> Captured:
    """Build the columns; values that a device never reports are left out."""
    texts: dict[str, int] = {"": 0}
    devices = sorted({counter.device for counter in counters})
    parts: list[dict[str, Any]] = []
    integers: dict[str, list[tuple[Int64, Int64]]] = {}
    first = 0
    for counter in counters:
        rows_of = {key: np.flatnonzero(v != NO_READING) for key, v in counter.values.items()}
        rows = (
            np.unique(np.concatenate(list(rows_of.values()))) if rows_of else np.zeros(0, np.int64)
        )
        if not len(rows):
            continue
        place = np.full(len(counter.time_ns), NO_READING, np.int64)
        place[rows] = np.arange(len(rows)) + first
        for key, at in rows_of.items():
            if len(at):
                integers.setdefault(key, []).append((place[at], counter.values[key][at]))
        parts.append(
            {
                "phase": np.full(len(rows), _INSTANT if counter.is_instant else _COUNTER, np.uint8),
                "category": np.full(len(rows), _id_of(category, texts), np.uint32),
                "name": np.full(len(rows), _id_of(counter.name, texts), np.uint32),
                "time_ns": counter.time_ns[rows],
                "track": np.full(len(rows), devices.index(counter.device), np.uint32),
            }
        )
        first += len(rows)
    return Captured(
        Slices.empty(),
        tuple(_track(device) for device in devices),
        Strings.of(texts),
        marks=_marks(parts, integers),
    )


def _marks(
    parts: Sequence[Mapping[str, Any]], integers: Mapping[str, list[tuple[Int64, Int64]]]
) -> Marks:
    if not parts:
        return Marks.empty()
    args = Args(
        {
            key: IntColumn(
                np.concatenate([rows for rows, _ in pieces]).astype(np.uint32),
                np.concatenate([values for _, values in pieces]).astype(np.int64),
            )
            for key, pieces in integers.items()
        }
    )
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return Marks.of(**columns, args=args)


def _id_of(text: str, texts: dict[str, int]) -> int:
    return texts.setdefault(text, len(texts))


def _track(device: int) -> Track:
    return Track(
        pid=str(device),
        tid="counters",
        process_name="python",
        process_label=f"GPU {device}",
        thread_name="counters",
        process_sort=5_000_000 + device,  # below all threads, like the device's streams
    )
