"""Signals around a program: they end it as they would without us, and its trace is saved.

SIGTERM and SIGHUP kill a Python program where it stands: none of its code runs any more. Here, the
trace is saved in a handler, and then the signal kills the process. No exception is raised in the
program, which might drop it. The handler is below Python, where ``signal.getsignal`` does not see
it: programs install handlers of their own only where there is none, or call the one they found. It
trips a signal that nobody uses, whose handler Python calls.

Ctrl-C raises KeyboardInterrupt wherever Python code runs: in the program that is the program's, and
after its last line it is kept away from the saving.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # Python's own: no Python code, no frame
import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from enum import Enum, auto
from importlib.machinery import ExtensionFileLoader
from typing import TYPE_CHECKING, Any, Self

from stepscope._native import (
    end_by_signal,
    leave_signal,
    received_signal,
    shielded,
    watch_signal,
)
from stepscope.record.interrupts import ENDING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_STAND_IN = ENDING[-1]
_OUR_LIBRARIES = ("numpy", "polars", "rich")  # what saving and showing import
_RETRY_S = 0.02
_LOOK_S, _PATIENCE = 0.2, 2  # between looks for a signal, and how many the main thread has


class Terminated(BaseException):
    """Somebody asked the process to end before the program began."""

    def __init__(self, number: int) -> None:
        """Take the signal's number."""
        self.number = number


class Phase(Enum):
    """How far a run has come."""

    BEFORE = auto()
    PROGRAM = auto()
    AFTER = auto()


class Termination:
    """Handles SIGTERM and SIGHUP while the block runs; a program's own handlers keep working."""

    def __init__(self, save: Callable[[int], object], *, also_when_blocked: bool = False) -> None:
        """Take what saves the trace when the signal of that number ends the program.

        Python calls handlers on its main thread alone, which in a rank may wait in C++ for another
        rank that has died: ``also_when_blocked`` ends the program from another thread then.
        """
        self.phase = Phase.BEFORE
        self._save = save
        self._also_when_blocked = also_when_blocked
        self._left = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Handle the signals that nobody handles or ignores."""
        if signal.getsignal(_STAND_IN) is signal.SIG_DFL:
            signal.signal(_STAND_IN, self._handle)
            for number in _ENDING:
                watch_signal(number, _STAND_IN)
            os.register_at_fork(after_in_child=shielded(self.__exit__))
            if self._also_when_blocked:
                name = "stepscope signals"
                threading.Thread(target=self._end_if_blocked, name=name, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore what was there."""
        self._left.set()
        for number in _ENDING:
            leave_signal(number)
        if signal.getsignal(_STAND_IN) == self._handle:
            signal.signal(_STAND_IN, signal.SIG_DFL)

    def _handle(self, _stand_in: int, _frame: object) -> None:
        number = received_signal()
        if self.phase is Phase.BEFORE:
            raise Terminated(number)
        if self.phase is Phase.PROGRAM and _is_in_our_way():
            _thread.start_new_thread(_trip_again, ())
        elif self._takes_the_end():
            try:
                self._save(number)
            finally:
                die_by(number)
        # After the program has ended, the trace is being saved: that is let finish.

    def _takes_the_end(self) -> bool:
        """Tell one of the threads that try that the program ends here."""
        if not self._lock.acquire(blocking=False):
            return False
        is_first = self.phase is Phase.PROGRAM
        self.phase = Phase.AFTER
        self._lock.release()
        return is_first

    def _end_if_blocked(self) -> None:
        """Wait for a signal that the main thread does not handle for some time."""
        waited = 0
        while not self._left.wait(_LOOK_S):
            number = received_signal()
            waited = waited + 1 if number and self.phase is Phase.PROGRAM else 0
            if waited <= _PATIENCE or not self._takes_the_end():
                continue
            try:
                self._save(number)
            finally:
                leave_signal(number)
                os.kill(os.getpid(), number)


class Interrupts:
    """Ctrl-C after the program's last line: the first one is noted, a second one interrupts us."""

    def __init__(self) -> None:
        """Touch nothing yet."""
        self.came = 0
        self.raises = False  # whether one may interrupt what is being done
        self._theirs: Any = None

    def take(self) -> None:
        """Handle SIGINT from now on, unless it is ignored. A Ctrl-C may be raised in here."""
        theirs = _signal.getsignal(signal.SIGINT)
        if theirs not in (signal.SIG_IGN, None) and theirs != self._note:
            self._theirs = theirs
            _signal.signal(signal.SIGINT, self._note)

    def give_back(self) -> None:
        """Let the program's exit handlers have it as they left it."""
        self.raises = False
        theirs, self._theirs = self._theirs, None
        if theirs is not None and signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, theirs)

    def _note(self, _number: int, _frame: object) -> None:
        self.came += 1
        if self.raises or self.came > 1:
            raise KeyboardInterrupt


@contextlib.contextmanager
def held_signals() -> Iterator[None]:
    """Have signals that would kill us wait for the end of this: what is made is not left half.

    They are caught, not blocked: threads of libraries would get those that this one blocks.
    """
    held: list[int] = []
    caught: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        for number in (*_ENDING, signal.SIGINT):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, lambda came, _frame: held.append(came))
                caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
        for came in held:
            os.kill(os.getpid(), came)


def let_ctrl_c_kill() -> None:
    """Have Ctrl-C end the process at once, as long as there is nothing to clean up.

    KeyboardInterrupt in the middle of an import is turned into other errors by some libraries.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def let_ctrl_c_raise() -> None:
    """Have Ctrl-C raise KeyboardInterrupt again, as programs know it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def die_by(number: int) -> None:
    """End this process by a signal, as if nobody had handled it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # it is blocked


def interrupted_at_exit() -> int:
    """Have the process die of SIGINT when the interpreter has ended; return its exit code."""
    end_by_signal(signal.SIGINT)
    return 128 + signal.SIGINT


def forget_half_imports() -> None:
    """Remove what is left of imports of the program that did not end: saving imports them anew."""
    for package in _OUR_LIBRARIES:
        if package in sys.modules:
            continue
        for name, module in list(sys.modules.items()):
            loader = getattr(getattr(module, "__spec__", None), "loader", None)
            # A native module can be set up only once in a process.
            if name.startswith(f"{package}.") and not isinstance(loader, ExtensionFileLoader):
                del sys.modules[name]


def _is_in_our_way() -> bool:
    """Tell whether the program is in the middle of what saving would have to wait for.

    It is half-way through an import of what we import, or starts a thread.
    """
    modules = (sys.modules.get(name) for name in _OUR_LIBRARIES)
    specs = (getattr(module, "__spec__", None) for module in modules)
    if any(getattr(spec, "_initializing", False) for spec in specs):
        return True
    lock: Any = getattr(threading, "_active_limbo_lock", None)
    if lock is None:
        return False
    if not lock.acquire(blocking=False):
        return True
    lock.release()
    return False


def _trip_again() -> None:
    time.sleep(_RETRY_S)
    _thread.interrupt_main(_STAND_IN)
