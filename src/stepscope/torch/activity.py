"""What torch.profiler calls activities: which of them are asked for, and which this machine has."""

from __future__ import annotations

import sys
import warnings
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class ProfilerActivity(Enum):
    """A group of things to record."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """Return what can be recorded on this machine."""
    return {ProfilerActivity.CPU}


def chosen_activities(
    wanted: Iterable[Any] | None, use_cuda: bool | None = None
) -> list[ProfilerActivity]:
    """Return what to record of what was asked for, with torch's warnings and errors."""
    activities = [ProfilerActivity.CPU] if wanted is None else [_known(each) for each in wanted]
    if use_cuda is not None:
        warnings.warn(
            "`use_cuda` is deprecated, use `activities` argument instead",
            FutureWarning,
            stacklevel=3,
        )
        if use_cuda and ProfilerActivity.CUDA not in activities:
            activities.append(ProfilerActivity.CUDA)
    for activity in activities:
        if activities.count(activity) > 1:
            raise ValueError(f"activities holds {activity.name} more than once: {activities}")
    supported = supported_activities()
    left = [activity for activity in activities if activity in supported]
    for activity in activities:
        if activity not in supported and left:
            warnings.warn(_missing(activity), stacklevel=3)
    if not left:
        named = ", ".join(_missing(activity) for activity in activities)
        raise AssertionError(f"No valid profiler activities found: {named or 'the list is empty'}")
    return left


def _known(activity: Any) -> ProfilerActivity:
    """Take our members, and torch's own by their name."""
    if isinstance(activity, ProfilerActivity):
        return activity
    name = getattr(activity, "name", None)
    if isinstance(name, str) and name in ProfilerActivity.__members__:
        return ProfilerActivity[name]
    choices = ", ".join(ProfilerActivity.__members__)
    raise TypeError(f"{activity!r} is no ProfilerActivity; choose of {choices}")


def _missing(activity: ProfilerActivity) -> str:
    if activity is ProfilerActivity.CUDA and not _cuda_is_available():
        return "CUDA is not available, disabling CUDA profiling"
    return f"{activity.name} is not recorded by this version of Stepscope, only the host side is"


def _cuda_is_available() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_available())
