"""Defers Ctrl-C while an operation that must not be left half done is running."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class HeldInterrupts:
    """Defers a Ctrl-C to the end of the block; a second one is not deferred.

    Python runs signal handlers on the main thread: on others the block is never interrupted.
    """

    def __enter__(self) -> Self:
        """Install our handler, unless Python has none for SIGINT or it is already deferred."""
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        self._frame: FrameType | None = None
        self._is_pending = False
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            held = isinstance(getattr(handler, "__self__", None), HeldInterrupts)
            if callable(handler) and not held:
                self._handler = handler
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handler, and call it if a Ctrl-C was deferred."""
        handler, self._handler = self._handler, None
        if handler is None:
            return
        if signal.getsignal(signal.SIGINT) == self._note:  # else the program replaced it meanwhile
            signal.signal(signal.SIGINT, handler)
        frame, self._frame = self._frame, None
        if self._is_pending:
            handler(signal.SIGINT, frame)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._is_pending and self._handler is not None:
            self._is_pending = False
            self._handler(number, frame)
        else:
            self._is_pending = True
            self._frame = frame
