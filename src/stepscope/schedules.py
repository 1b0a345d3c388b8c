"""Schedules: what to do at each step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

__all__ = ["ProfilerAction", "Schedule", "always_record", "as_action", "schedule"]


class ProfilerAction(Enum):
    """What the profiler does during one step; equal to torch.profiler's member of that name."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3

    def __eq__(self, other: object) -> bool:
        """Compare with ours, and with torch's, which need not be imported."""
        if isinstance(other, Enum) and type(other).__name__ == type(self).__name__:
            return other.name == self.name
        return NotImplemented

    __hash__ = Enum.__hash__  # by the name, as torch's: the two find each other in a dict


Schedule = Callable[[int], ProfilerAction]


def as_action(action: Any, step: int) -> ProfilerAction:
    """Take what a schedule returned: our members, and torch's own by their name."""
    if isinstance(action, ProfilerAction):
        return action
    if isinstance(action, Enum) and type(action).__name__ == ProfilerAction.__name__:
        if action.name in ProfilerAction.__members__:
            return ProfilerAction[action.name]
        raise ValueError(f"the schedule returned {action!r} for step {step}: it is torch's own")
    raise TypeError(
        f"the schedule returned {action!r} for step {step}: it must return a ProfilerAction"
    )


def always_record(_step: int) -> ProfilerAction:
    """Record from start to stop."""
    return ProfilerAction.RECORD


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Schedule:
    """Return cycles of ``wait`` idle, ``warmup`` discarded and ``active`` recorded steps.

    ``repeat`` limits the number of cycles (0: none), ``skip_first`` steps pass before the first,
    and a ``skip_first_wait`` other than 0 leaves out the first cycle's wait.
    """
    counts = {
        "wait": wait,
        "warmup": warmup,
        "repeat": repeat,
        "skip_first": skip_first,
        "skip_first_wait": skip_first_wait,
    }
    for name, count in counts.items():
        if count < 0:
            raise AssertionError(f"Invalid profiler schedule: {name}={count} is negative")
    if active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule: active={active} records nothing; give 1 or more"
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using a warmup (warmup=0): the first recorded step pays for "
            "starting to record",
            stacklevel=2,
        )
    cycle = wait + warmup + active

    def action_at(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"a step number cannot be negative: {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        position = step % cycle
        if position < wait:
            return ProfilerAction.NONE
        if position < wait + warmup:
            return ProfilerAction.WARMUP
        if position < cycle - 1:
            return ProfilerAction.RECORD
        return ProfilerAction.RECORD_AND_SAVE

    return action_at
