"""What makes a recording write itself out: a slow step, high memory use, a signal, an exception.

Captures are limited in number and rate. An event soon after a capture waits for the next one; the
ring still holds it then, because it is longer than the pause between two captures.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.arguments import shown
from stepscope.notices import notify
from stepscope.units import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepscope.live.steps import StepWatch

LOOK_EVERY_S = 0.25
_MAX_REASONS_KEPT = 3  # in the description of a capture
_AGAIN = 0.9  # memory counts as rising again once it was below this share of the threshold


class Triggers(NamedTuple):
    """When to write a capture, and how often at most."""

    slow_step: float | None = None  # times the median of the earlier steps
    memory_bytes: int | None = None  # resident memory
    on_exception: bool = False  # uncaught, on any thread
    on_signal: int | None = None
    most: int = 20  # maximum number of captures
    every_s: float = 10.0  # minimum time between two captures

    def checked(self) -> Triggers:
        """Return the same, or raise a ValueError for a threshold that makes no sense."""
        if self.slow_step is not None and not self.slow_step > 1:
            raise ValueError(f"a slow step takes {self.slow_step} x the median: give more than 1")
        if self.memory_bytes is not None and self.memory_bytes <= 0:
            raise ValueError(
                f"{shown(self.memory_bytes)} bytes is not a memory threshold: give more than 0"
            )
        return self

    def __bool__(self) -> bool:
        wanted = (self.slow_step, self.memory_bytes, self.on_signal)
        return self.on_exception or any(value is not None for value in wanted)

    def within_ring(self, seconds: float) -> Triggers:
        """Capture often enough that what waits does not fall off a ring; 0 is no ring."""
        return self._replace(every_s=min(self.every_s, seconds / 2)) if seconds else self


class _Waiting(NamedTuple):
    """A reason for a capture that is not written yet."""

    by: str
    reason: str
    slow_steps: list[dict[str, int]]


class TriggerWatch:
    """Collects the reasons for captures of one recording, and has the captures written."""

    def __init__(self, triggers: Triggers, write: Callable[[Mapping[str, Any]], object]) -> None:
        """Take the triggers; ``write`` is called with the reason of each capture."""
        self._triggers = triggers
        self._write = write
        self._waiting: list[_Waiting] = []
        self._lock = threading.RLock()  # a signal may come at any time
        self._captured = 0
        self._captured_at = float("-inf")
        self._over_mark = False

    def fire(self, by: str, reason: str, slow_steps: Iterable[dict[str, int]] = ()) -> None:
        """Ask for a capture; it is written when the last one is old enough."""
        with self._lock:
            self._waiting.append(_Waiting(by, reason, list(slow_steps)))

    def look_at_steps(self, steps: StepWatch) -> None:
        """Check the steps since the last call for slow ones."""
        if self._triggers.slow_step is not None:
            slow = steps.slow_ones(self._triggers.slow_step)
            if slow is not None:
                self.fire("slow step", *slow)

    def look_at_memory(self, used_bytes: int) -> None:
        """Check whether resident memory has risen over the mark."""
        mark = self._triggers.memory_bytes
        if mark is not None:
            if used_bytes > mark and not self._over_mark:
                self.fire("memory", f"memory {size_text(used_bytes)}, over {size_text(mark)}")
            self._over_mark = used_bytes > (mark * _AGAIN if self._over_mark else mark)

    def capture_waiting(self, *, now: bool = False) -> None:
        """Write a capture for the waiting reasons, if the last capture is old enough."""
        young = time.monotonic() - self._captured_at < self._triggers.every_s
        with self._lock:
            if not self._waiting or (young and not now):
                return
            waiting, self._waiting = self._waiting, []
        if self._captured >= self._triggers.most:
            notify(
                f"captures written: {self._captured}, which is the maximum; no more will be "
                "written (--captures N raises it)"
            )
            return
        self._captured += 1
        self._captured_at = time.monotonic()
        reasons = list(dict.fromkeys(cause.reason for cause in waiting))
        left_out = len(reasons) - _MAX_REASONS_KEPT
        rest = f"; and {left_out} more" if left_out > 0 else ""
        why = {
            "reason": "; ".join(reasons[:_MAX_REASONS_KEPT]) + rest,
            "by": ", ".join(dict.fromkeys(cause.by for cause in waiting)),
            "slow_steps": [step for cause in waiting for step in cause.slow_steps],
        }
        self._write(why)


class OwnTriggers:
    """Watches the recording of this process on a thread of its own."""

    def __init__(
        self,
        triggers: Triggers,
        steps: StepWatch,
        write: Callable[[Mapping[str, Any]], object],
        is_recording: Callable[[], bool],
    ) -> None:
        self._triggers = triggers
        self._steps = steps
        self._watch = TriggerWatch(triggers, write)
        self._is_recording = is_recording
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        if not self._triggers:
            return
        if self._triggers.on_exception:
            self._watch_exceptions()
        if self._triggers.on_signal is not None:
            self._watch_signal(self._triggers.on_signal)
        self._thread = threading.Thread(target=self._run, name="stepscope triggers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch, and capture what still waits."""
        self._ended.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        while self._undo:
            self._undo.pop()()
        if self._triggers:
            self._look()
            self._watch.capture_waiting(now=True)

    def _run(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S) and self._is_recording():
            try:
                self._look()
                self._watch.capture_waiting()
            except Exception as error:  # an error of ours, which does not concern the program
                notify(f"triggers are off: {type(error).__name__}: {error}")
                return

    def _look(self) -> None:
        self._watch.look_at_memory(resident_bytes())
        self._watch.look_at_steps(self._steps)

    def _watch_exceptions(self) -> None:
        theirs, of_threads = sys.excepthook, threading.excepthook

        def fire(kind: type[BaseException], error: BaseException | None) -> None:
            if not issubclass(kind, SystemExit | KeyboardInterrupt):
                text = f"{error}".partition("\n")[0]
                reason = f"{kind.__name__}: {text}" if text else kind.__name__
                self._watch.fire("exception", reason)
                self._watch.capture_waiting()

        def excepthook(kind: Any, error: Any, traceback: Any) -> None:
            theirs(kind, error, traceback)
            fire(kind, error)

        def thread_hook(args: Any) -> None:
            of_threads(args)
            fire(args.exc_type, args.exc_value)

        sys.excepthook, threading.excepthook = excepthook, thread_hook

        def undo() -> None:
            if sys.excepthook is excepthook:
                sys.excepthook = theirs
            if threading.excepthook is thread_hook:
                threading.excepthook = of_threads

        self._undo.append(undo)

    def _watch_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            notify(f"{name} is already used by this program: it will not trigger captures")
            return

        def handle(_number: int, _frame: object) -> None:
            self._watch.fire("signal", name)

        try:
            signal.signal(number, handle)
        except ValueError:  # not on the main thread
            notify(f"{name} will not trigger captures: only the main thread can watch for signals")
            return

        def undo() -> None:
            if signal.getsignal(number) is handle:
                signal.signal(number, signal.SIG_DFL)

        self._undo.append(undo)


def resident_bytes(process: int | str = "self") -> int:
    """Return a process's resident memory; 0 if the kernel does not say."""
    try:
        pages = Path(f"/proc/{process}/statm").read_bytes().split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0
