"""The Session: one state machine for every dialect, over a Recorder that yields Traces."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.arguments import function, takes
from stepscope.notices import warn_user
from stepscope.record.interrupts import HeldSignals
from stepscope.record.recorder import Recorder
from stepscope.record.schedules import (
    ProfilerAction,
    always_record,
    as_action,
    first_recorded,
)
from stepscope.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from enum import Enum

    from stepscope.record.source import Source
    from stepscope.trace.model import Trace

    _Transitions = Mapping[
        tuple[ProfilerAction, ProfilerAction | None], tuple[Callable[["Session"], None], ...]
    ]

NONE = ProfilerAction.NONE
WARMUP = ProfilerAction.WARMUP
RECORD = ProfilerAction.RECORD
RECORD_AND_SAVE = ProfilerAction.RECORD_AND_SAVE


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect's names for a Session, and its handling of a cycle that is cut short."""

    states: type[Enum] = ProfilerAction  # the dialect's enum of the actions
    step_name: str = "ProfilerStep#"
    cut_cycle: str = "Incorrect schedule: {} followed by {}"  # how the warning begins
    delivers_cut_cycles: bool = False


TORCH = Dialect()


class Session:
    """Records the events of its sources on a schedule, one Trace per cycle."""

    def __init__(
        self,
        recorder: Recorder | Sequence[Source],
        *,
        schedule: Callable[[int], Any] | None = None,
        on_prepare: Callable[[], object] | None = None,
        on_trace: Callable[[], object] | None = None,
        dialect: Dialect = TORCH,
        step_range: Callable[[str], Any] = _native.record_function,
    ) -> None:
        """Take a recorder, or the sources for one.

        ``on_prepare`` is called before each cycle, ``on_trace`` when ``trace`` holds one;
        ``step_range`` makes the range of a step.
        """
        self.recorder = recorder if isinstance(recorder, Recorder) else Recorder(recorder)
        if schedule is not None:
            _check_schedule(schedule)
        self.schedule: Callable[[int], Any] = schedule or always_record
        self.on_prepare = on_prepare
        self.on_trace = on_trace
        self._dialect = dialect
        self.transitions = _DELIVERING_TRANSITIONS if dialect.delivers_cut_cycles else _TRANSITIONS
        self.step_num = 0
        self.action = self._action_at(0)
        self.running = False
        self._was_started = False
        self.marks_steps = schedule is not None
        self.step_range: Any | None = None
        self._make_range = step_range
        self._undelivered = False
        self._warned = False  # about a cycle that was cut short
        self._pid = os.getpid()

    def start(self) -> None:
        """Begin the first step."""
        if self.running and self._alive():
            raise RuntimeError("this profiler is already started: stop() it before start()")
        try:
            with HeldSignals():
                self._begin()
                self._go(NONE, self.action)
                self._open_step()
        except BaseException:
            self._give_up()
            raise

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._undelivered = False
        self.running = self._was_started = True
        self.recorder.open()

    def step(self) -> None:
        """End this step and begin the next."""
        if self.running and not self._alive():
            return
        before, after = self.action, self._action_at(self.step_num + 1)
        if self.running and after is before and after is not RECORD_AND_SAVE:
            # Most steps do not change what is recorded: nothing could be left half done.
            self.step_num += 1
            if self.step_range is not None:
                self.step_range.__exit__(None, None, None)
                self._enter_step()
            return
        with HeldSignals():
            self._close_step()
            self.step_num += 1
            self.action = after
            if not self.running and not self._was_started and before is NONE is not after:
                self._begin()  # a program that steps before it starts records all the same
            if self.running:
                self._go(before, self.action)
            if self.running:
                self._open_step()

    def stop(self) -> None:
        """End the run; what was recorded and not yet delivered is delivered."""
        with HeldSignals():
            if not self.running:
                return
            self.running = False
            if not self._alive():
                return
            self._close_step()
            is_first = self.recorder.cycle is None
            try:
                self._go(self.action, None)
            finally:
                self.recorder.close()
            if is_first and self._ends_unrecorded():
                warn_user(self.why_nothing())

    @property
    def trace(self) -> Trace | None:
        """Return the last finished cycle, or all of them; None before the first."""
        return self.recorder.trace

    @property
    def recording(self) -> bool:
        """Tell whether events are being recorded now."""
        return self.recorder.active

    def why_nothing(self) -> str:
        """Return why there is no trace: how many steps came, and how many the schedule needs."""
        if not self.marks_steps:
            return "nothing was recorded between start() and stop()"
        came = count_text(self.step_num, "time")
        first = first_recorded(self.schedule)
        if first is None:
            steps = f"none of the steps 0 to {self.step_num}"
            return f"the schedule recorded {steps} (step() was called {came})"
        return (
            f"nothing was recorded: step() was called {came}, and the schedule needs "
            f"{count_text(first, 'call')} before it records; call step() at the end of each step, "
            "or shorten wait and warm-up"
        )

    def _ends_unrecorded(self) -> bool:
        """Return whether the run ends in an unrecorded step, without a warning so far."""
        return self.marks_steps and not self._warned and self.action in (NONE, WARMUP)

    def _alive(self) -> bool:
        """Tell whether this is the process that started; a forked child is clean."""
        return os.getpid() == self._pid

    def _action_at(self, step: int) -> ProfilerAction:
        return as_action(self.schedule(step), step, self._dialect.states)

    def _go(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        # A failing callback does not end the run: the moves after it are made, then it raises.
        # Any other failure ends the run, with everything turned off.
        failure: BaseException | None = None
        for move in self.transitions[before, after]:
            try:
                move(self)
            except BaseException as error:
                if move is not Session._deliver:
                    self._give_up()
                    raise
                failure = error
            if after is not None and not self.running:
                break  # the callback stopped us
        if failure is not None:
            raise failure

    def _give_up(self) -> None:
        """Turn everything off after a failure."""
        self.running = False
        self.recorder.abandon()
        self.recorder.close()

    def _open_step(self) -> None:
        if self.marks_steps and self.recorder.active:
            self.recorder.note_thread_names()
            self._enter_step()

    def _enter_step(self) -> None:
        self.step_range = self._make_range(f"{self._dialect.step_name}{self.step_num}")
        self.step_range.__enter__()

    def _close_step(self) -> None:
        if self.step_range is not None:
            self.step_range.__exit__(None, None, None)
            self.step_range = None

    # The moves that the transition tables name.

    def _prepare(self) -> None:
        if self.on_prepare is not None:
            self.on_prepare()
        self.recorder.prepare()

    def _record(self) -> None:
        self.recorder.start()

    def _save(self) -> None:
        self._undelivered = self.recorder.finish() is not None or self._undelivered

    def _deliver(self) -> None:
        if self._undelivered and self.on_trace is not None:
            self._undelivered = False
            self.on_trace()

    def _warn_unrecorded(self) -> None:
        self._warn(WARMUP, "nothing of this cycle was recorded")

    def _warn_unsaved(self) -> None:
        self._warn(RECORD, "this cycle's trace is kept, but on_trace_ready is not called")

    def _warn_delivered(self) -> None:
        self._warn(RECORD, "this cycle's trace is still passed to on_trace_ready")

    def _warn(self, before: ProfilerAction, consequence: str) -> None:
        self._warned = True
        after = self.action if self.running else NONE
        begin = self._dialect.cut_cycle.format(self._word(before), self._word(after))
        warn_user(
            f"{begin} at step {self.step_num}; {consequence}. "
            f"End a cycle with {self._word(RECORD_AND_SAVE)}."
        )

    def _word(self, action: ProfilerAction) -> str:
        return self._dialect.states(action.value).name


_A_SCHEDULE = "a function of the step number, such as schedule(wait=1, warmup=1, active=3)"


def _check_schedule(schedule: Any) -> None:
    makers = ("schedule", "make_scheduler")
    function("schedule", schedule, _A_SCHEDULE, makers=makers)
    takes("schedule", schedule, 1, _A_SCHEDULE)


# Short names for the tables.
_prepare = Session._prepare
_record = Session._record
_save = Session._save
_deliver = Session._deliver
_warn_unrecorded = Session._warn_unrecorded
_warn_unsaved = Session._warn_unsaved
_warn_delivered = Session._warn_delivered

# What happens between two steps, by the actions of both; None is the end of the program's run.
_TRANSITIONS: _Transitions = {
    (NONE, NONE): (),
    (NONE, WARMUP): (_prepare,),
    (NONE, RECORD): (_prepare, _record),
    (NONE, RECORD_AND_SAVE): (_prepare, _record),
    (NONE, None): (),
    (WARMUP, NONE): (_warn_unrecorded,),
    (WARMUP, WARMUP): (),
    (WARMUP, RECORD): (_record,),
    (WARMUP, RECORD_AND_SAVE): (_record,),
    (WARMUP, None): (_record, _save),
    (RECORD, NONE): (_save, _warn_unsaved),
    (RECORD, WARMUP): (_save, _warn_unsaved, _prepare),
    (RECORD, RECORD): (),
    (RECORD, RECORD_AND_SAVE): (),
    (RECORD, None): (_save, _deliver),
    (RECORD_AND_SAVE, NONE): (_save, _deliver),
    (RECORD_AND_SAVE, WARMUP): (_save, _deliver, _prepare),
    (RECORD_AND_SAVE, RECORD): (_save, _deliver, _prepare, _record),
    (RECORD_AND_SAVE, RECORD_AND_SAVE): (_save, _deliver, _prepare, _record),
    (RECORD_AND_SAVE, None): (_save, _deliver),
}

# Here a cycle that was cut short is delivered, and a warm-up does not replace the last trace.
_DELIVERING_TRANSITIONS: _Transitions = {
    **_TRANSITIONS,
    (WARMUP, None): (_warn_unrecorded,),
    (RECORD, NONE): (_save, _deliver, _warn_delivered),
    (RECORD, WARMUP): (_save, _deliver, _warn_delivered, _prepare),
}
