"""``prof.profiler`` in torch: the older profiler inside, with the last cycle's results."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.torch.dialect.activity import ProfilerActivity

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from stepscope.frameworks.torch.dialect.event_lists import AverageList, EventList
    from stepscope.frameworks.torch.dialect.function_event import FunctionEventAvg
    from stepscope.frameworks.torch.dialect.private.kineto import KinetoResults


@dataclass(slots=True)
class ProfilerStats:
    """How long the parts of recording took, under torch's names."""

    profiling_window_duration_sec: float = 0
    number_of_events: int = 0
    profiler_prepare_call_duration_us: int = 0
    profiler_enable_call_duration_us: int = 0
    profiler_disable_call_duration_us: int = 0
    parse_kineto_call_duration_us: int = 0
    function_events_build_tree_call_duration_us: int = 0


class Inner:
    """The events of a profiler's last cycle, under the names that older code uses."""

    def __init__(self, profile: Any) -> None:
        self._profile = profile

    def __getattr__(self, name: str) -> Any:
        """Return the outer profiler's attribute: its options, its trace id."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._profile, name)

    @property
    def function_events(self) -> EventList:
        events: EventList = self._profile.events()
        return events

    @property
    def trace_id(self) -> str:
        return self._profile.get_trace_id() or ""

    @property
    def kineto_results(self) -> KinetoResults | None:
        """Return the events in the form that torch's own tools read; None while recording."""
        results: KinetoResults | None = self._profile._kineto_results()
        return results

    @property
    def kineto_activities(self) -> set[Any]:
        return set(getattr(self._profile, "activities", ()))

    @property
    def use_cpu(self) -> bool:
        return ProfilerActivity.CPU in self.kineto_activities

    enabled = True
    entered = True
    use_cuda = False

    @property
    def profiler_kind(self) -> Any:
        """Return torch's name for the collector in use; needs torch."""
        return sys.modules["torch"]._C._profiler.ProfilerState.KINETO

    @property
    def _stats(self) -> ProfilerStats:
        stats: ProfilerStats = self._profile._current_stats()
        return stats

    def config(self, create_trace_id: bool = False) -> Any:
        """Return the options in torch's own form; needs torch."""
        return torch_config(self._profile, create_trace_id)

    @property
    def self_cpu_time_total(self) -> float:
        """Return the time on the host in µs; nested events count once."""
        return self.function_events.self_cpu_time_total

    def total_average(self) -> FunctionEventAvg:
        return self.function_events.total_average()

    def key_averages(self, *args: Any, **kwargs: Any) -> AverageList:
        averages: AverageList = self._profile.key_averages(*args, **kwargs)
        return averages

    def table(self, *args: Any, **kwargs: Any) -> str:
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(
        self, path: str | os.PathLike[str], metadata: object = None, use_python_export: bool = False
    ) -> None:
        """Write the trace for Chrome, Perfetto and others, with our own writer."""
        del metadata, use_python_export
        self._profile.export_chrome_trace(path)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        self._profile.export_stacks(path, metric)

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        self._profile.toggle_collection_dynamic(enabled, activities)

    def _ensure_function_events(self) -> None:
        """Do nothing: results are ready at once."""

    def __str__(self) -> str:
        if self._profile._recorder.active or self._profile._recorder.trace is None:
            return "<unfinished torch.autograd.profile>"
        return str(self.function_events)

    __repr__ = __str__


def torch_config(profile: Any, create_trace_id: bool) -> Any:
    """Return torch's ``ProfilerConfig`` for a profiler's options; needs torch."""
    native = sys.modules["torch"]._C._profiler
    if create_trace_id:
        profile._new_trace_id()
    experimental = profile.experimental_config
    if not isinstance(experimental, native._ExperimentalConfig):
        experimental = native._ExperimentalConfig()
    return native.ProfilerConfig(
        native.ProfilerState.KINETO,
        bool(profile.record_shapes),
        bool(profile.profile_memory),
        bool(profile.with_stack),
        bool(profile.with_flops),
        bool(profile.with_modules),
        experimental,
        profile.get_trace_id() or "",
    )
