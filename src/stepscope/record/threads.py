"""The names of this process's threads, including those that end before they are queried."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

from stepscope.record.patching import Patches

if TYPE_CHECKING:
    from collections.abc import Callable

_started: list[threading.Thread] = []


def thread_names() -> dict[int, str]:
    """Return the names by the system's thread id."""
    threads = (*_started, *threading.enumerate())
    return {thread.native_id: thread.name for thread in threads if thread.native_id is not None}


def _noting(plain: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @functools.wraps(plain)
    def start(thread: threading.Thread) -> None:
        if STARTED_THREADS.in_use:
            _started.append(thread)
        plain(thread)

    return start


def _patch(patches: Patches) -> None:
    patches.wrap(threading.Thread, "start", _noting)
    patches.on_undo(_started.clear)


STARTED_THREADS = Patches(_patch)
"""Every thread that starts while this is held is remembered."""
