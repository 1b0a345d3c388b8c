"""torch.profiler's ``profile``: a thin adapter over Session."""

from __future__ import annotations

import functools
import json
import uuid
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from stepscope.errors import UnsupportedError
from stepscope.session import Session
from stepscope.sources import TorchCollector, default_sources
from stepscope.torch.activity import ProfilerActivity, chosen_activities
from stepscope.torch.events import AverageList, EventList
from stepscope.trace.build import empty_trace

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from stepscope.record import MemoryLimit
    from stepscope.schedules import ProfilerAction, Schedule
    from stepscope.trace.model import Trace

    _F = TypeVar("_F", bound=Callable[..., Any])


class profile:  # noqa: N801 - torch's name
    """Records operators and ranges; a context manager, a decorator, or start() and stop().

    The arguments are torch.profiler's. ``memory_limit`` and ``torch_collector`` are ours: a bound
    on the buffers, and how PyTorch is recorded.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Schedule | None = None,
        on_trace_ready: Callable[[profile], object] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: object | None = None,
        execution_trace_observer: object | None = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        memory_limit: MemoryLimit | None = None,
        torch_collector: TorchCollector = TorchCollector.AUTO,
    ) -> None:
        """Check the arguments; nothing is recorded before start()."""
        self.activities = chosen_activities(activities, use_cuda)
        self.on_trace_ready = on_trace_ready
        _warn_of_missing(
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
        )
        # Results are ready at once: there is no post-processing that could time out.
        del post_processing_timeout_s
        self._trace_id_callback = custom_trace_id_callback
        self._trace_id: str | None = None
        self._metadata: dict[str, Any] = {}
        self._started = False
        self._session = Session(
            default_sources(torch_collector),
            schedule=schedule,
            on_trace=self._trace_ready,
            limit=memory_limit,
        )

    # Running.

    def start(self) -> None:
        """Begin the first step."""
        self._started = True
        make_id = self._trace_id_callback
        self._trace_id = make_id() if make_id else uuid.uuid4().hex.upper()
        self._session.start()

    def step(self) -> None:
        """Tell that a step of the program has ended and the next begins."""
        self._session.step()

    def stop(self) -> None:
        """End the run. A second stop() is harmless; one before start() is an error."""
        assert self._started, "the profiler must be start()ed before stop()"
        self._session.stop()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop; an exception goes on after the trace was delivered."""
        self.stop()

    def __call__(self, function: _F) -> _F:
        """Decorate a function: each call is one run."""

        @functools.wraps(function)
        def profiled(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return profiled  # type: ignore[return-value]

    @property
    def step_num(self) -> int:
        """Return the number of the current step."""
        return self._session.step_num

    @property
    def current_action(self) -> ProfilerAction:
        """Return what the schedule says of the current step."""
        return self._session.action

    @property
    def schedule(self) -> Schedule:
        """Return the schedule."""
        return self._session.schedule

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # Results.

    @property
    def trace(self) -> Trace:
        """Return the last finished cycle; an empty trace while the first is being recorded."""
        trace = self._session.trace
        if self._session.recording:
            return empty_trace()
        assert trace is not None, (
            "the profiler has no results: nothing was recorded between start() and stop()"
        )
        user = {**self._metadata, "trace_id": self._trace_id}
        return replace(trace, info=replace(trace.info, user=user))

    @property
    def profiler(self) -> Results:
        """Return the results under the names that older code looks for."""
        return Results(self.trace)

    def events(self) -> EventList:
        """Return the events of the last cycle; none while it is being recorded."""
        return EventList(self.trace)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> AverageList:
        """Return the events of the last cycle, summed by name."""
        return self.events().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the trace for Chrome, Perfetto and others; a path that ends in .gz is compressed.

        May be called again, also with another path.
        """
        from stepscope.export.chrome import export_chrome

        export_chrome(self._finished_trace("export_chrome_trace"), path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks for a flame graph; stacks are not recorded by this version."""
        self._finished_trace("export_stacks")
        self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Refuse: memory is not recorded by this version."""
        raise UnsupportedError(
            f"export_memory_timeline({path!r}, {device!r}): memory is not recorded by this version "
            "of Stepscope; use torch.profiler for it"
        )

    def _finished_trace(self, what: str) -> Trace:
        assert self._started, f"the profiler must be start()ed before {what}()"
        if self._session.recording:
            raise RuntimeError(f"{what}() while the profiler is recording: call stop() first")
        return self.trace

    # Metadata: kept whenever it is given, and written with every export from then on.

    def add_metadata(self, key: str, value: str) -> None:
        """Keep a text with the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Keep a JSON value, given as text, with the trace."""
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

    def get_trace_id(self) -> str | None:
        """Return the id that is written into the trace; None before start()."""
        return self._trace_id

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Let a function name the traces from the next start() on."""
        self._trace_id_callback = callback


class Results:
    """What ``prof.profiler`` is in torch: the events of the last cycle."""

    def __init__(self, trace: Trace) -> None:
        """Look at a trace."""
        self.function_events = EventList(trace)

    @property
    def self_cpu_time_total(self) -> float:
        """Return the host's time in µs, no moment of a thread counted twice."""
        return self.function_events.self_cpu_time_total

    def total_average(self) -> object:
        """Return the sum of all events."""
        return self.function_events.total_average()

    def key_averages(self, *args: Any, **kwargs: Any) -> AverageList:
        """Return the events summed by name."""
        return self.function_events.key_averages(*args, **kwargs)


def _warn_of_missing(**options: object) -> None:
    asked = [name for name, value in options.items() if value]
    if asked:
        warnings.warn(
            f"not recorded by this version of Stepscope: {', '.join(asked)}; "
            "everything else is recorded as asked",
            stacklevel=3,
        )


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
