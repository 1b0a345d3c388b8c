"""A sample of the memory blocks in use, each with the Python stack that allocated it.

The blocks are drawn where they are allocated, by a bridge to a framework's allocator; see
``native/python/heap_samples.cpp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.record.threads import thread_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured


class HeldMemory:
    """A sample of the blocks that were allocated during one recording and are still in use."""

    def __init__(self) -> None:
        self._native: _native.HeapSamples | None = None
        self._names: Mapping[int, str] = {}

    def start(self) -> None:
        native = _native.HeapSamples()
        self._native = native if native.start() else None

    def stop(self) -> None:
        if self._native is not None:
            self._native.stop()
            self._names = thread_names()

    def collect(self) -> Captured | None:
        """Return the blocks, once; the sample is dropped."""
        native, self._native = self._native, None
        if native is None:
            return None
        return _captured(native.collect(), self._names)

    def so_far(self) -> Captured | None:
        """Return the blocks in use now; the sampling goes on."""
        if self._native is None:
            return None
        self._names = thread_names()
        return _captured(self._native.collect(goes_on=True), self._names)

    @staticmethod
    def recover(remains: LeftBehind) -> Captured | None:
        return _captured(remains.native.held(), remains.thread_names)


def _captured(sample: Mapping[str, Any], names: Mapping[int, str]) -> Captured | None:
    if not len(sample["held"]["time_ns"]):
        return None
    from stepscope.record.capture import thread_track, with_devices
    from stepscope.trace.model import NO_THREAD, Held, Stacks
    from stepscope.trace.schema import Captured, Slices
    from stepscope.trace.strings import Strings

    strings, blocks = with_devices(Strings.of(sample["texts"]), Held, sample["held"])
    tracks = (
        thread_track(thread, NO_THREAD, names.get(thread, "")) for thread in sample["threads"]
    )
    stacks = Stacks(sample["parent"], sample["frame"])
    return Captured(Slices.empty(), tuple(tracks), strings, stacks=stacks, held=blocks)
