"""What makes a recording write itself out: a slow step, high memory use, a signal, an exception.

Captures are limited in number and rate. What happens while the last one is young waits for the
next, which still holds it: a ring is longer than the pause between two captures.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepscope.arguments import shown
from stepscope.live.captures import write_capture
from stepscope.notices import notify
from stepscope.units import duration_text, size_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.live.steps import StepWatch
    from stepscope.record.running import Recorder

_EVERY_S = 0.25
_TOLD = 3  # reasons of a capture
_AGAIN = 0.9  # of the mark: memory has to fall below before it counts as rising over it again


@dataclass(frozen=True, slots=True)
class Triggers:
    """When to capture, and how often at most."""

    slow_step: float | None = None  # times the median of the steps before
    memory_bytes: int | None = None  # resident memory
    on_exception: bool = False  # that nobody catches, on any thread
    on_signal: int | None = None
    most: int = 20  # captures
    every_s: float = 10.0  # between two of them

    def __post_init__(self) -> None:
        """Reject what would never come, or always."""
        if self.slow_step is not None and not self.slow_step > 1:
            raise ValueError(f"a slow step takes {self.slow_step} x the median: give more than 1")
        if self.memory_bytes is not None and self.memory_bytes <= 0:
            raise ValueError(
                f"{shown(self.memory_bytes)} bytes is not a memory threshold: give more than 0"
            )

    def __bool__(self) -> bool:
        """Tell whether there is any."""
        wanted = (self.slow_step, self.memory_bytes, self.on_signal)
        return self.on_exception or any(each is not None for each in wanted)


@dataclass
class _Waiting:
    """What has happened and is not captured yet."""

    by: str
    reason: str
    steps: list[dict[str, Any]] = field(default_factory=list)


class TriggerWatch:
    """Watches a recorder from a thread of its own, until it is stopped."""

    def __init__(self, recorder: Recorder, triggers: Triggers, steps: StepWatch) -> None:
        """Take what records, what to watch for, and the steps."""
        self._recorder = recorder
        self._triggers = triggers
        self._steps = steps
        self._waiting: list[_Waiting] = []
        self._lock = threading.RLock()  # a signal may come at any time
        self._captured = 0
        self._captured_at = float("-inf")
        self._over_mark = False
        self._seen = 0  # steps
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin to watch."""
        if not self._triggers:
            return
        if self._triggers.on_exception:
            self._watch_exceptions()
        if self._triggers.on_signal is not None:
            self._watch_signal(self._triggers.on_signal)
        self._thread = threading.Thread(target=self._run, name="stepscope triggers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer; what waits is captured now."""
        self._ended.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        while self._undo:
            self._undo.pop()()
        if self._triggers:
            self._look()
            self._capture_waiting(now=True)

    def fire(self, by: str, reason: str) -> None:
        """Have something captured: at once, or when the last capture is old enough."""
        with self._lock:
            self._waiting.append(_Waiting(by, reason))

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            if not self._recorder.active:
                return
            try:
                self._look()
                self._capture_waiting()
            except Exception as error:  # of ours: the program has nothing to do with it
                notify(f"triggers are off: {type(error).__name__}: {error}")
                return

    def _look(self) -> None:
        if self._triggers.slow_step is not None:
            self._look_at_steps(self._triggers.slow_step)
        mark = self._triggers.memory_bytes
        if mark is not None:
            used = resident_bytes()
            if used > mark and not self._over_mark:
                self.fire("memory", f"memory {size_text(used)}, over {size_text(mark)}")
            self._over_mark = used > (mark * _AGAIN if self._over_mark else mark)

    def _look_at_steps(self, times: float) -> None:
        median_ns = self._steps.median_ns()
        slow = []
        steps, self._seen = self._steps.after(self._seen)
        for step in steps:
            if median_ns is not None and step.duration_ns > times * median_ns:
                slow.append((step, step.duration_ns / median_ns))
            else:
                median_ns = median_ns or self._steps.median_ns()
        if not slow:
            return
        worst, ratio = max(slow, key=lambda each: each[0].duration_ns)
        told = f"step {worst.number} took {duration_text(worst.duration_ns)}, {ratio:.1f} x"
        named = [{"step": s.number, "start_ns": s.start_ns, "end_ns": s.end_ns} for s, _ in slow]
        with self._lock:
            self._waiting.append(_Waiting("slow step", f"{told} the median", named))

    def _capture_waiting(self, *, now: bool = False) -> None:
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
        reasons = list(dict.fromkeys(each.reason for each in waiting))
        rest = f"; and {len(reasons) - _TOLD} more" if len(reasons) > _TOLD else ""
        why = {
            "reason": "; ".join(reasons[:_TOLD]) + rest,
            "by": ", ".join(dict.fromkeys(each.by for each in waiting)),
            "slow_steps": [step for each in waiting for step in each.steps],
        }
        write_capture(self._recorder, why)

    def _watch_exceptions(self) -> None:
        theirs, of_threads = sys.excepthook, threading.excepthook

        def told(kind: type[BaseException], error: BaseException | None) -> None:
            if not issubclass(kind, SystemExit | KeyboardInterrupt):
                text = f"{error}".partition("\n")[0]
                self.fire("exception", f"{kind.__name__}: {text}" if text else kind.__name__)
                self._capture_waiting()

        def excepthook(kind: Any, error: Any, traceback: Any) -> None:
            theirs(kind, error, traceback)
            told(kind, error)

        def thread_hook(args: Any) -> None:
            of_threads(args)
            told(args.exc_type, args.exc_value)

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
            self.fire("signal", name)

        try:
            signal.signal(number, handle)
        except ValueError:  # not on the main thread
            notify(f"{name} will not trigger captures: only the main thread can watch for signals")
            return

        def undo() -> None:
            if signal.getsignal(number) is handle:
                signal.signal(number, signal.SIG_DFL)

        self._undo.append(undo)


def resident_bytes() -> int:
    """Return this process's resident memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - asked four times a second
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0
