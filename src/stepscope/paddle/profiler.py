"""paddle.profiler.profiler: the profiler, and what programs use besides it."""

from __future__ import annotations

from typing import Any

import stepscope.paddle
from stepscope.frameworks.paddle.dialect.handlers import export_chrome_tracing, export_protobuf
from stepscope.frameworks.paddle.dialect.profiler import Profiler
from stepscope.frameworks.paddle.dialect.record_event import RecordEvent
from stepscope.frameworks.paddle.dialect.states import (
    ProfilerState,
    _always_record,
    make_scheduler,
)
from stepscope.frameworks.paddle.dialect.targets import ProfilerTarget, supported_targets
from stepscope.frameworks.paddle.views.views import SortedKeys, SummaryView
from stepscope.paddle import utils
from stepscope.paddle._configured import get_profiler
from stepscope.paddle._paddles import names_of
from stepscope.paddle.utils import wrap_optimizers

__all__ = [
    "Profiler",
    "ProfilerState",
    "ProfilerTarget",
    "RecordEvent",
    "SortedKeys",
    "SummaryView",
    "export_chrome_tracing",
    "export_protobuf",
    "get_profiler",
    "make_scheduler",
    "utils",
    "wrap_optimizers",
]

_names_of_paddle = names_of("profiler")
_default_state_scheduler = _always_record
_get_supported_targets = supported_targets


def __getattr__(name: str) -> Any:
    if name == "TracerEventType":
        return stepscope.paddle.TracerEventType
    return _names_of_paddle(name)
