"""What the elements of a result list look into: columns derived once for a trace."""

from __future__ import annotations

import sys
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stepscope.analysis.averages import single_events
from stepscope.analysis.launches import device_name, launches
from stepscope.analysis.tree import call_tree

if TYPE_CHECKING:
    from stepscope.analysis.averages import Averages
    from stepscope.analysis.launches import Launches
    from stepscope.analysis.tree import CallTree
    from stepscope.trace.model import Trace


class DeviceType(IntEnum):
    """torch.autograd.DeviceType for programs without torch: the same names and values."""

    CPU = 0
    CUDA = 1
    XPU = 12
    MTIA = 19
    PrivateUse1 = 20


class EventColumns:
    """What all events of one trace look into; derived when first asked for."""

    def __init__(self, trace: Trace) -> None:
        """Derive nothing yet."""
        self.trace = trace

    def __reduce__(self) -> tuple[type[EventColumns], tuple[Trace]]:
        """Pickle the trace; the rest can be derived again."""
        return EventColumns, (self.trace,)

    @cached_property
    def tree(self) -> CallTree:
        """Which slices are events, and how they nest."""
        return call_tree(self.trace)

    @cached_property
    def each(self) -> Averages:
        """The times of every event."""
        return single_events(self.tree)

    @cached_property
    def launches(self) -> Launches | None:
        """Which event launched which device work."""
        return launches(self.tree)

    @cached_property
    def use_device(self) -> str | None:
        """The name of the device in the trace, None without one."""
        return device_name(self.trace)

    def device_type(self, on_device: bool) -> Any:
        """Return torch's own enum where torch is in use, else ours."""
        name = "CPU"
        if on_device:
            device = self.use_device or ""
            name = {"mtia": "MTIA", "xpu": "XPU", "privateuse1": "PrivateUse1"}.get(device, "CUDA")
        autograd = getattr(sys.modules.get("torch"), "autograd", None)
        return getattr(getattr(autograd, "DeviceType", DeviceType), name)
