"""The Session: one state machine for every dialect. It owns the sources and yields Traces."""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING

from stepscope import _native
from stepscope.record.window import Window, range_overhead_ns
from stepscope.schedules import ProfilerAction, Schedule, always_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.record import MemoryLimit
    from stepscope.sources.base import Source
    from stepscope.trace.model import Trace

NONE = ProfilerAction.NONE
WARMUP = ProfilerAction.WARMUP
RECORD = ProfilerAction.RECORD
RECORD_AND_SAVE = ProfilerAction.RECORD_AND_SAVE

# What happens between two steps, by the actions of both; None is the end of the program's run.
# The words are methods of Session.
_TRANSITIONS: Mapping[tuple[ProfilerAction, ProfilerAction | None], tuple[str, ...]] = {
    (NONE, NONE): (),
    (NONE, WARMUP): ("_prepare",),
    (NONE, RECORD): ("_prepare", "_record"),
    (NONE, RECORD_AND_SAVE): ("_prepare", "_record"),
    (NONE, None): (),
    (WARMUP, NONE): ("_warn_unrecorded",),
    (WARMUP, WARMUP): (),
    (WARMUP, RECORD): ("_record",),
    (WARMUP, RECORD_AND_SAVE): ("_record",),
    (WARMUP, None): ("_record", "_save"),
    (RECORD, NONE): ("_save", "_warn_unsaved"),
    (RECORD, WARMUP): ("_save", "_warn_unsaved", "_prepare"),
    (RECORD, RECORD): (),
    (RECORD, RECORD_AND_SAVE): (),
    (RECORD, None): ("_save", "_deliver"),
    (RECORD_AND_SAVE, NONE): ("_save", "_deliver"),
    (RECORD_AND_SAVE, WARMUP): ("_save", "_deliver", "_prepare"),
    (RECORD_AND_SAVE, RECORD): ("_save", "_deliver", "_prepare", "_record"),
    (RECORD_AND_SAVE, RECORD_AND_SAVE): ("_save", "_deliver", "_prepare", "_record"),
    (RECORD_AND_SAVE, None): ("_save", "_deliver"),
}


class Session:
    """Records what its sources see, as a schedule says, one Trace a cycle."""

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        schedule: Schedule | None = None,
        on_trace: Callable[[], object] | None = None,
        limit: MemoryLimit | None = None,
        step_name: str = "ProfilerStep#",
    ) -> None:
        """Take the sources; ``on_trace`` is called when ``trace`` holds a finished cycle."""
        self.schedule = schedule or always_record
        self.on_trace = on_trace
        self.step_num = 0
        self.action = self._action_at(0)
        self.trace: Trace | None = None
        self.running = False
        self._sources = tuple(sources)
        self._started: list[Source] = []
        self._limit = limit
        self._mark_steps = schedule is not None
        self._step_name = step_name
        self._step_range: _native.record_function | None = None
        self._window: Window | None = None
        self._undelivered = False
        self._pid = os.getpid()

    def start(self) -> None:
        """Begin the first step."""
        if self.running and self._alive():
            raise RuntimeError("this profiler is already started: stop() it before start()")
        self._pid = os.getpid()
        self._window = None
        self._undelivered = False
        self.running = True
        self._go(NONE, self.action)
        self._open_step()

    def step(self) -> None:
        """End this step and begin the next."""
        if self.running and not self._alive():
            return
        self._close_step()
        before = self.action
        self.step_num += 1
        self.action = self._action_at(self.step_num)
        if self.running:
            self._go(before, self.action)
        if self.running:
            self._open_step()

    def stop(self) -> None:
        """End the run; what was recorded and not yet delivered is delivered."""
        if not self.running:
            return
        self.running = False
        if not self._alive():
            return
        self._close_step()
        self._go(self.action, None)

    @property
    def recording(self) -> bool:
        """Tell whether events are being recorded now."""
        return self._window is not None and self._alive()

    def _alive(self) -> bool:
        """Tell whether this is the process that started; a forked child is clean."""
        return os.getpid() == self._pid

    def _action_at(self, step: int) -> ProfilerAction:
        action = self.schedule(step)
        if not isinstance(action, ProfilerAction):
            raise TypeError(
                f"the schedule returned {action!r} for step {step}: it must return a ProfilerAction"
            )
        return action

    def _go(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        # A failing callback does not end the run: the moves after it are made, then it is heard.
        # Anything else that fails does end it, with nothing left on.
        failure: BaseException | None = None
        for move in _TRANSITIONS[before, after]:
            try:
                getattr(self, move)()
            except BaseException as error:
                if move != "_deliver":
                    self._abandon()
                    raise
                failure = error
            if after is not None and not self.running:
                break  # the callback stopped us
        if failure is not None:
            raise failure

    def _open_step(self) -> None:
        if self._mark_steps and self._window is not None:
            self._window.note_thread_names()
            self._step_range = _native.record_function(f"{self._step_name}{self.step_num}")
            self._step_range.__enter__()

    def _close_step(self) -> None:
        if self._step_range is not None:
            self._step_range.__exit__()
            self._step_range = None

    # The moves of the transition table.

    def _prepare(self) -> None:
        for source in self._sources:
            source.prepare()

    def _record(self) -> None:
        self._window = Window(self._limit)
        for source in self._sources:
            source.start()
            self._started.append(source)
        self._window.restart()

    def _stop_sources(self) -> None:
        with ExitStack() as each:  # one that fails does not keep the others running
            while self._started:
                each.callback(self._started.pop(0).stop)

    def _abandon(self) -> None:
        """Leave nothing on after a failure."""
        self.running = False
        window, self._window = self._window, None
        try:
            self._stop_sources()
        finally:
            if window is not None:
                window.close()

    def _save(self) -> None:
        window, self._window = self._window, None
        if window is None:
            return
        try:
            self._stop_sources()
        finally:
            recorded = window.close()
        from stepscope.trace.build import build
        from stepscope.trace.describe import describe_process
        from stepscope.trace.merge import merge_parts

        own = [part for source in self._sources if (part := source.collect()) is not None]
        captured = merge_parts([recorded.captured, *own])
        costs = [cost for source in self._sources if (cost := source.overhead_ns())]
        info = describe_process(
            start_ns=recorded.start_ns,
            end_ns=recorded.end_ns,
            losses=recorded.losses,
            sources={source.name: source.describe() for source in self._sources},
            overhead_ns=max(costs, default=0.0) or range_overhead_ns(),
        )
        self.trace = build(captured, info)
        self._undelivered = True

    def _deliver(self) -> None:
        if self._undelivered and self.on_trace is not None:
            self._undelivered = False
            self.on_trace()

    def _warn_unrecorded(self) -> None:
        self._warn("WARMUP", "nothing of this cycle was recorded")

    def _warn_unsaved(self) -> None:
        self._warn("RECORD", "this cycle's trace is kept, but on_trace_ready is not called")

    def _warn(self, before: str, consequence: str) -> None:
        warnings.warn(
            f"Incorrect schedule: {before} is followed by {self.action.name} at step "
            f"{self.step_num}; {consequence}. End a cycle with RECORD_AND_SAVE.",
            stacklevel=6,
        )
