"""The bridge's notes about the tensors that operators were called with."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import _native

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from stepscope.trace.model import Trace

# As in ``bridge/tensor_notes.h``.
_NOTE = np.dtype(
    [
        ("start_ticks", np.uint64),
        ("impl", np.uint64),
        ("storage", np.uint64),
        ("thread", np.uint32),
        ("position", np.uint16),
        ("place", np.uint16),
        ("device_type", np.uint8),
        ("device_index", np.int8),
        ("type", np.uint8),
        ("layout", np.uint8),
    ],
    align=True,
)
_NO_LIST = 0xFFFF
FUNCTION_ID = 0xFFFF  # position of notes that are no tensors: ``impl`` is the function's number
SCRIPT = 0xFFFE  # position of notes that locate a TorchScript operator by numbers of texts
_MAX_DISTANCE_NS = 2_000  # notes are timed by another clock than the recording


@dataclass(frozen=True, slots=True)
class TensorNotes:
    """All notes of a recording; those of one operator are adjacent."""

    notes: NDArray[Any]  # of _NOTE
    start_ns: NDArray[np.int64]  # of the noted operator
    texts: Mapping[int, str] = field(default_factory=dict)  # by the numbers in TorchScript notes

    def __len__(self) -> int:
        return len(self.notes)

    def rows_in(self, trace: Trace) -> NDArray[np.int64]:
        """Return the slice of each note, -1 if it is not in this trace."""
        slices = trace.slices
        rows = np.full(len(self), -1, np.int64)
        for number, track in enumerate(trace.tracks):
            mine = np.flatnonzero(self.notes["thread"] == track.logical_id)
            of_track = np.flatnonzero(slices.track == number)
            if len(mine) and len(of_track):
                rows[mine] = of_track[_nearest(self.start_ns[mine], slices.start_ns[of_track])]
        known_rows = np.flatnonzero(rows >= 0)
        apart = np.abs(slices.start_ns[rows[known_rows]] - self.start_ns[known_rows])
        rows[known_rows[apart > _MAX_DISTANCE_NS]] = -1
        return rows

    def by_row(self, trace: Trace) -> dict[int, list[Any]]:
        notes_of: dict[int, list[Any]] = {}
        for row, note in zip(self.rows_in(trace).tolist(), self.notes, strict=True):
            if row >= 0:
                notes_of.setdefault(row, []).append(note)
        return notes_of


def noted_tensors(bridge: ctypes.CDLL) -> TensorNotes:
    count = bridge.stepscope_bridge_tensors(None, 0)
    notes = np.zeros(count, _NOTE)
    room = ctypes.c_void_p(notes.ctypes.data)
    while (count_now := bridge.stepscope_bridge_tensors(room, len(notes))) > len(notes):
        notes = np.zeros(count_now, _NOTE)
        room = ctypes.c_void_p(notes.ctypes.data)
    scripts = notes[notes["position"] == SCRIPT]
    numbers = {*scripts["impl"].tolist(), *scripts["storage"].tolist()} - {0}
    texts = {
        number: bridge.stepscope_bridge_text(number).decode("utf-8", "replace")
        for number in numbers
    }
    return TensorNotes(notes, _native.ns_of_ticks(notes["start_ticks"].copy()), texts)


def tensors_of(notes: list[Any]) -> Iterator[tuple[int, int | None, Any]]:
    """Yield each tensor of an operator: position, index in a list of tensors, note."""
    for note in notes:
        if note["position"] not in {FUNCTION_ID, SCRIPT}:
            place = int(note["place"])
            yield int(note["position"]), None if place == _NO_LIST else place, note


def _nearest(times: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of the nearest of ascending times for each time."""
    after = np.clip(np.searchsorted(among, times), 1, max(len(among) - 1, 1))
    if len(among) == 1:
        return np.zeros(len(times), np.int64)
    before = after - 1
    is_before = np.abs(among[before] - times) <= np.abs(among[after] - times)
    nearest: NDArray[np.int64] = np.where(is_before, before, after)
    return nearest
