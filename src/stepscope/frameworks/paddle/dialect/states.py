"""paddle.profiler's states of a schedule, and its makers of schedules."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from stepscope.arguments import function, shown
from stepscope.enums import NamedAlike
from stepscope.notices import warn_user
from stepscope.record.schedules import FIRST_RECORDED, cycles, first_recorded
from stepscope.record.schedules import steps as steps_of


class ProfilerState(NamedAlike):
    """The profiler's state during a step; equal to paddle.profiler's member of that name."""

    CLOSED = 0
    READY = 1
    RECORD = 2
    RECORD_AND_RETURN = 3


_A_SCHEDULER = "a function of the step number, such as make_scheduler(closed=1, ready=1, record=3)"

Scheduler = Callable[[int], ProfilerState]


def make_scheduler(
    *, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0
) -> Scheduler:
    """Return cycles of ``closed`` idle, ``ready`` discarded and ``record`` recorded steps.

    ``repeat`` limits the number of cycles (0: no limit). ``skip_first`` steps precede the first
    cycle.
    """
    closed, ready, record = (
        steps_of("closed", closed),
        steps_of("ready", ready),
        steps_of("record", record),
    )
    repeat, skip_first = steps_of("repeat", repeat), steps_of("skip_first", skip_first)
    counts = {"closed": closed, "ready": ready, "repeat": repeat, "skip_first": skip_first}
    wrong = [f"{name}={count} is negative" for name, count in counts.items() if count < 0]
    if record <= 0:
        wrong.append(f"record={record} records nothing")
    if wrong:
        raise AssertionError(f"Invalid profiler scheduler arguments: {', '.join(wrong)}")
    if ready == 0:
        warn_user(
            "make_scheduler(ready=0): the first recorded step includes the cost of starting "
            "to record; use ready=1 or more to exclude it"
        )
    action_at = cycles(
        wait=closed, warmup=ready, active=record, repeat=repeat, skip_first=skip_first
    )

    def state_at(step: int) -> ProfilerState:
        return ProfilerState(action_at(step).value)

    setattr(state_at, FIRST_RECORDED, first_recorded(action_at))
    return state_at


def as_scheduler(scheduler: Any) -> Scheduler:
    """Convert what ``Profiler`` accepts: a function, a pair of steps, or None."""
    if scheduler is None:
        return _always_record
    if callable(scheduler):
        function("scheduler", scheduler, _A_SCHEDULER, makers=("make_scheduler", "schedule"))
        return scheduler  # type: ignore[no-any-return]  # what it returns is looked at each time
    if isinstance(scheduler, Sequence) and not isinstance(scheduler, str):
        return _recording(scheduler)
    raise TypeError(
        f"scheduler={shown(scheduler)}: pass a function from step number to ProfilerState, "
        "a pair of steps (first, end), or None"
    )


def _recording(steps: Sequence[Any]) -> Scheduler:
    try:
        first, end = map(operator.index, steps)
    except (TypeError, ValueError):
        raise ValueError(
            f"scheduler={steps!r}: a pair of steps is two whole numbers, (first, end)"
        ) from None
    if not max(first, 0) < end:
        raise ValueError(
            f"scheduler={steps!r} records nothing: the steps from {first} on, before {end}"
        )
    if first <= 0:
        return make_scheduler(closed=0, ready=0, record=end, repeat=1)
    return make_scheduler(closed=first - 1, ready=1, record=end - first, repeat=1)


def _always_record(_step: int) -> ProfilerState:
    return ProfilerState.RECORD
