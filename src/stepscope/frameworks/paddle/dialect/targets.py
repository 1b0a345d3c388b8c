"""paddle.profiler's targets, and which of them this machine has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.enums import NamedAlike, member_of
from stepscope.frameworks.cuda.activity import cuda_available
from stepscope.notices import warn_user

if TYPE_CHECKING:
    from collections.abc import Iterable


class ProfilerTarget(NamedAlike):
    """A kind of device to record; equal to paddle.profiler's member of that name."""

    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM_DEVICE = 3


def supported_targets() -> set[ProfilerTarget]:
    device = {ProfilerTarget.GPU} if cuda_available() else set()
    return {ProfilerTarget.CPU} | device


def chosen_targets(wanted: Iterable[Any] | None) -> set[ProfilerTarget]:
    """Return the requested targets that can be recorded; warn about the others."""
    supported = supported_targets()
    asked = [member_of(ProfilerTarget, target, "the target") for target in wanted or ()]
    for target in dict.fromkeys(asked):
        if target not in supported:
            warn_user(f"Profiling {target} is not supported here: it is ignored")
    return supported.intersection(asked) if asked else supported
