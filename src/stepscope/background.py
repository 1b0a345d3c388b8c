"""Files that are written in the background after a recording has ended.

One thread writes them in order. It is no daemon: a program that ends waits for its files. A forked
child starts without jobs; the parent writes its own files.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from stepscope._native import shielded
from stepscope.notices import notify

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE = 50_000
"""Events from which on our own handlers write in the background; fewer are written in a moment."""

_MOST_WAITING = 4  # traces in memory; adding another one blocks
_QUIET_S = 1.0  # how long an exit waits without a notice


class Exports:
    """The files that are being written or wait for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[tuple[str, Callable[[], object]]] = deque()
        self._thread: threading.Thread | None = None
        self._errors: list[Exception] = []
        self._awaited_at_exit = False

    def submit(self, what: str, job: Callable[[], object]) -> None:
        """Do a job on the other thread; ``what`` is the file that it writes."""
        self._wait_at_exit_too()
        with self._changed:
            self._changed.wait_for(lambda: len(self._jobs) < _MOST_WAITING)
            self._jobs.append((what, job))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="stepscope exports")
                self._thread.start()

    def waiting(self) -> list[str]:
        """Return the files that are not written yet."""
        with self._changed:
            return [what for what, _ in self._jobs]

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all files are written; raise the first error. Return False after a timeout."""
        if threading.current_thread() is self._thread:
            return True  # a job that waits for itself
        with self._changed:
            done = self._changed.wait_for(lambda: not self._jobs, timeout_s)
            errors, self._errors = self._errors, []
        if errors:
            raise errors[0]
        return done

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._jobs:
                    self._thread = None
                    return
                what, job = self._jobs[0]
            try:
                job()
            except Exception as error:
                notify(f"{what} was not written: {type(error).__name__}: {error}")
                with self._changed:
                    self._errors = [*self._errors[-8:], error]
            job = _nothing  # frees the trace
            with self._changed:
                self._jobs.popleft()
                self._changed.notify_all()

    def _wait_at_exit_too(self) -> None:
        register: Any = getattr(threading, "_register_atexit", None)
        if register is None or self._awaited_at_exit:
            return  # Python waits for the thread anyway, without a notice
        self._awaited_at_exit = True
        try:
            register(self._wait_at_exit)
        except RuntimeError:  # the program is ending already
            return

    def _wait_at_exit(self) -> None:
        since = time.monotonic()
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: not self._jobs, _QUIET_S):
                    return
                unwritten = [what for what, _ in self._jobs]
            rest = f" and {len(unwritten) - 1} more" if unwritten[1:] else ""
            waited = time.monotonic() - since
            notify(f"writing {unwritten[0]}{rest} before the program ends ({waited:.0f} s)")

    def forget(self) -> None:
        """Start without jobs, in a forked child."""
        self.__init__()  # type: ignore[misc]


def _nothing() -> None: ...


EXPORTS = Exports()
os.register_at_fork(after_in_child=shielded(EXPORTS.forget))


def wait_for_exports() -> None:
    """Wait until all background files are written; raise the first error."""
    EXPORTS.wait()
