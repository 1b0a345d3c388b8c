"""Numbers of devices over time as columns of a Trace: counters, on a track of their device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.model import Args, IntColumn, Track
from stepscope.trace.schema import Captured, Marks, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.trace.model import Int64

NOT_TOLD = -1  # the device has no such number
_COUNTER, _INSTANT = ord("C"), ord("i")


@dataclass(frozen=True, slots=True)
class Counter:
    """Readings of one device: some numbers that belong together, by what they are."""

    name: str
    device: int  # as CUDA numbers it
    time_ns: Int64
    values: Mapping[str, Int64]  # NOT_TOLD where there is none
    is_instant: bool = False  # it is said once, and no line over time


def counters_captured(counters: Sequence[Counter], category: str) -> Captured:
    """Build the columns; what a device never tells is left out."""
    texts: dict[str, int] = {"": 0}
    devices = sorted({each.device for each in counters})
    parts: list[dict[str, Any]] = []
    integers: dict[str, list[tuple[Int64, Int64]]] = {}
    first = 0
    for each in counters:
        known = {key: np.flatnonzero(v != NOT_TOLD) for key, v in each.values.items()}
        told = np.unique(np.concatenate(list(known.values()))) if known else np.zeros(0, np.int64)
        if not len(told):
            continue
        place = np.full(len(each.time_ns), NOT_TOLD, np.int64)
        place[told] = np.arange(len(told)) + first
        for key, at in known.items():
            if len(at):
                integers.setdefault(key, []).append((place[at], each.values[key][at]))
        parts.append(
            {
                "phase": np.full(len(told), _INSTANT if each.is_instant else _COUNTER, np.uint8),
                "category": np.full(len(told), _id_of(category, texts), np.uint32),
                "name": np.full(len(told), _id_of(each.name, texts), np.uint32),
                "time_ns": each.time_ns[told],
                "track": np.full(len(told), devices.index(each.device), np.uint32),
            }
        )
        first += len(told)
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
                np.concatenate([rows for rows, _ in found]).astype(np.uint32),
                np.concatenate([values for _, values in found]).astype(np.int64),
            )
            for key, found in integers.items()
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
        process_sort=5_000_000 + device,  # as the device's streams: below all threads
    )
