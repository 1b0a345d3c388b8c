"""The dialect of paddle.profiler: ``import stepscope.paddle as profiler``.

The modules in it are for programs that use those of paddle.profiler, ``utils`` and the like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.frameworks.paddle.dialect.handlers import export_chrome_tracing, export_protobuf
    from stepscope.frameworks.paddle.dialect.profiler import Profiler
    from stepscope.frameworks.paddle.dialect.record_event import RecordEvent
    from stepscope.frameworks.paddle.dialect.result import load_profiler_result
    from stepscope.frameworks.paddle.dialect.states import ProfilerState, make_scheduler
    from stepscope.frameworks.paddle.dialect.targets import ProfilerTarget
    from stepscope.frameworks.paddle.event_types import TracerEventType
    from stepscope.frameworks.paddle.views.summary_tables import SortedKeys, SummaryView

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


def _event_types() -> Any:
    """Return Paddle's own type if the program has imported it, which it may yet do."""
    from stepscope.frameworks.paddle.dialect.event_types import of_paddle
    from stepscope.frameworks.paddle.event_types import TracerEventType

    return of_paddle(TracerEventType) or TracerEventType


# A program that only marks ranges must not load more.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "stepscope.frameworks.paddle.dialect.handlers": "export_chrome_tracing export_protobuf",
        "stepscope.frameworks.paddle.dialect.profiler": "Profiler",
        "stepscope.frameworks.paddle.dialect.record_event": "RecordEvent",
        "stepscope.frameworks.paddle.dialect.result": "load_profiler_result",
        "stepscope.frameworks.paddle.dialect.states": "ProfilerState make_scheduler",
        "stepscope.frameworks.paddle.dialect.targets": "ProfilerTarget",
        "stepscope.frameworks.paddle.views.summary_tables": "SortedKeys SummaryView",
    },
    modules=("profiler", "profiler_statistic", "statistic_helper", "timer", "utils"),
    made={"TracerEventType": _event_types},
)
