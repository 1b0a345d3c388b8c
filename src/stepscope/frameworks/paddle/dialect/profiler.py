"""paddle.profiler's ``Profiler``: a thin adapter over Session."""

from __future__ import annotations

import itertools
import os
import weakref
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from stepscope.arguments import (
    file_path,
    flag,
    function,
    number,
    several,
    text_or_none,
    whole,
)
from stepscope.enums import member_of
from stepscope.frameworks.paddle.dialect.handlers import export_chrome_tracing
from stepscope.frameworks.paddle.dialect.loader_waits import LoaderWaits
from stepscope.frameworks.paddle.dialect.nvtx_ranges import NvtxRanges
from stepscope.frameworks.paddle.dialect.states import ProfilerState, as_scheduler
from stepscope.frameworks.paddle.dialect.targets import ProfilerTarget, chosen_targets
from stepscope.frameworks.paddle.dialect.timer import BenchmarkTimer
from stepscope.frameworks.paddle.views.summary_tables import SortedKeys, SummaryView
from stepscope.frameworks.python.cpu_use import CpuUse
from stepscope.notices import warn_user
from stepscope.record.options import RecordOptions
from stepscope.record.recorder import Recorder
from stepscope.record.schedules import ProfilerAction
from stepscope.record.session import Dialect, Session
from stepscope.record.source import make_sources

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    import polars as pl

    from stepscope.frameworks.paddle.dialect.result import ProfilerResult
    from stepscope.frameworks.paddle.dialect.states import Scheduler
    from stepscope.trace.model import Trace

_STEP = "ProfileStep#"
_DIALECT = Dialect(
    states=ProfilerState,
    step_name=_STEP,
    cut_cycle="Improper schedule: {}->{}",
    delivers_cut_cycles=True,
)
_FORMATS = ("json", "pb")
_A_HANDLER = "a function of the profiler, such as export_chrome_tracing(folder)"
_HANDLER_MAKERS = (
    *("export_chrome_tracing", "export_protobuf"),
    *("tensorboard_trace_handler", "html_handler"),
)
_NO_RESULT = "nothing was recorded yet: there is a result after a recorded cycle, or after stop()"


_cycles = itertools.count()  # counts the cycles of all profilers: Paddle's span index


class _Cycle(CpuUse):
    """Measures how busy the machine is in a recorded cycle, and numbers the cycles."""

    number = 0

    def stop(self) -> None:
        super().stop()
        self.number = next(_cycles)


_started: dict[int, weakref.ref[Profiler]] = {}


def in_profiler_mode() -> bool:
    """Tell whether a profiler is started that does more than time steps."""
    return any(started() is not None for started in list(_started.values()))


class Profiler:
    """Records operators and ranges, and times steps; a context manager, or start() and stop().

    The arguments are paddle.profiler's. ``source_options`` are Stepscope's own recording options,
    such as ``sample="1ms"``. Operators are Paddle's or PyTorch's, whichever the program uses;
    without either, its ranges are recorded.
    """

    def __init__(
        self,
        *,
        targets: Iterable[Any] | None = None,
        scheduler: Callable[[int], Any] | Sequence[int] | None = None,
        on_trace_ready: Callable[[Any], object] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        timer_only: bool = False,
        emit_nvtx: bool = False,
        custom_device_types: Sequence[str] = [],  # Paddle's default; never modified
        with_flops: bool = False,
        **source_options: object,
    ) -> None:
        """Check the arguments; nothing is recorded, and no folder made, before start()."""
        several("targets", targets, _is_target, "ProfilerTarget.CPU")
        self.targets: set[ProfilerTarget] = chosen_targets(targets)
        if custom_device_types:
            warn_user(f"custom_device_types={custom_device_types!r}: such devices are not recorded")
        if on_trace_ready is None:
            on_trace_ready = export_chrome_tracing("./profiler_log/")
        function("on_trace_ready", on_trace_ready, _A_HANDLER, makers=_HANDLER_MAKERS)
        self.on_trace_ready: Callable[[Any], object] = on_trace_ready
        self.record_shapes = flag("record_shapes", record_shapes)
        self.profile_memory = flag("profile_memory", profile_memory)
        self.timer_only = flag("timer_only", timer_only)
        self.emit_nvtx = flag("emit_nvtx", emit_nvtx)
        self.with_flops = flag("with_flops", with_flops)
        self._previous_action = ProfilerAction.NONE
        self.timer = BenchmarkTimer()
        self._cycle = _Cycle()
        options = RecordOptions(
            shapes=bool(record_shapes or with_flops),  # flops are counted from shapes
            memory=bool(profile_memory),
            phases=True,
            host=ProfilerTarget.CPU in self.targets or not self.targets,
            device=ProfilerTarget.GPU in self.targets,
        ).but(**source_options)
        self._session = Session(
            Recorder([*make_sources(options), self._cycle]),
            schedule=as_scheduler(scheduler),
            on_trace=lambda: self.on_trace_ready(self),
            dialect=_DIALECT,
        )
        self._loader_waits = LoaderWaits()
        self._nvtx = NvtxRanges()
        self._result: tuple[Trace, ProfilerResult] | None = None
        self._has_run = False
        self._report: Path | None = None  # the last file of export_html

    def start(self) -> None:
        """Begin step 0."""
        if self.timer.running or self._session.running:
            raise RuntimeError("this profiler is already started: stop() it before start()")
        try:
            if self.emit_nvtx:
                self._nvtx.start()
            self._loader_waits.start()
            if not self.timer_only:
                self._has_run = True
                self._session.start()
                self._nvtx.begin_step(f"{_STEP}{self.step_num}")
        except BaseException:
            self._let_go()
            raise
        self.timer.start()
        if self.emit_nvtx or not self.timer_only:
            _started[id(self)] = weakref.ref(self)

    def step(self, num_samples: int | None = None) -> None:
        """End a step that processed so many samples, and begin the next."""
        if num_samples is not None:
            number("num_samples", num_samples, "the number of samples of the step, or None")
        start_ns = self.timer.step(num_samples)
        if self.timer_only:
            return
        if self.emit_nvtx:
            self._nvtx.end_step()
        session = self._session
        self._previous_action = session.action
        try:
            session.step()
        finally:
            self.timer.leave_out_since(start_ns)  # writing a trace does not belong to the step
        if self.emit_nvtx:
            self._nvtx.begin_step(f"{_STEP}{self.step_num}")

    def stop(self) -> None:
        """End the run, deliver the recording, print the step times; a second call does nothing."""
        costs = self.timer.stop()
        if costs is not None:
            print(costs)
        try:
            self._session.stop()
        finally:
            self._let_go()

    def step_info(self, unit: str | None = None) -> str:
        """Return the average costs of steps since the previous call; ``unit`` names a sample."""
        text_or_none("unit", unit)
        return self.timer.step_info("samples" if unit is None else unit)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a profiler cannot be copied or pickled: it records this process; pickle its .trace, "
            "or .trace.save(path)"
        )

    def _let_go(self) -> None:
        _started.pop(id(self), None)
        self._nvtx.stop()
        self._loader_waits.stop()

    # Plain attributes in Paddle.

    @property
    def step_num(self) -> int:
        """Return the number of the current step."""
        return self._session.step_num

    @property
    def current_state(self) -> ProfilerState:
        """Return the scheduler's state of the current step."""
        return ProfilerState(self._session.action.value)

    @property
    def previous_state(self) -> ProfilerState:
        """Return the scheduler's state of the previous step."""
        return ProfilerState(self._previous_action.value)

    @property
    def scheduler(self) -> Scheduler:
        """Return the function from step number to state."""
        return self._session.schedule

    @property
    def profiler_result(self) -> ProfilerResult | None:
        """Return the last finished cycle as a tree of nodes; None before the first."""
        trace = self._session.trace
        if trace is None:
            return None
        if self._result is None or self._result[0] is not trace:
            from stepscope.frameworks.paddle.dialect.result import ProfilerResult

            self._result = trace, ProfilerResult(self.trace)
        return self._result[1]

    # Results

    @property
    def trace(self) -> Trace:
        """Return the last finished cycle."""
        trace = self._session.trace
        if trace is None:
            raise RuntimeError(self._why_nothing())
        return replace(trace, info=replace(trace.info, user={**trace.info.user, **self._extra()}))

    def _why_nothing(self) -> str:
        return (
            _NO_RESULT
            if self._session.running or not self._has_run
            else self._session.why_nothing()
        )

    def _extra(self) -> dict[str, str]:
        use = {
            "Process Cpu Utilization": self._cycle.of_process,
            "System Cpu Utilization": self._cycle.of_machine,
        }
        shares = {name: f"{part:.6f}" for name, part in use.items() if part is not None}
        return {**shares, "span_index": str(self._cycle.number)}

    def export(
        self, path: str | os.PathLike[str] = "", format: Literal["json", "pb"] = "json"
    ) -> None:
        """Write the last finished cycle, as JSON for Chrome and Perfetto or as Paddle's protobuf.

        A path that ends in .gz is compressed.
        """
        if format not in _FORMATS:
            raise ValueError(f"export(format={format!r}): use one of {', '.join(_FORMATS)}")
        if path == "":  # Paddle's default
            raise ValueError(f"export(path={path!r}): pass a file name")
        file_path("path", path)
        trace = self.trace
        if format == "json":
            from stepscope.frameworks.paddle.files.write_json import export_paddle_json

            export_paddle_json(trace, path)
        else:
            from stepscope.frameworks.paddle.files.write_pb import export_paddle_pb

            export_paddle_pb(trace, path)

    def export_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report of the last finished cycle: one HTML file that works offline."""
        from stepscope.report.build import export_html

        file_path("path", path)
        export_html(self.trace, path)
        self._report = Path(path).absolute()

    def _repr_html_(self) -> str:
        from stepscope.report.notebook import nothing_html, report_link_html

        if self._session.trace is None:
            return nothing_html(f"There is nothing to show: {self._why_nothing()}.")
        return self.trace._repr_html_() + report_link_html(self._report)

    def summary(
        self,
        sorted_by: Any = SortedKeys.CPUTotal,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: Literal["s", "ms", "us", "ns"] = "ms",
        views: Any = None,
        *,
        row_limit: int | None = None,
        self_time: bool = False,
    ) -> None:
        """Print the tables of the last finished cycle; ``views`` selects one or several.

        Beyond Paddle's options, ``row_limit`` is the maximum number of rows of a table, and
        ``self_time`` adds the time of operators without the operators that they call.
        """
        if self._session.trace is None:
            warn_user(f"summary() has nothing to show: {self._why_nothing()}")
            return
        from stepscope.frameworks.paddle.views.summary import summary_text

        if row_limit is not None:
            whole("row_limit", row_limit, "or None for all rows")
        text = summary_text(
            self.trace,
            sorted_by=member_of(SortedKeys, sorted_by, "sorted_by"),
            op_detail=op_detail,
            thread_sep=thread_sep,
            time_unit=time_unit,
            views=_as_views(views),
            row_limit=row_limit,
            self_time=self_time,
        )
        print(text)
        if self.with_flops:
            self._print_flops()

    def _print_flops(self, _repeat: int = 1) -> None:
        """Print the operations of the layers; Paddle has a method of this name."""
        if not self.with_flops:
            print("ERROR: with_flops disabled.")
            return
        from stepscope.frameworks.paddle.views.flops import flops_text

        print(flops_text(self.trace), end="")

    def summary_tables(self) -> dict[str, pl.DataFrame]:
        """Return the tables that summary() prints, by the names of the views."""
        from stepscope.frameworks.paddle.views.summary_tables import summary_tables

        return summary_tables(self.trace).to_polars()


def _is_target(value: object) -> bool:
    return getattr(value, "name", None) in ProfilerTarget.__members__


def _as_views(views: Any) -> list[SummaryView] | None:
    if views is None:
        return None
    if isinstance(views, str) or not hasattr(views, "__iter__"):
        views = [views]
    return [member_of(SummaryView, view, "the view") for view in views]
