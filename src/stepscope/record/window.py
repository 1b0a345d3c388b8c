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
        """Open it: recording starts now."""
        STARTED_THREADS.acquire()
        keep_newest = limit is not None and limit.keep is Keep.NEWEST
        self._id = _native.open_window(limit.bytes if limit else 0, keep_newest)
        self._names: dict[int, str] = {}
        self.note_thread_names()

    def restart(self) -> None:
        """Make the window begin now."""
        _native.restart_window(self._id)

    def note_thread_names(self) -> None:
        """Remember the names of the threads that run now: a thread's name is gone when it ends."""
        self._names.update(thread_names())

    def close(self) -> Recorded:
        """Close it and return its events."""
        self.note_thread_names()
        columns = _native.close_window(self._id)
        STARTED_THREADS.release()
        from stepscope.record.capture import recorded

        result = recorded(columns, self._names)
        _native.clear_stacks()  # when this was the last window
        return result


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
