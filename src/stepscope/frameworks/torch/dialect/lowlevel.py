"""torch.profiler's low-level profiler: recording without a schedule."""

from __future__ import annotations

import inspect
import sys
import time
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from stepscope.arguments import number, several, shown
from stepscope.frameworks.python.gc_pauses import GcPauses
from stepscope.frameworks.torch.announce import Announcement
from stepscope.frameworks.torch.dialect.activity import (
    ProfilerActivity,
    as_activity,
    chosen_activities,
    is_activity,
    own_members,
)
from stepscope.frameworks.torch.dialect.collectors import (
    SYNC_EVENTS,
    check_collectors,
    configs_of,
    sync_events_wanted,
)
from stepscope.frameworks.torch.dialect.event_columns import Fields
from stepscope.frameworks.torch.dialect.observer import ObserverSource
from stepscope.frameworks.torch.dialect.options import (
    checked_config,
    record_options,
    settings_of,
)
from stepscope.frameworks.torch.dialect.results import ProfileResults
from stepscope.frameworks.torch.options import TorchCollector
from stepscope.frameworks.torch.process_groups import distributed_info
from stepscope.frameworks.torch.switches import SWITCHES
from stepscope.record.limits import Last, MemoryLimit
from stepscope.record.options import SHAPES, StackMode
from stepscope.record.recorder import Recorder
from stepscope.record.source import known_options, make_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepscope.frameworks.torch.dialect.inner import ProfilerStats
    from stepscope.frameworks.torch.dialect.observer import TraceObserver
    from stepscope.record.options import RecordOptions
    from stepscope.record.source import Source

# Options that torch's files state, as some of their readers expect.
_OPTIONS_IN_FILES = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")


class LowLevelProfile(ProfileResults):
    """torch.profiler's ``_KinetoProfile``: start() and stop(), or their three parts.

    The arguments are torch's; ``with_stack`` may also be a StackMode. Stepscope adds
    ``memory_limit``, a bound on the buffers; ``keep``, a ring; ``torch_collector``, how PyTorch is
    recorded; and its other recording options as ``source_options``.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool | StackMode = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: object | None = None,
        execution_trace_observer: TraceObserver | None = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        record_annotations: bool = False,
        record_workers: bool = False,
        memory_limit: MemoryLimit | None = None,
        keep: Last | None = None,
        torch_collector: TorchCollector = TorchCollector.AUTO,
        **source_options: object,
    ) -> None:
        """Check the arguments; nothing is recorded before start()."""
        _check_names(source_options)
        _check(memory_limit, keep, torch_collector)
        _check_others(execution_trace_observer, post_processing_timeout_s)
        wanted, chosen = self._choose(activities, use_cuda)
        experimental_config = checked_config(experimental_config, with_stack=bool(with_stack))
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("post_processing_timeout_s must be non-negative")
        settings = settings_of(experimental_config)
        self._follow(settings)
        asks = settings.get(SYNC_EVENTS) or sync_events_wanted(wanted)
        if asks and ProfilerActivity.CUDA in chosen:
            source_options.setdefault("device_records", "sync")
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        # Results are ready at once: only 0 s is too short.
        self.post_processing_timeout_s = post_processing_timeout_s
        self.has_cudagraphs = False
        self.profiling_start_time_ns = self.profiling_end_time_ns = 0
        self.mem_tl: object | None = None
        if self._in_place_of_torch and with_stack is True:
            with_stack = StackMode.ALL_CALLS  # torch also records what libraries call
        options = record_options(
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            record_annotations=record_annotations,
            record_workers=record_workers,
            # An empty list of kinds turns the group off.
            activities={
                activity for activity in chosen if self.activity_filters.get(activity, True)
            },
        ).but(
            torch_collector=torch_collector,
            named_as_torch=self._in_place_of_torch,
            **source_options,
        )
        if keep is not None:
            memory_limit = keep.limit(memory_limit)
        sources = self._sources(options, memory_limit, settings)
        recorder = Recorder(sources, memory_limit, keep_cycles=acc_events)
        super().__init__(recorder, custom_trace_id_callback, with_flops=with_flops)
        self._metadata |= {name: 1 for name in _OPTIONS_IN_FILES if getattr(self, name)}

    def _choose(
        self, activities: Iterable[Any] | None, use_cuda: bool | None
    ) -> tuple[list[Any], set[ProfilerActivity]]:
        """Return the given activities, and those of them that are recorded."""
        several("activities", activities, is_activity, "ProfilerActivity.CPU")
        wanted = None if activities is None else list(activities)
        chosen, self.activity_filters = chosen_activities(wanted, use_cuda)
        self.activity_configs = configs_of(wanted or ())
        check_collectors(wanted or (), has_cpu=ProfilerActivity.CPU in chosen)
        self.activities: set[Any] = own_members(chosen) if self._in_place_of_torch else chosen
        self.use_device: str | None = "cuda" if ProfilerActivity.CUDA in chosen else None
        return wanted or [], chosen

    def _follow(self, settings: Mapping[str, Any]) -> None:
        """Apply torch's experimental config to how results are shown."""
        self._trace_only = bool(settings.get("trace_only"))
        self._adjusts_steps = bool(settings.get("adjust_profiler_step"))
        if self._in_place_of_torch:
            self._shows_overloads = bool(settings.get("capture_overload_names"))
            exposed = settings.get("expose_kineto_event_metadata")
            self._fields = Fields.TORCH if exposed else Fields.TORCH_NONE

    def _sources(
        self, options: RecordOptions, limit: MemoryLimit | None, settings: Mapping[str, Any]
    ) -> list[Source]:
        """Return the sources, with those that inform torch's observers."""
        sources = make_sources(options, limit)
        if settings.get("record_python_gc_info"):
            sources.append(GcPauses(0, name="Python GC"))
        sources.append(
            Announcement(
                in_place_of_torch=self._in_place_of_torch,
                shapes=options[SHAPES],
                on_start=self._add_distributed_info,
            )
        )
        if self.execution_trace_observer is not None:
            sources.insert(0, ObserverSource(self.execution_trace_observer))
        return sources

    def start(self) -> None:
        """Begin to record."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """End recording; the results are available at once."""
        self.stop_trace()

    def _warn_of_cleared(self) -> None:
        theirs = sys.modules["torch.profiler.profiler"]
        if not self.acc_events and hasattr(theirs, "_warn_once"):
            theirs._warn_once(
                "Warning: Profiler clears events at the end of each cycle. Only events from the "
                "current cycle will be reported. To keep events across cycles, set acc_events=True."
            )

    def prepare_trace(self) -> None:
        """Do all slow work, so that start_trace() is quick."""
        self._new_trace_id()
        self._recorder.prepare()

    def start_trace(self) -> None:
        """Begin to record, after prepare_trace()."""
        assert self._trace_id is not None, "prepare_trace() must come before start_trace()"
        self._recorder.start()

    def stop_trace(self) -> None:
        """End recording. A second call does nothing; a call before any recording is an error."""
        assert self._trace_id is not None, (
            "Profiler must be initialized before stopping trace: start() it first"
        )
        self._recorder.finish()

    def _stats(self) -> ProfilerStats | None:
        """Return how long the parts of the last cycle took; None before the first."""
        return self._current_stats()

    def _current_stats(self) -> ProfilerStats | None:
        if self._trace_id is None:
            return None
        stats, spent_ns = self._stats_of_cycle, self._recorder.spent_ns
        stats.profiler_prepare_call_duration_us = _us(spent_ns["prepare"])
        stats.profiler_enable_call_duration_us = _us(spent_ns["start"])
        stats.profiler_disable_call_duration_us = _us(spent_ns["stop"])
        if (trace := self._recorder.trace) is not None:
            window_ns = trace.info.end_ns - trace.info.start_ns
            stats.profiling_window_duration_sec = window_ns / 1e9
        return stats

    def _add_distributed_info(self) -> None:
        """Store the description of the process groups with the trace."""
        self.profiling_start_time_ns = time.perf_counter_ns()
        self._switches = replace(SWITCHES)
        info = self._get_distributed_info()
        if info:
            self._metadata["distributedInfo"] = info

    def _get_distributed_info(self) -> dict[str, Any] | None:
        """Return torch's description of the process groups; None if there are none."""
        return distributed_info()

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Turn recording of activities off and on again, at any time.

        Operators, ranges and memory that start while CPU is off are left out; those that are
        running are kept. Without a recording, nothing happens.
        """
        several("activities", activities, is_activity, "ProfilerActivity.CPU")
        chosen = {as_activity(activity) for activity in activities}
        if ProfilerActivity.CPU in chosen:
            if enable:
                self._recorder.resume()
            else:
                self._recorder.pause()


def _us(ns: int) -> int:
    """Return whole µs, at least one for any time but 0."""
    return max(ns // 1000, 1) if ns else 0


def _check_names(given: Iterable[str]) -> None:
    """Reject a misspelled argument, and suggest the one that was meant."""
    options = known_options()
    for name in given:
        if name in options:
            continue
        parameters = inspect.signature(LowLevelProfile.__init__).parameters
        meant = get_close_matches(name, [*parameters, "schedule", "on_trace_ready"], 1, 0.75)
        if meant:  # otherwise make_sources lists all options
            raise TypeError(f"{name!r} is not a recording option; did you mean {meant[0]!r}?")


def _check(limit: Any, keep: Any, collector: Any) -> None:
    """Reject arguments that would fail, or do nothing, only later."""
    if limit is not None and not isinstance(limit, MemoryLimit):
        raise TypeError(
            f"memory_limit={shown(limit)}: give a MemoryLimit, such as MemoryLimit(512 << 20)"
        )
    if keep is not None and not isinstance(keep, Last):
        raise TypeError(
            f"keep={shown(keep)}: give what a ring keeps, such as Last(seconds=60); "
            "Keep.NEWEST is for MemoryLimit(bytes, Keep.NEWEST)"
        )
    if not isinstance(collector, TorchCollector):
        choices = ", ".join(f"TorchCollector.{collector.name}" for collector in TorchCollector)
        raise TypeError(f"torch_collector={shown(collector)}: give one of {choices}")


def _check_others(observer: Any, timeout_s: Any) -> None:
    missing = [name for name in ("start", "stop", "cleanup") if not hasattr(observer, name)]
    if observer is not None and missing:
        raise TypeError(
            f"execution_trace_observer={shown(observer)} has no {missing[0]}(): give an "
            "ExecutionTraceObserver()"
        )
    if timeout_s is not None:
        number("post_processing_timeout_s", timeout_s, "a number of seconds, or None")
