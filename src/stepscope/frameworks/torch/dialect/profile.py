"""torch.profiler's ``profile``: a thin adapter over Session."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any, Self, TypeVar

from stepscope._native import record_function
from stepscope.arguments import function
from stepscope.frameworks.torch.announce import STEP_NAME, step_tracker
from stepscope.frameworks.torch.dialect.lowlevel import LowLevelProfile
from stepscope.frameworks.torch.dialect.observer import observer_of_environment
from stepscope.frameworks.torch.options import TorchCollector
from stepscope.record.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepscope.frameworks.torch.dialect.observer import TraceObserver
    from stepscope.record.limits import Last, MemoryLimit
    from stepscope.record.options import StackMode
    from stepscope.record.schedules import ProfilerAction, Schedule

    _F = TypeVar("_F", bound=Callable[..., Any])


_A_HANDLER = "a function of the profiler, such as tensorboard_trace_handler(folder)"
_HANDLER_MAKERS = ("tensorboard_trace_handler", "html_handler", "export_chrome_tracing")


class profile(LowLevelProfile):  # noqa: N801 - torch's name
    """Records operators and ranges; a context manager, a decorator, or start() and stop().

    The arguments are torch.profiler's; ``with_stack`` may also be a StackMode. Stepscope adds
    ``record_annotations``, the program's own NVTX and ITT ranges; ``record_workers``, DataLoader
    workers and other child processes; ``memory_limit``, a bound on the buffers; ``keep``, a ring
    with only the ``Last`` part; ``torch_collector``, how PyTorch is recorded; and its other
    recording options as ``source_options``.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Schedule | None = None,
        on_trace_ready: Callable[[Any], object] | None = None,
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
        function("on_trace_ready", on_trace_ready, _A_HANDLER, makers=_HANDLER_MAKERS)
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer or observer_of_environment(),
            acc_events=acc_events,
            use_cuda=use_cuda,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
            record_annotations=record_annotations,
            record_workers=record_workers,
            memory_limit=memory_limit,
            keep=keep,
            torch_collector=torch_collector,
            **source_options,
        )
        self.on_trace_ready = on_trace_ready
        self._session = Session(
            self._recorder,
            schedule=schedule,
            on_prepare=self._new_trace_id,
            on_trace=self._trace_ready,
            step_range=self._step_range,
        )
        self._started = False
        if (tracker := step_tracker()) is not None:
            tracker.init_step_count(STEP_NAME)

    def start(self) -> None:
        """Begin the first step."""
        self._started = True
        self._session.start()

    def step(self) -> None:
        """End a step and begin the next."""
        self._session.step()
        self._started = self._started or self._session.running
        if os.environ.get("KINETO_USE_DAEMON") and (tracker := step_tracker()) is not None:
            tracker.increment_step(STEP_NAME)

    def stop(self) -> None:
        """End the run. A second call does nothing; a call before start() is an error."""
        assert self._started, "Profiler must be initialized before stopping trace: start() it first"
        self._session.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            if (tracker := step_tracker()) is not None:
                tracker.erase_step_count(STEP_NAME)
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.cleanup()

    def __call__(self, function: _F) -> _F:
        @functools.wraps(function)
        def profiled(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return profiled  # type: ignore[return-value]

    # Plain attributes in torch, which some callers set.

    @property
    def step_num(self) -> int:
        """Return the number of the current step."""
        return self._session.step_num

    @step_num.setter
    def step_num(self, step: int) -> None:
        self._session.step_num = step

    @property
    def schedule(self) -> Schedule:
        """Return the function from step number to action."""
        return self._session.schedule

    @schedule.setter
    def schedule(self, schedule: Schedule) -> None:
        self._session.schedule = schedule

    @property
    def current_action(self) -> ProfilerAction:
        """Return the schedule's action for the current step."""
        return self._session.action

    @property
    def record_steps(self) -> bool:
        """Tell whether steps are marked, which a schedule causes."""
        return self._session.marks_steps

    @property
    def step_rec_fn(self) -> object | None:
        """Return the range of the current step, or None between recordings."""
        return self._session.step_range

    @property
    def action_map(self) -> dict[Any, list[Any]]:
        """Return what happens between two actions, by pairs of actions."""
        return {pair: list(moves) for pair, moves in self._session.transitions.items()}

    def _step_range(self, name: str) -> Any:
        """Return the range of a step, a range of torch's if an observer is to see it."""
        if self.execution_trace_observer is not None and "torch" in sys.modules:
            return sys.modules["torch"].autograd.profiler.record_function(name)
        return record_function(name)

    def _why_nothing(self) -> str:
        if not self._started:
            return "start() it, or use it in a with statement, and stop() it first"
        return self._session.why_nothing()

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)
