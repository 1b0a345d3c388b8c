"""The results of a profiler of torch's dialect: lists, tables and files."""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from stepscope.arguments import file_path, function, text_or_none, whole
from stepscope.background import EXPORTS, LARGE
from stepscope.frameworks.torch.dialect.as_torch import (
    export_as_torch,
    export_chrome,
    export_html,
    with_adjusted_steps,
    with_function_ids,
    with_scripts,
)
from stepscope.frameworks.torch.dialect.event_columns import Fields
from stepscope.frameworks.torch.dialect.event_lists import AverageList, EventList
from stepscope.frameworks.torch.dialect.inner import Inner, ProfilerStats
from stepscope.frameworks.torch.dialect.metadata import Metadata
from stepscope.frameworks.torch.live_objects import TorchObjects
from stepscope.frameworks.torch.switches import Switches, as_switched
from stepscope.frameworks.torch.torch_source import TorchSource
from stepscope.notices import warn_user
from stepscope.trace.build import empty_trace

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from stepscope.analysis.host.modules import ModuleTable
    from stepscope.frameworks.torch.dialect.private.kineto import KinetoResults
    from stepscope.frameworks.torch.live_objects import LiveObjects
    from stepscope.frameworks.torch.tensor_notes import TensorNotes
    from stepscope.record.recorder import Recorder
    from stepscope.record.source import Source
    from stepscope.trace.model import Trace

_Source = TypeVar("_Source", bound="Source")

# torch's own logger: users of the timeout listen to it.
_LOGGER = logging.getLogger("torch.autograd.profiler")


class ProfileResults(Metadata):
    """The results of a recorder's last cycle, and the user's metadata."""

    def __init__(
        self,
        recorder: Recorder,
        custom_trace_id_callback: Callable[[], str] | None = None,
        *,
        with_flops: bool = False,
    ) -> None:
        super().__init__()
        self.with_flops = with_flops
        self.set_custom_trace_id_callback(custom_trace_id_callback)
        self._recorder = recorder
        self._trace_id: str | None = None  # None until something was prepared
        self._stats_of_cycle = ProfilerStats()
        self._switches = Switches()
        self._inner: Inner | None = None
        # Each is cached together with the trace that it was made from.
        self._events: tuple[Trace | None, EventList] | None = None
        self._kineto: tuple[Trace | None, KinetoResults] | None = None
        self._report: Path | None = None  # the last file of export_html

    @property
    def trace(self) -> Trace:
        """Return the last finished cycle; an empty trace while the first is being recorded.

        With ``acc_events=True``: all finished cycles.
        """
        if self._recorder.active:
            return empty_trace()
        return self._handed_over()()

    def _handed_over(self) -> Callable[[], Trace]:
        """Return a function that makes the last cycle's trace, also while the next is recorded."""
        cycle = self._recorder.cycle
        assert cycle is not None, f"the profiler has no results: {self._why_nothing()}"
        metadata = {**self._metadata, "trace_id": self._trace_id}
        notes, switches = self._tensor_notes, self._switches
        adjusts_steps = self._adjusts_steps

        def finished() -> Trace:
            user = {**cycle.trace.info.user, **metadata}
            trace = replace(cycle.trace, info=replace(cycle.trace.info, user=user))
            if adjusts_steps:
                trace = with_adjusted_steps(trace)
            return as_switched(with_scripts(with_function_ids(trace, notes), notes), switches)

        return finished

    @property
    def writes_beside(self) -> bool:
        """Tell whether the last cycle is so large that handlers write it in the background."""
        cycle = self._recorder.cycle
        return cycle is not None and len(cycle) >= LARGE

    @property
    def _tensor_notes(self) -> TensorNotes | None:
        """What the bridge noted of the last cycle."""
        source = self._source_of(TorchSource)
        return None if source is None else source.tensor_notes

    @property
    def _live_objects(self) -> LiveObjects | None:
        source = self._source_of(TorchObjects)
        return None if source is None else source.objects

    def _source_of(self, kind: type[_Source]) -> _Source | None:
        return next((source for source in self._recorder.sources if isinstance(source, kind)), None)

    def _kineto_results(self) -> KinetoResults | None:
        """Return the last cycle in the form that torch's own tools read; None before its end."""
        from stepscope.frameworks.torch.dialect.private.kineto import KinetoResults

        if self._recorder.active or self._recorder.trace is None:
            return None
        if self._kineto is None or self._kineto[0] is not self._recorder.trace:
            beside = (self._tensor_notes, self._live_objects)
            results = KinetoResults(
                self.trace,
                *beside,
                with_flops=self.with_flops,
                overloads=self._shows_overloads,
                fields=self._fields,
            )
            self._kineto = self._recorder.trace, results
        return self._kineto[1]

    def _memory_profile(self) -> Any:
        """Return torch's own memory analysis; needs torch, shapes, memory and stacks."""
        from torch.profiler._memory_profiler import MemoryProfile

        required = ("record_shapes", "profile_memory", "with_stack")
        missing = [f"{name}=True" for name in required if not getattr(self, name)]
        if missing:
            raise ValueError(f"{', '.join(missing)} required for memory profiling.")
        results: Any = self._kineto_results()
        assert results is not None, "the profiler has no results yet"
        return MemoryProfile(results)

    def _why_nothing(self) -> str:
        return "nothing was recorded between start() and stop()"

    def _finished_trace(self, what: str) -> Trace:
        self._check_finished(what)
        return self.trace

    def _check_finished(self, what: str) -> None:
        self._check_initialized(what)
        if self._recorder.active:
            raise RuntimeError(f"{what}() while the profiler is recording: call stop() first")

    def _check_initialized(self, what: str) -> None:
        doing = _DOING.get(what, f"calling {what}()")
        assert self._trace_id is not None or self._recorder.trace is not None, (
            f"Profiler must be initialized before {doing}: {self._why_nothing()}"
        )

    def _warn_of_cleared(self) -> None:
        """Warn that the previous cycle's results are gone, if torch does."""

    def _write(
        self,
        what: str,
        path: str | os.PathLike[str],
        write: Callable[[Trace, str | os.PathLike[str]], object],
        *,
        background: bool,
    ) -> None:
        """Write the last cycle into a file, now or in the background."""
        self._check_finished(what)
        finished = self._handed_over()
        if background:
            target = Path(path).absolute()  # the program may change its folder
            EXPORTS.submit(str(path), lambda: write(finished(), target))
        else:
            write(finished(), path)

    def get_trace_id(self) -> str | None:
        """Return the id that is written into the trace; None before start()."""
        return self._trace_id

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Set the function that names the traces from the next cycle on."""
        function("custom_trace_id_callback", callback, "a function that returns a str, or None")
        self.custom_trace_id_callback = callback

    def _new_trace_id(self) -> None:
        make_id = self.custom_trace_id_callback
        self._trace_id = make_id() if make_id else uuid.uuid4().hex.upper()
        for key, value in self._presets.items():
            self.add_metadata_json(key, value)
        if self._in_place_of_torch and self._recorder.cycle is not None:
            self._warn_of_cleared()

    @property
    def profiler(self) -> Inner | None:
        """Return the results under the names that older code looks for; None before start()."""
        if self._inner is None and self._trace_id is not None:
            self._inner = Inner(self)
        return self._inner

    def events(self) -> EventList:
        """Return the events of the last cycle; none while it is being recorded."""
        self._warn_of_nothing("events")
        return self._made_events()

    def _made_events(self) -> EventList:
        self._check_initialized("events")
        if self._trace_only:
            raise RuntimeError(
                "events() is not available when trace_only=True in ExperimentalConfig. "
                "Use export_chrome_trace() instead."
            )
        if self._recorder.active:
            return EventList(self.trace, with_flops=self.with_flops)
        if self._recorder.cycle is None:  # a cycle was begun and cut short before it recorded
            assert not self._recorder.is_parents, f"no events in a child: {self._why_nothing()}"
            return EventList(empty_trace(), with_flops=self.with_flops)
        if self.post_processing_timeout_s == 0:  # only 0 s is too short: results take no other time
            _LOGGER.warning("Post-processing timed out after 0 s; partial results: no events")
            return EventList(empty_trace(), with_flops=self.with_flops)
        if self._events is None or self._events[0] is not self._recorder.trace:
            before = time.perf_counter_ns()
            made = EventList(
                self.trace,
                with_flops=self.with_flops,
                overloads=self._shows_overloads,
                fields=self._fields,
            )
            self._stats_of_cycle.number_of_events = len(made)
            spent_us = max((time.perf_counter_ns() - before) // 1000, 1)
            self._stats_of_cycle.parse_kineto_call_duration_us = spent_us
            self._stats_of_cycle.function_events_build_tree_call_duration_us = spent_us
            self._events = self._recorder.trace, made
        return self._events[1]

    _trace_only = False
    _shows_overloads = True
    _fields = Fields.ALL
    _adjusts_steps = False
    _in_place_of_torch = False  # created under a name of torch's, see patch_torch()
    post_processing_timeout_s: float | None = None

    def _warn_of_nothing(self, what: str) -> None:
        if self._recorder.active:
            warn_user(f"{what}() is empty while the profiler is recording: call stop() first")

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> AverageList:
        """Return the events of the last cycle, summed by name."""
        self._check_initialized("key_averages")
        self._warn_of_nothing("key_averages")
        events = self._made_events()
        averages = events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        )
        events.warn_of_missing(shapes=group_by_input_shape, frames=group_by_stack_n)
        return averages

    def module_table(self, depth: int | None = None) -> ModuleTable:
        """Return the last cycle summed up by module, needs ``with_modules=True``.

        Modules below ``depth`` count for the one that holds them at that depth.
        """
        from stepscope.analysis.host.modules import module_table

        self._warn_of_nothing("module_table")
        modules = module_table(self.trace, None if depth is None else whole("depth", depth))
        if not any(modules.model) and len(self.trace):
            warn_user(
                "module_table(): no call of a module was recorded; record with with_modules=True"
            )
        return modules

    def export_chrome_trace(
        self,
        path: str | os.PathLike[str],
        use_python_export: bool = False,
        cuda_graph_annotations: object | None = None,
        graph_lanes: str = "none",
        default_stream: int = 7,
        *,
        background: bool = False,
    ) -> None:
        """Write the trace for Chrome, Perfetto and others; a path that ends in .gz is compressed.

        May be called again, also with another path. With ``background`` it returns at once, and
        ``wait_for_exports()`` waits for the file; so does the end of the program. torch's choice of
        a writer has no meaning here, and what it adds to the kernels of CUDA graphs is not written:
        a warning says so.
        """
        del use_python_export, default_stream
        if graph_lanes not in ("none", "all"):
            raise ValueError(f'graph_lanes is "none" or "all", not {graph_lanes!r}')
        if graph_lanes == "all" and cuda_graph_annotations is None:
            raise ValueError('graph_lanes="all" needs cuda_graph_annotations')
        if cuda_graph_annotations is not None:
            warn_user("cuda_graph_annotations are not written by Stepscope")
        file_path("path", path)
        write = export_chrome
        if self._in_place_of_torch:
            write = partial(export_as_torch, overloads=self._shows_overloads)
        self._write("export_chrome_trace", path, write, background=background)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write the stacks with their times for a flame graph: FlameGraph's and speedscope's."""
        file_path("path", path)
        self._finished_trace("export_stacks")
        if self._in_place_of_torch and not getattr(self, "with_stack", True):
            raise AssertionError("export_stacks() requires with_stack=True")
        self._made_events().export_stacks(path, metric)

    def export_memory_timeline(
        self, path: str | os.PathLike[str], device: str | None = None
    ) -> None:
        """Write the use of memory over time: .html, .json, .json.gz or .raw.json.gz."""
        file_path("path", path)
        text_or_none("device", device)
        trace = self._finished_trace("export_memory_timeline")
        from stepscope.formats.memory_timeline import export_memory_timeline

        export_memory_timeline(trace, path, device)

    def export_html(self, path: str | os.PathLike[str], *, background: bool = False) -> None:
        """Write the report: one HTML file that opens offline, in any browser."""
        file_path("path", path)
        self._write("export_html", path, export_html, background=background)
        self._report = Path(path).absolute()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a profiler cannot be copied or pickled: it records this process; pickle prof.trace or "
            "prof.key_averages(), or prof.trace.save(path)"
        )

    def _repr_html_(self) -> str:
        from stepscope.report.notebook import nothing_html

        if self._trace_id is None or self._recorder.active or self._recorder.trace is None:
            return nothing_html("The profiler has no results yet.")
        from stepscope.report.notebook import report_link_html

        return self.trace._repr_html_() + report_link_html(self._report)

    def wait_for_exports(self) -> None:
        """Wait for the files that are written in the background."""
        EXPORTS.wait()

    def take_pending_cuspy_export(self) -> None:
        """Return None: Stepscope has its own collector, and nothing that is pending."""


# The actions, in the words of torch's errors.
_DOING = {
    "events": "accessing events",
    "key_averages": "getting key averages",
    "export_chrome_trace": "exporting chrome trace",
    "export_stacks": "exporting stacks",
}
