"""The names of this process's threads, including those that end before they are queried."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import deque
from typing import TYPE_CHECKING

from stepscope._native import let_through
from stepscope.record.patching import Patches

if TYPE_CHECKING:
    from collections.abc import Callable


class _Started:
    """The threads that started; of those that have ended, only the name is kept."""

    _FIRST_LOOK = 1024  # number of threads at which ended ones are removed for the first time

    def __init__(self) -> None:
        self._threads: deque[threading.Thread] = deque()
        self._ended: dict[int, str] = {}
        self._next_look = self._FIRST_LOOK

    def note(self, thread: threading.Thread) -> None:
        """Remember a thread; any thread may call this at any time."""
        self._threads.append(thread)
        if len(self._threads) < self._next_look:
            return
        self._next_look = 2 * len(self._threads)  # other threads may add some meanwhile
        with contextlib.suppress(IndexError):  # other threads remove some, too
            for _ in range(len(self._threads)):
                other = self._threads.popleft()
                if other.is_alive():
                    self._threads.append(other)
                else:
                    self._ended.update(_names(other))
        self._next_look = 2 * len(self._threads) + self._FIRST_LOOK

    def names(self) -> dict[int, str]:
        """Return the names by thread id; a reused id has the name of its later thread."""
        return {**self._ended, **_names(*self._threads)}

    def forget(self) -> None:
        self._threads.clear()
        self._ended.clear()
        self._next_look = self._FIRST_LOOK


_started = _Started()


def thread_names() -> dict[int, str]:
    """Return the names by the system's thread id."""
    return {**_started.names(), **_names(*threading.enumerate())}


def _names(*threads: threading.Thread) -> dict[int, str]:
    return {thread.native_id: thread.name for thread in threads if thread.native_id is not None}


def _noting(plain: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    def start(thread: threading.Thread) -> None:
        plain(thread)
        if STARTED_THREADS.in_use:
            _started.note(thread)

    let_through(start.__code__)
    return functools.wraps(plain)(start)


def _patch(patches: Patches) -> None:
    patches.wrap(threading.Thread, "start", _noting)
    patches.on_undo(_started.forget)


STARTED_THREADS = Patches(_patch)
"""Every thread that starts while this is held is remembered."""
