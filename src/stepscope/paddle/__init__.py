"""The dialect of paddle.profiler: ``import stepscope.paddle as profiler``.

The modules in it are for programs that use those of paddle.profiler, ``utils`` and the like.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepscope.frameworks.paddle.dialect.handlers import export_chrome_tracing, export_protobuf
    from stepscope.frameworks.paddle.dialect.profiler import Profiler
    from stepscope.frameworks.paddle.dialect.record_event import RecordEvent
    from stepscope.frameworks.paddle.dialect.result import load_profiler_result
    from stepscope.frameworks.paddle.dialect.states import ProfilerState, make_scheduler
    from stepscope.frameworks.paddle.dialect.targets import ProfilerTarget
    from stepscope.frameworks.paddle.views.views import SortedKeys, SummaryView
    from stepscope.trace.event_types import TracerEventType

# Imported when first used: a program that only marks its ranges pays for nothing else.
_HOMES = {
    "Profiler": "stepscope.frameworks.paddle.dialect.profiler",
    "ProfilerState": "stepscope.frameworks.paddle.dialect.states",
    "ProfilerTarget": "stepscope.frameworks.paddle.dialect.targets",
    "RecordEvent": "stepscope.frameworks.paddle.dialect.record_event",
    "SortedKeys": "stepscope.frameworks.paddle.views.views",
    "SummaryView": "stepscope.frameworks.paddle.views.views",
    "export_chrome_tracing": "stepscope.frameworks.paddle.dialect.handlers",
    "export_protobuf": "stepscope.frameworks.paddle.dialect.handlers",
    "load_profiler_result": "stepscope.frameworks.paddle.dialect.result",
    "make_scheduler": "stepscope.frameworks.paddle.dialect.states",
}

__all__ = [
    "Profiler",
    "ProfilerState",
    "ProfilerTarget",
    "RecordEvent",
    "SortedKeys",
    "SummaryView",
    "TracerEventType",
    "export_chrome_tracing",
    "export_protobuf",
    "load_profiler_result",
    "make_scheduler",
]


_MODULES = ("profiler", "profiler_statistic", "statistic_helper", "timer", "utils")


def __getattr__(name: str) -> Any:
    if name == "TracerEventType":  # not kept: the program may yet import Paddle, whose own it is
        from stepscope.frameworks.paddle.dialect.event_types import of_paddle
        from stepscope.trace.event_types import TracerEventType

        return of_paddle(TracerEventType) or TracerEventType
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stepscope.paddle' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
