"""The results of a profiler of torch's dialect: lists, files, metadata."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from stepscope.arguments import file_path, function, shown, text_or_none, whole
from stepscope.frameworks.torch.dialect.events import AverageList, EventList
from stepscope.notices import warn_user
from stepscope.trace.build import empty_trace

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from stepscope.analysis.host.modules import ModuleTable
    from stepscope.frameworks.torch.dialect.event import FunctionEventAvg
    from stepscope.record.recorder import Recorder
    from stepscope.trace.model import Trace


class ProfileResults:
    """The results of a recorder's last cycle, and what the user adds to them."""

    def __init__(
        self,
        recorder: Recorder,
        custom_trace_id_callback: Callable[[], str] | None = None,
        *,
        with_flops: bool = False,
    ) -> None:
        """Look at a recorder that has not recorded yet."""
        self.with_flops = with_flops
        self.set_custom_trace_id_callback(custom_trace_id_callback)
        self._recorder = recorder
        self._trace_id: str | None = None  # as long as nothing was prepared
        self._metadata: dict[str, Any] = {}
        self._report: Path | None = None  # where export_html wrote last

    @property
    def trace(self) -> Trace:
        """Return the last finished cycle; an empty trace while the first is being recorded.

        With ``acc_events=True``: all finished cycles.
        """
        if self._recorder.active:
            return empty_trace()
        trace = self._recorder.trace
        assert trace is not None, f"the profiler has no results: {self._why_nothing()}"
        user = {**self._metadata, "trace_id": self._trace_id}
        return replace(trace, info=replace(trace.info, user=user))

    def _why_nothing(self) -> str:
        return "nothing was recorded between start() and stop()"

    def _finished_trace(self, what: str) -> Trace:
        assert self._trace_id is not None, (
            f"the profiler has no results for {what}(): {self._why_nothing()}"
        )
        if self._recorder.active:
            raise RuntimeError(f"{what}() while the profiler is recording: call stop() first")
        return self.trace

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

    @property
    def profiler(self) -> Results | None:
        """Return the results under the names that older code looks for; None before start()."""
        return None if self._trace_id is None else Results(self)

    def events(self) -> EventList:
        """Return the events of the last cycle; none while it is being recorded."""
        self._warn_of_nothing("events")
        return self._events()

    def _events(self) -> EventList:
        return EventList(self.trace, with_flops=self.with_flops)

    def _warn_of_nothing(self, what: str) -> None:
        if self._recorder.active:
            warn_user(f"{what}() is empty while the profiler is recording: call stop() first")

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> AverageList:
        """Return the events of the last cycle, summed by name."""
        self._warn_of_nothing("key_averages")
        events = self._events()
        found = events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)
        events.warn_of_missing(shapes=group_by_input_shape, frames=group_by_stack_n)
        return found

    def module_table(self, depth: int | None = None) -> ModuleTable:
        """Return the last cycle summed up by module, needs ``with_modules=True``.

        Modules below ``depth`` count for the one that holds them at that depth.
        """
        from stepscope.analysis.host.modules import module_table

        self._warn_of_nothing("module_table")
        found = module_table(self.trace, None if depth is None else whole("depth", depth))
        if not any(found.model) and len(self.trace):
            warn_user(
                "module_table(): no call of a module was recorded; record with with_modules=True"
            )
        return found

    def export_chrome_trace(
        self, path: str | os.PathLike[str], use_python_export: bool = False
    ) -> None:
        """Write the trace for Chrome, Perfetto and others; a path that ends in .gz is compressed.

        May be called again, also with another path. torch's choice of a writer has no meaning here.
        """
        del use_python_export
        file_path("path", path)
        trace = self._finished_trace("export_chrome_trace")
        from stepscope.formats.chrome.write import export_chrome

        export_chrome(trace, path)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write the stacks with their times for a flame graph: FlameGraph's and speedscope's."""
        file_path("path", path)
        self._finished_trace("export_stacks")
        self._events().export_stacks(path, metric)

    def export_memory_timeline(
        self, path: str | os.PathLike[str], device: str | None = None
    ) -> None:
        """Write the use of memory over time: .html, .json, .json.gz or .raw.json.gz."""
        file_path("path", path)
        text_or_none("device", device)
        trace = self._finished_trace("export_memory_timeline")
        from stepscope.formats.memory_timeline import export_memory_timeline

        export_memory_timeline(trace, path, device)

    def export_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report: one HTML file that opens offline, in any browser."""
        file_path("path", path)
        trace = self._finished_trace("export_html")
        from stepscope.report.build import export_html

        export_html(trace, path)
        self._report = Path(path).absolute()

    def __reduce__(self) -> NoReturn:
        """Say what to pickle instead."""
        raise TypeError(
            "a profiler cannot be copied or pickled: it records this process; pickle prof.trace or "
            "prof.key_averages(), or prof.trace.save(path)"
        )

    def _repr_html_(self) -> str:
        """Return the overview of the last cycle for a notebook."""
        from stepscope.report.notebook import nothing_html

        if self._trace_id is None or self._recorder.active or self._recorder.trace is None:
            return nothing_html("The profiler has no results yet.")
        from stepscope.report.notebook import report_link_html

        return self.trace._repr_html_() + report_link_html(self._report)

    # Metadata: kept whenever it is given, and written with every export from then on.

    def add_metadata(self, key: str, value: str) -> None:
        """Keep a text with the trace."""
        _check_key("add_metadata", key)
        if not isinstance(value, str):
            raise TypeError(
                f"add_metadata({key!r}, {shown(value)}): give a str; add_metadata_json(key, "
                "json.dumps(value)) keeps other values"
            )
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Keep a JSON value, given as text, with the trace."""
        _check_key("add_metadata_json", key)
        if not isinstance(value, str):
            raise TypeError(
                f"add_metadata_json({key!r}, {shown(value)}): give JSON as a str, json.dumps(value)"
            )
        try:
            self._metadata[key] = json.loads(value, parse_constant=_refuse_constant)
        except ValueError as error:
            raise ValueError(
                f"add_metadata_json({key!r}, ...) needs valid JSON, not {value!r}: {error}; "
                "use add_metadata for plain text"
            ) from None

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Keep a JSON value with every trace of this profiler."""
        self.add_metadata_json(key, value)


class Results:
    """What ``prof.profiler`` is in torch: the events of the last cycle."""

    def __init__(self, profile: ProfileResults) -> None:
        """Look at a profiler's results as they are now."""
        self._profile = profile
        self.function_events = profile._events()
        self.trace_id = profile.get_trace_id()

    @property
    def self_cpu_time_total(self) -> float:
        """Return the host's time in µs, no moment of a thread counted twice."""
        return self.function_events.self_cpu_time_total

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events."""
        return self.function_events.total_average()

    def key_averages(self, *args: Any, **kwargs: Any) -> AverageList:
        """Return the events summed by name."""
        return self.function_events.key_averages(*args, **kwargs)

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Return the events as a table."""
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the trace for Chrome, Perfetto and others."""
        self._profile.export_chrome_trace(path)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write the stacks for a flame graph."""
        self._profile.export_stacks(path, metric)


def _check_key(function: str, key: Any) -> None:
    if not isinstance(key, str):
        raise TypeError(f"{function}({shown(key)}, ...): give a str as the key")


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
