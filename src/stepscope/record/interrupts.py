"""Defers signals while an operation that must not be left half done is running."""

from __future__ import annotations

import _signal  # ten times as fast as signal, and steps are short
import os
import sys
from _thread import get_native_id

TYPE_CHECKING = False  # nothing here imports more than a program has that we record
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, Self

    Handler = Callable[[int, FrameType | None], Any]

ENDING: list[int] = [_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP]


class HeldSignals:
    """Defers Ctrl-C and SIGTERM to the end of the block; a second one is not deferred.

    Python runs signal handlers on the main thread: on others the block is never interrupted.
    """

    def __enter__(self) -> Self:
        """Replace the handlers, except those that are not in Python or defer signals already."""
        self._handlers: dict[int, Handler] = {}
        self._pending: dict[int, FrameType | None] = {}
        if _is_main_thread():
            for number in ENDING:
                handler = _signal.getsignal(number)
                defers_already = isinstance(getattr(handler, "__self__", None), HeldSignals)
                if callable(handler) and not defers_already:
                    self._handlers[number] = handler
                    _signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handlers, and call that of a signal that was deferred."""
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            if _signal.getsignal(number) == self._note:  # otherwise the program has replaced it
                _signal.signal(number, handler)
        pending, self._pending = self._pending, {}
        for number, frame in pending.items():
            handlers[number](number, frame)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number in self._pending and number in self._handlers:
            del self._pending[number]
            self._handlers[number](number, frame)
        else:
            self._pending[number] = frame


def _is_main_thread() -> bool:
    threading = sys.modules.get("threading")
    if threading is None:  # the system's first thread is Python's, unless something embeds it
        return get_native_id() == os.getpid()
    return threading.current_thread() is threading.main_thread()
