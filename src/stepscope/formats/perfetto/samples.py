"""Sampled stacks as Perfetto's CPU profile: a sequence of packets for each thread.

Perfetto's sample times are whole µs, and samples have no weight: each lasts until the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepscope.formats.perfetto import messages
from stepscope.formats.perfetto.tracks import Described
from stepscope.formats.sampled import SampledStacks, rows_by_track
from stepscope.trace.model import Trace

_NS_OF_US = 1000
_FIRST_SEQUENCE = 1 << 20  # those of slices are counted from 1
_ROWS_AT_A_TIME = 1 << 14
_MAPPING = 1  # all frames are of one: Perfetto wants one for each
_PYTHON = "python"
_NO_FRAMES = "<no Python frames>"


def sample_packets(trace: Trace, tracks: Described, shift_ns: int) -> Iterator[bytes]:
    """Yield the packets of all samples on threads that Perfetto knows as threads."""
    if not len(trace.samples):
        return
    stacks = SampledStacks(trace)
    for track, rows in rows_by_track(trace.samples.track).items():
        ids = tracks.os_ids[track]
        if ids is None:
            continue
        sequence = _FIRST_SEQUENCE + track
        interned = _Interned()
        times_us = ((trace.samples.time_ns[rows] + shift_ns) // _NS_OF_US).tolist()
        yield messages.sampled_thread(sequence, ids, times_us[0])
        numbers = stacks.of_sample[rows].tolist()
        last_us = times_us[0]
        for first in range(0, len(numbers), _ROWS_AT_A_TIME):
            some = numbers[first : first + _ROWS_AT_A_TIME]
            at = times_us[first : first + _ROWS_AT_A_TIME]
            deltas = [now - before for now, before in zip(at, [last_us, *at], strict=False)]
            last_us = at[-1]
            called = [interned.stack(number, stacks) for number in some]
            yield messages.samples(sequence, interned.new_entries(), called, deltas)


class _Interned:
    """The interned functions, frames and stacks of a sequence."""

    def __init__(self) -> None:
        self._functions: dict[str, int] = {}
        self._stacks: dict[int, int] = {}
        self._new: list[tuple[int, Any]] = [
            (17, [(1, 1), (2, _PYTHON)]),
            (19, [(1, _MAPPING), (7, 1)]),
        ]

    def stack(self, number: int, stacks: SampledStacks) -> int:
        """Return the number of a stack."""
        if number not in self._stacks:
            frames = [self._frame(text) for text in stacks.frames(number) or (_NO_FRAMES,)]
            self._stacks[number] = len(self._stacks) + 1
            message = [(1, self._stacks[number]), *((2, frame) for frame in frames)]
            self._new.append((7, message))
        return self._stacks[number]

    def _frame(self, text: str) -> int:
        if text not in self._functions:
            number = self._functions[text] = len(self._functions) + 1
            self._new.append((5, [(1, number), (2, text)]))
            self._new.append((6, [(1, number), (2, number), (3, _MAPPING), (4, number)]))
        return self._functions[text]

    def new_entries(self) -> list[tuple[int, Any]]:
        """Return the entries that were added since the last call."""
        new, self._new = self._new, []
        return new
