"""Signals that end the command line."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@contextlib.contextmanager
def held_signals() -> Iterator[None]:
    """Defer signals that would kill this process, so that the block leaves nothing half made.

    They are caught, not blocked: threads of libraries would get signals that only this one blocks.
    """
    pending: list[int] = []
    caught: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, lambda came, _frame: pending.append(came))
                caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
        for came in pending:
            os.kill(os.getpid(), came)


def let_ctrl_c_kill() -> None:
    """Have Ctrl-C end the process at once, as long as there is nothing to clean up.

    KeyboardInterrupt in the middle of an import is turned into other errors by some libraries.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def die_by(number: int) -> NoReturn:
    """End this process by a signal with its default action."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # it is blocked
