"""Runs torch's execution trace observer beside a recording."""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol

from stepscope.errors import UnsupportedError
from stepscope.record.source import Source

_ENVIRONMENT = "ENABLE_PYTORCH_EXECUTION_TRACE"


class TraceObserver(Protocol):
    """An observer that a profiler starts and stops; torch's ExecutionTraceObserver is one."""

    def start(self) -> object:
        """Begin to observe."""

    def stop(self) -> object:
        """End observing."""

    def cleanup(self) -> object:
        """Finish the output after the profiler's block."""


class _ObserverType(type):
    """Creates torch's own observers, and accepts them as its instances."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _torch_observer()(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        kind = getattr(sys.modules.get("torch.profiler"), "ExecutionTraceObserver", None)
        return kind is not None and isinstance(instance, kind)


class ExecutionTraceObserver(metaclass=_ObserverType):
    """torch's own observer, under its own name; it works without torch's profiler."""

    @staticmethod
    def build_execution_trace_obs_from_env() -> TraceObserver | None:
        """Return the observer that torch's environment variable requests, or None."""
        return observer_of_environment()


def _torch_observer() -> Any:
    try:
        from torch.profiler import ExecutionTraceObserver as Observer
    except ImportError:
        raise UnsupportedError(
            "ExecutionTraceObserver() writes PyTorch's own graph of operators and needs torch "
            "installed; prof.trace.save(path) keeps what Stepscope records without it"
        ) from None
    return Observer


def observer_of_environment() -> TraceObserver | None:
    """Return the observer that torch's environment variable requests."""
    if os.environ.get(_ENVIRONMENT, "0") != "1":
        return None
    from torch.profiler import ExecutionTraceObserver as Observer

    observer: TraceObserver | None = Observer.build_execution_trace_obs_from_env()
    return observer


class ObserverSource(Source):
    """Starts and stops an observer of torch's, which writes its own file and adds no columns."""

    name = "observer"

    def __init__(self, observer: TraceObserver) -> None:
        self._observer = observer

    def start(self) -> None:
        self._observer.start()

    def stop(self) -> None:
        self._observer.stop()

    def describe(self) -> str:
        return type(self._observer).__name__
