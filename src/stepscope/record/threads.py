"""What the threads of this process are called, also those that end before anybody asks."""

from __future__ import annotations

import functools
import threading

from stepscope import _native

_started: list[threading.Thread] = []


@functools.cache
def remember_started_threads() -> None:
    """Keep hold of every thread that starts while something records; asked again, do nothing."""
    start = threading.Thread.start

    @functools.wraps(start)
    def noted_start(self: threading.Thread) -> None:
        if _native.recording():
            _started.append(self)
        start(self)

    threading.Thread.start = noted_start  # type: ignore[method-assign]


def thread_names() -> dict[int, str]:
    """Return the names by the system's thread id."""
    threads = (*_started, *threading.enumerate())
    return {thread.native_id: thread.name for thread in threads if thread.native_id is not None}


def forget_started_threads() -> None:
    """Let go of those that have ended, when nothing records any more."""
    if not _native.recording():
        _started.clear()
