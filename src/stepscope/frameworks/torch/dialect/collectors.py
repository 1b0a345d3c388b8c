"""torch 2.15's settings of its collectors, accepted with any release of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from stepscope.notices import warn_user

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class CuspyConfig:
    """torch's settings of its newer collector of device work.

    Stepscope has its own collector, which always records synchronisations; a warning names the
    other settings that are switched on here.
    """

    enable_cuda_sync_events: bool = False
    enable_environment_counters: bool = False
    enable_graph_dependencies: bool = False
    enable_event_node_ids: bool = False


@dataclass(frozen=True)
class PerformanceMetricsConfig:
    """torch's settings of hardware counters, which Stepscope does not record."""

    metric_names: Sequence[str] = ()
    sampling_interval_ms: float | None = None
    lookback_window_ms: float | None = None


@dataclass(frozen=True)
class ProfilerActivityConfig:
    """Which kinds of events of a group are recorded, and how; None for all of them."""

    activity_types: Iterable[str] | None = None
    profiler_configs: Sequence[Any] = field(default_factory=list)


SYNC_EVENTS = "enable_cuda_sync_events"
_DONE = (SYNC_EVENTS,)


def configs_of(activities: Iterable[Any]) -> dict[Any, Any]:
    """Return the settings of the activities that have some, as torch keeps them."""
    return {
        activity: value
        if hasattr(value, "activity_types")
        else ProfilerActivityConfig(activity_types=value)
        for group in activities
        if isinstance(group, Mapping)
        for activity, value in group.items()
    }


def check_collectors(activities: Iterable[Any], *, has_cpu: bool) -> None:
    """Warn once about settings of collectors that ask for what is not recorded."""
    missing: list[str] = []
    for group in activities:
        if not isinstance(group, Mapping):
            continue
        for value in group.values():
            for config in getattr(value, "profiler_configs", ()):
                kind = type(config).__name__
                if kind == "CuspyConfig" and not has_cpu:
                    raise ValueError("CuspyConfig requires ProfilerActivity.CPU among activities")
                if kind == "PerformanceMetricsConfig":
                    missing.append("the metrics of PerformanceMetricsConfig")
                elif kind == "CuspyConfig":
                    missing += [name for name in _switched_on(config) if name not in _DONE]
    if missing:
        warn_user(f"not recorded by Stepscope: {', '.join(sorted(set(missing)))}")


def sync_events_wanted(activities: Iterable[Any]) -> bool:
    """Tell whether a collector's settings ask for records of who waited for what."""
    return any(
        getattr(config, SYNC_EVENTS, False)
        for group in activities
        if isinstance(group, Mapping)
        for value in group.values()
        for config in getattr(value, "profiler_configs", ())
    )


def _switched_on(config: Any) -> list[str]:
    return [field.name for field in fields(config) if getattr(config, field.name)]
