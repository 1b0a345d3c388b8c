"""torch.profiler's activities, and which of them this machine has."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from stepscope.arguments import shown
from stepscope.notices import warn_user

if TYPE_CHECKING:
    from collections.abc import Iterable


class ProfilerActivity(Enum):
    """A group of things to record; equal to torch.profiler's member of that name.

    ``ours == theirs`` and ``theirs in {ours}`` are true. ``theirs == ours`` is false, as torch's
    enum is implemented in C++ and answers itself.
    """

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5

    def __eq__(self, other: object) -> bool:
        if type(other).__name__ == type(self).__name__:
            return getattr(other, "name", None) == self.name
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__


def supported_activities() -> set[ProfilerActivity]:
    """Return what can be recorded on this machine."""
    from stepscope.frameworks.cuda.activity import cuda_available

    device = {ProfilerActivity.CUDA} if cuda_available() else set()
    return {ProfilerActivity.CPU} | device


def kineto_available() -> bool:
    """Return True: Stepscope does itself what torch.profiler needs Kineto for."""
    return True


def chosen_activities(
    wanted: Iterable[Any] | None, use_cuda: bool | None = None
) -> tuple[set[ProfilerActivity], dict[ProfilerActivity, set[str]]]:
    """Return what to record of the request, with torch's warnings and errors.

    The second value has the chosen kinds of events, for activities that are recorded in part.
    """
    filters: dict[ProfilerActivity, set[str]] = {}
    activities = list(supported_activities()) if wanted is None else _listed(wanted, filters)
    if use_cuda is not None:
        warn_user("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning)
        if use_cuda and ProfilerActivity.CUDA not in activities:
            activities.append(ProfilerActivity.CUDA)
        elif not use_cuda and ProfilerActivity.CUDA in activities:
            activities.remove(ProfilerActivity.CUDA)
    for activity in activities:
        if activities.count(activity) > 1:
            raise ValueError(
                f"Activity ProfilerActivity.{activity.name} specified more than once: "
                f"activities holds {activities}"
            )
    supported = supported_activities()
    recorded = supported.intersection(activities)
    for activity in activities:
        if activity not in supported and recorded:
            warn_user(_missing(activity))
    if not recorded:
        named = ", ".join(_missing(activity) for activity in activities)
        raise AssertionError(f"No valid profiler activities found: {named or 'the list is empty'}")
    return recorded, filters


def as_activity(activity: Any) -> ProfilerActivity:
    """Accept our members, and torch's own by name."""
    if isinstance(activity, ProfilerActivity):
        return activity
    name = getattr(activity, "name", None)
    if isinstance(name, str) and name in ProfilerActivity.__members__:
        return ProfilerActivity[name]
    choices = ", ".join(ProfilerActivity.__members__)
    raise UnknownActivityError(f"{shown(activity)} is not a ProfilerActivity; use one of {choices}")


def is_activity(value: object) -> bool:
    return getattr(value, "name", None) in ProfilerActivity.__members__


class UnknownActivityError(TypeError, AssertionError):
    """Not an activity; depending on its release, torch raises either base class."""


def own_members(activities: Iterable[ProfilerActivity]) -> set[Any]:
    """Return torch's own members, which equal nothing but themselves; needs torch."""
    theirs = sys.modules["torch"].autograd.ProfilerActivity
    return {getattr(theirs, activity.name) for activity in activities}


def _listed(
    wanted: Iterable[Any], filters: dict[ProfilerActivity, set[str]]
) -> list[ProfilerActivity]:
    """Return the activities, also from torch's ``{activity: [kinds of events]}``."""
    activities = []
    for activity_or_group in wanted:
        if not isinstance(activity_or_group, Mapping):
            activities.append(as_activity(activity_or_group))
            continue
        for key, kinds in activity_or_group.items():
            activity = as_activity(key)
            activities.append(activity)
            named = getattr(kinds, "activity_types", kinds)  # kinds may be a ProfilerActivityConfig
            if named is not None:
                filters[activity] = _checked_kinds(activity, named)
    if any(filters.values()):
        chosen = {key.name: sorted(kinds) for key, kinds in filters.items() if kinds}
        warn_user(f"selecting kinds of events is not supported, all are recorded: {chosen}")
    return activities


_KINDS = {
    ProfilerActivity.CPU: (
        "CPU_OP", "CPU_INSTANT_EVENT", "CUDA_DRIVER", "CUDA_RUNTIME", "EXTERNAL_CORRELATION",
        "PRIVATEUSE1_DRIVER", "PRIVATEUSE1_RUNTIME", "PYTHON_FUNCTION", "USER_ANNOTATION",
        "XPU_DRIVER", "XPU_RUNTIME",
    ),
    ProfilerActivity.CUDA: (
        "CONCURRENT_KERNEL", "CUDA_DRIVER", "CUDA_EVENT", "CUDA_PROFILER_RANGE", "CUDA_RUNTIME",
        "CUDA_SYNC", "GPU_MEMCPY", "GPU_MEMSET", "GPU_PM_COUNTER", "GPU_USER_ANNOTATION",
        "OVERHEAD",
    ),
}  # fmt: skip
"""The kinds of events that torch knows of a group."""


def _checked_kinds(activity: ProfilerActivity, named: Iterable[str]) -> set[str]:
    kinds, members = set(named), _KINDS.get(activity)
    for kind in sorted(kinds):
        if members is not None and kind not in members:
            raise RuntimeError(
                f"Unknown or non-member activity type name: {kind!r}; those of {activity.name} "
                f"are {', '.join(members)}"
            )
    return kinds


def _missing(activity: ProfilerActivity) -> str:
    if activity is ProfilerActivity.CUDA:
        return "CUDA is not available, disabling CUDA profiling"
    return f"{activity.name} is not recorded by this version of Stepscope, only the host side is"
