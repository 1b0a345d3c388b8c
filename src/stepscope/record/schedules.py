"""Schedules: what to do at each step."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

from stepscope.arguments import whole
from stepscope.enums import NamedAlike, is_alike

__all__ = ["ProfilerAction", "Schedule", "always_record", "as_action", "cycles", "schedule"]


class ProfilerAction(NamedAlike):
    """What the profiler does during one step; equal to torch.profiler's member of that name."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4  # torch's, for itself; no schedule may return it


Schedule = Callable[[int], ProfilerAction]
FIRST_RECORDED = "first_recorded"  # the attribute by which a schedule of ours tells


def as_action(state: Any, step: int, states: type[Enum] = ProfilerAction) -> ProfilerAction:
    """Convert what a schedule returned: our members, or the framework's own by name.

    ``states`` is the dialect's enum of the actions; the values are the same.
    """
    if getattr(state, "name", "") == "DEVICE_STOPPED":
        raise ValueError(
            "ProfilerAction.DEVICE_STOPPED is set internally by the profiler and must not be "
            f"returned by a user-provided schedule: it was, for step {step}"
        )
    if isinstance(state, ProfilerAction):
        return state
    if isinstance(state, Enum) and is_alike(state, states):
        if (action := _action_of(state, states)) is not None:
            return action
        raise ValueError(f"the schedule returned {state!r} for step {step}: no such state is known")
    raise TypeError(
        f"the schedule returned {state!r} for step {step}: it must return a {states.__name__}"
    )


@functools.cache
def _action_of(state: Enum, states: type[Enum]) -> ProfilerAction | None:
    member = states.__members__.get(state.name)
    return None if member is None else ProfilerAction(member.value)


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

    ``repeat`` limits the number of cycles (0: no limit), ``skip_first`` steps pass before the
    first, and a ``skip_first_wait`` other than 0 leaves out the first cycle's wait.
    """
    given = {
        "wait": wait,
        "warmup": warmup,
        "active": active,
        "repeat": repeat,
        "skip_first": skip_first,
        "skip_first_wait": skip_first_wait,
    }
    counts = {name: steps(name, count) for name, count in given.items()}
    for name, count in counts.items():
        if count < 0 and name != "active":
            raise AssertionError(f"Invalid profiler schedule: {name}={count} is negative")
    if counts["active"] <= 0:
        raise AssertionError(
            f"Invalid profiler schedule: active={active} records nothing; give 1 or more"
        )
    if counts["warmup"] == 0:
        warnings.warn(
            "Profiler won't be using a warmup (warmup=0): the first recorded step includes the "
            "overhead of starting to record",
            stacklevel=2,
        )
    return cycles(**counts)


def steps(name: str, count: Any) -> int:
    """Return a number of steps; what is not a whole number raises TypeError."""
    return whole(name, count, "how many steps it takes")


def first_recorded(action_at: object) -> int | None:
    """Return the first step that one of our schedules records; None for any other schedule."""
    step = getattr(action_at, FIRST_RECORDED, None)
    return step if isinstance(step, int) else None


def cycles(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int,
    skip_first: int,
    skip_first_wait: int = 0,
) -> Schedule:
    """Return what ``schedule`` returns, for arguments that were already checked."""
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

    setattr(action_at, FIRST_RECORDED, skip_first + warmup + (0 if skip_first_wait else wait))
    return action_at
