"""The dialect of paddle.profiler: ``import stepscope.paddle as profiler``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepscope.analysis.paddle_views import SortedKeys, SummaryView
    from stepscope.paddle.handlers import export_chrome_tracing, export_protobuf
    from stepscope.paddle.profiler import Profiler
    from stepscope.paddle.record_event import RecordEvent
    from stepscope.paddle.result import load_profiler_result
    from stepscope.paddle.states import ProfilerState, make_scheduler
    from stepscope.paddle.targets import ProfilerTarget
    from stepscope.trace.event_types import TracerEventType

# Imported when first used: a program that only marks its ranges pays for nothing else.
_HOMES = {
    "Profiler": "stepscope.paddle.profiler",
    "ProfilerState": "stepscope.paddle.states",
    "ProfilerTarget": "stepscope.paddle.targets",
    "RecordEvent": "stepscope.paddle.record_event",
    "SortedKeys": "stepscope.analysis.paddle_views",
    "SummaryView": "stepscope.analysis.paddle_views",
    "TracerEventType": "stepscope.trace.event_types",
    "export_chrome_tracing": "stepscope.paddle.handlers",
    "export_protobuf": "stepscope.paddle.handlers",
    "load_profiler_result": "stepscope.paddle.result",
    "make_scheduler": "stepscope.paddle.states",
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


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stepscope.paddle' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
