"""What the threads of this process are called, also those that end before anybody asks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stepscope import _native

if TYPE_CHECKING:
    from collections.abc import Callable

_started: list[threading.Thread] = []
_plain_start: Callable[[threading.Thread], None] = threading.Thread.start
_installed = False


def _noted_start(thread: threading.Thread) -> None:
    if _native.recording():
        _started.append(thread)
    _plain_start(thread)


def remember_started_threads() -> None:
    """Keep hold of every thread that starts while something records; asked again, do nothing."""
    global _installed, _plain_start  # noqa: PLW0603 - threading is one for the process, too
    if not _installed:
        _plain_start = threading.Thread.start
        threading.Thread.start = _noted_start  # type: ignore[method-assign,assignment]
        _installed = True


def thread_names() -> dict[int, str]:
    """Return the names by the system's thread id."""
    threads = (*_started, *threading.enumerate())
    return {thread.native_id: thread.name for thread in threads if thread.native_id is not None}


def forget_started_threads() -> None:
    """Let go of them, and leave threading as it was, when nothing records any more."""
    global _installed  # noqa: PLW0603
    if _native.recording():
        return
    _started.clear()
    if threading.Thread.start is _noted_start:  # else somebody wrapped it: it stays in their chain
        threading.Thread.start = _plain_start  # type: ignore[method-assign,assignment]
        _installed = False
