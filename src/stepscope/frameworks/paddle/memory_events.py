"""Converts Paddle's memory events to rows of ``Trace.memory``, and back.

Paddle has four kinds: the program's allocations and releases (Allocate, Free), and the allocator's
from the device (ReservedAllocate, ReservedFree). The first two are rows with their bytes. The
others are rows of size 0 that only change ``reserved``: their bytes are the difference from the
device's previous row.

Paddle also writes the current peaks with every event. In a program of one thread they follow from
the figures and the state at a device's first event, so only that state is kept. If several threads
allocate, Paddle checks the total only when a thread reaches a peak of its own: such peaks are kept
with the event that changed them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscope.enums import NumberedAlike
from stepscope.trace.model import NO_SLICE, Memory
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.trace.model import Int64, UInt32

_LARGEST = 2**63 - 1
_PLACE = re.compile(r"Place\((.*)\)")


Peaks = Sequence[Sequence[int]]  # (event, peak) pairs


class TracerMemEventType(NumberedAlike):
    Allocate = 0
    Free = 1
    ReservedAllocate = 2
    ReservedFree = 3


class MemoryBefore(NamedTuple):
    """A device's memory before its first event: in use, and the peaks so far.

    ``peaks_*`` is set for peaks that do not follow from this and the figures: each holds from the
    event with that number on.
    """

    reserved: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    peaks_allocated: Peaks = ()
    peaks_reserved: Peaks = ()


def device_of_place(place: str) -> str:
    """Return a Trace's name for a place of Paddle: ``cuda:0`` for ``Place(gpu:0)``."""
    match = _PLACE.fullmatch(place)
    word = match[1] if match else place
    return re.sub(r"^gpu:", "cuda:", word)


def place_of_device(device: str) -> str:
    """Return Paddle's name for a device: ``Place(gpu:0)`` for ``cuda:0``."""
    return f"Place({re.sub('^cuda:', 'gpu:', device)})"


def memory_of(
    columns: Mapping[str, Any], strings: Strings, shift_ns: int
) -> tuple[Strings, Memory, dict[str, MemoryBefore]]:
    """Convert the columns of Paddle's memory events; places become devices in the strings."""
    rows = len(columns["time_ns"])
    if not rows:
        return strings, Memory.empty(), {}
    strings, device = _devices(strings, columns["place"])
    is_reserved = columns["type"] >= TracerMemEventType.ReservedAllocate
    memory = Memory(
        time_ns=columns["time_ns"] + shift_ns,
        address=columns["address"],
        size=np.where(is_reserved, 0, columns["increase"]),
        device=device,
        track=columns["track"],
        slice=np.full(rows, NO_SLICE, np.int32),
        allocated=columns["allocated"],
        reserved=columns["reserved"],
    )
    return strings, memory, _before(columns, device, strings)


def _devices(strings: Strings, places: UInt32) -> tuple[Strings, UInt32]:
    distinct, number = np.unique(places, return_inverse=True)
    names = [device_of_place(strings[int(place)]) for place in distinct]
    id_of = strings.ids_of(names)
    missing = [name for name in dict.fromkeys(names) if name not in id_of]
    id_of |= {name: len(strings) + i for i, name in enumerate(missing)}
    ids = np.array([id_of[name] for name in names], np.uint32)
    return Strings.of([*strings, *missing]) if missing else strings, ids[number]


def _before(
    columns: Mapping[str, Any], device: UInt32, strings: Strings
) -> dict[str, MemoryBefore]:
    order = np.argsort(columns["time_ns"], kind="stable")
    before = {}
    for name in np.unique(device):
        rows = order[device[order] == name]
        of_device = {key: column[rows] for key, column in columns.items()}
        is_reserved = of_device["type"][0] >= TracerMemEventType.ReservedAllocate
        before[strings[int(name)]] = MemoryBefore(
            int(of_device["reserved"][0]) - (int(of_device["increase"][0]) if is_reserved else 0),
            int(of_device["peak_allocated"][0]),
            int(of_device["peak_reserved"][0]),
            _unusual(of_device["peak_allocated"], of_device["allocated"]),
            _unusual(of_device["peak_reserved"], of_device["reserved"]),
        )
    return before


def _unusual(peaks: Int64, figures: Int64) -> Peaks:
    """Return the peaks of a file if they are not the running maximum of the figures; else ()."""
    if np.array_equal(peaks, _peaks(figures, int(peaks[0]), ())):
        return ()
    changes = np.flatnonzero(np.append(True, peaks[1:] != peaks[:-1]))
    return tuple(zip(changes.tolist(), peaks[changes].tolist(), strict=True))


def _peaks(figures: Int64, before: int, changes_and_peaks: Peaks) -> Int64:
    """Return the peak at each event; figures are ordered by time."""
    if len(changes_and_peaks):
        changes, peaks = np.array(changes_and_peaks, np.int64).T
        latest = np.searchsorted(changes, np.arange(len(figures)), side="right") - 1
        return np.where(latest >= 0, peaks[latest], before)
    return np.maximum(np.maximum.accumulate(figures), before)


def memory_figures(memory: Memory, strings: Strings, before_first: Any) -> dict[str, Any]:
    """Return what Paddle adds to a Trace's memory columns: type, increase, peaks.

    ``before_first`` is a file's claim about the time before its first event; it may be malformed.
    """
    increase = memory.size.copy()
    kind = np.where(memory.size < 0, TracerMemEventType.Free, TracerMemEventType.Allocate)
    peak_allocated, peak_reserved = np.zeros((2, len(memory)), np.int64)
    for device in np.unique(memory.device):
        rows = np.flatnonzero(memory.device == device)
        before = _memory_before(before_first, strings[int(device)], int(memory.reserved[rows[0]]))
        change = np.diff(memory.reserved[rows], prepend=before.reserved)
        of_none = memory.size[rows] == 0
        increase[rows[of_none]] = change[of_none]
        kind[rows[of_none]] = np.where(
            change[of_none] < 0,
            TracerMemEventType.ReservedFree,
            TracerMemEventType.ReservedAllocate,
        )
        peak_allocated[rows] = _peaks(
            memory.allocated[rows], before.peak_allocated, before.peaks_allocated
        )
        peak_reserved[rows] = _peaks(
            memory.reserved[rows], before.peak_reserved, before.peaks_reserved
        )
    return {
        "type": kind.astype(np.uint8),
        "increase": increase,
        "peak_allocated": peak_allocated,
        "peak_reserved": peak_reserved,
    }


def _memory_before(before_first: Any, device: str, reserved: int) -> MemoryBefore:
    figures = before_first.get(device) if isinstance(before_first, dict) else None
    values = {"reserved": reserved, **(figures if isinstance(figures, dict) else {})}
    fits = {"peaks_allocated": _are_peaks, "peaks_reserved": _are_peaks}
    of_fields = {key: values[key] for key in MemoryBefore._fields if key in values}
    return MemoryBefore(
        **{key: value for key, value in of_fields.items() if fits.get(key, _is_whole)(value)}
    )


def _is_whole(value: object) -> bool:
    return type(value) is int and abs(value) <= _LARGEST


def _are_peaks(value: object) -> bool:
    try:
        pairs = np.array(value)
    except ValueError:  # rows of different lengths
        return False
    return pairs.shape == (0,) or (pairs.dtype == np.int64 and pairs.shape[1:] == (2,))
