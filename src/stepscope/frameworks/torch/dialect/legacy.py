"""torch.autograd.profiler's older ``profile``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

from stepscope.frameworks.torch.dialect.activity import ProfilerActivity
from stepscope.frameworks.torch.dialect.event_lists import AverageList, EventList
from stepscope.frameworks.torch.dialect.inner import torch_config
from stepscope.frameworks.torch.dialect.lowlevel import LowLevelProfile
from stepscope.notices import warn_user
from stepscope.trace.build import empty_trace

_DEVICES = tuple(activity for activity in ProfilerActivity if activity is not ProfilerActivity.CPU)

if TYPE_CHECKING:
    from stepscope.frameworks.torch.dialect.function_event import FunctionEventAvg
    from stepscope.frameworks.torch.dialect.inner import ProfilerStats
    from stepscope.frameworks.torch.dialect.private.kineto import KinetoResults


class profile(LowLevelProfile):  # noqa: N801 - torch's name
    """torch.autograd's older profiler: a context manager that has the results; enter it once."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        **more: Any,
    ) -> None:
        """Accept torch's arguments and those of LowLevelProfile."""
        self.enabled = enabled
        if not enabled:
            return
        if not use_cpu and not use_kineto:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        wanted = [ProfilerActivity.CPU] if use_cpu else []
        if use_cuda:
            warn_user(
                "The attribute `use_cuda` will be deprecated soon, please use "
                "``use_device = 'cuda'`` instead.",
                FutureWarning,
            )
        self.use_cuda = use_cuda
        device = "cuda" if use_cuda else use_device
        devices = [activity for activity in _DEVICES if activity.name.lower() == device]
        self._use_kineto = use_kineto
        self._is_of_private_use = device is not None and device == _private_use_name()
        if device is not None and not devices and not self._is_of_private_use:
            warn_user(f"The {device} is not a valid device option.")
        wanted += devices
        more.pop("activity_filters", None)
        super().__init__(
            activities=wanted,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            **more,
        )
        self.use_cpu = use_cpu
        self.use_cuda = use_cuda and ProfilerActivity.CUDA in self.activities
        self.entered = False

    def __enter__(self) -> Self | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.enabled:
            self.stop()

    @property
    def function_events(self) -> EventList:
        if self._recorder.active:
            raise RuntimeError("Profiler didn't finish running")
        return self.events() if self.entered else EventList(empty_trace())

    @property
    def self_cpu_time_total(self) -> float:
        """Return the time on the host in µs; nested events count once."""
        return self.function_events.self_cpu_time_total

    def key_averages(self, *args: Any, **kwargs: Any) -> AverageList:
        """Return the events summed by name; empty before the start."""
        if not self.entered:
            return EventList(empty_trace()).key_averages()
        return super().key_averages(*args, **kwargs)

    def total_average(self) -> FunctionEventAvg:
        return self.function_events.total_average()

    @property
    def profiler_kind(self) -> Any:
        """Return the collector that torch would use for this device; needs torch."""
        states = sys.modules["torch"]._C._profiler.ProfilerState
        if not self._is_of_private_use:
            return states.KINETO
        if self._use_kineto:
            return states.KINETO_PRIVATEUSE1
        return states.KINETO_PRIVATEUSE1_FALLBACK

    @property
    def trace_id(self) -> str:
        return self.get_trace_id() or ""

    @property
    def kineto_results(self) -> KinetoResults | None:
        """Return the events in the form that torch's own tools read; None before the end."""
        return self._kineto_results()

    @property
    def kineto_activities(self) -> set[Any]:
        return self.activities

    @property
    def _stats(self) -> ProfilerStats | None:  # type: ignore[override]
        return self._current_stats()

    def config(self, create_trace_id: bool = False) -> Any:
        """Return the options in torch's own form; needs torch."""
        return torch_config(self, create_trace_id)

    def table(self, *args: Any, **kwargs: Any) -> str:
        return self.function_events.table(*args, **kwargs)

    def __str__(self) -> str:
        if not self.entered or self._recorder.active:
            return "<unfinished torch.autograd.profile>"
        return self.table()

    __repr__ = __str__


def _private_use_name() -> str | None:
    """Return the program's name for its own kind of device, if torch was given one."""
    module = sys.modules.get("torch.autograd.profiler")
    named: Any = getattr(module, "_get_privateuse1_backend_name", None)
    if named is None:
        return None
    name: str = named()
    return None if name == "privateuseone" else name
