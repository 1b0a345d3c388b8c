"""A window over the recorder: until close() it gets every event of every thread."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stepscope import _native
from stepscope.record.limits import Keep, MemoryLimit
from stepscope.record.threads import STARTED_THREADS, thread_names

if TYPE_CHECKING:
    from stepscope.record.capture import Recorded

_CALIBRATION_ROUNDS = 2_000


class Window:
    """One open window. Several may be open at once; each gets all events while it is.

    Nothing here imports NumPy: the profiled program may want to configure it first.
    """

    def __init__(self, limit: MemoryLimit | None = None) -> None:
        STARTED_THREADS.acquire()
        if limit is None:
            self._id = _native.open_window(0, False)
        else:
            keep_newest = limit.keep is Keep.NEWEST
            self._id = _native.open_window(limit.bytes, keep_newest, limit.is_ring, limit.seconds)
        self._names: dict[int, str] = {}
        self.note_thread_names()

    def restart(self) -> None:
        _native.restart_window(self._id)

    def note_thread_names(self) -> None:
        """Remember the names of the threads that run now: a thread's name is gone when it ends."""
        self._names.update(thread_names())

    def close(self) -> Recorded:
        return self.end().recorded()

    def end(self) -> HeldEvents:
        """Close the window; its events become columns when they are read."""
        self.note_thread_names()
        events = HeldEvents(_native.end_window(self._id), self._names)
        STARTED_THREADS.release()
        return events

    def look(self) -> HeldEvents:
        """Return the events so far; the window stays open."""
        self.note_thread_names()
        return HeldEvents(_native.look_at_window(self._id), dict(self._names))


class HeldEvents:
    """The events of a window in the core's format; their stack numbers stay valid until read.

    The stacks of events that are dropped unread are freed by the next ``clear_stacks``.
    """

    def __init__(self, native: _native.HeldWindow, names: dict[int, str]) -> None:
        self._native = native
        self._names = names

    def __len__(self) -> int:
        return len(self._native)

    def recorded(self) -> Recorded:
        """Return the events as columns; they can be read once."""
        from stepscope.record.capture import recorded

        result = recorded(self._native.columns(), self._names)
        self._native.let_go()
        clear_stacks()
        return result


def clear_stacks() -> None:
    """Drop all Python stacks, unless a recording or unread events need them."""
    if not _native.held_windows():
        _native.clear_stacks()


def range_overhead_ns() -> float:
    """Return the calibrated cost of one range; 0 while a recording would include it."""
    return 0.0 if _native.recording() else _calibrated_ns()


@functools.cache
def _calibrated_ns() -> float:
    window = _native.open_window(0, False)
    try:
        return _native.overhead_ns(_CALIBRATION_ROUNDS)
    finally:
        _native.close_window(window)
