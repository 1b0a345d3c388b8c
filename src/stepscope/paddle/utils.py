"""paddle.profiler.utils: what programs use of it."""

from __future__ import annotations

from typing import Any

import stepscope.paddle
from stepscope.frameworks.paddle.dialect.paddles_names import names_of
from stepscope.frameworks.paddle.dialect.profiler import in_profiler_mode
from stepscope.frameworks.paddle.dialect.record_event import ALLOWED, RecordEvent
from stepscope.frameworks.paddle.dialect.result import load_profiler_result

__all__ = ["RecordEvent", "in_profiler_mode", "load_profiler_result", "wrap_optimizers"]

_names_of_paddle = names_of("utils")


def wrap_optimizers() -> None:
    """Do nothing: steps of optimizers are seen while something records, and never else."""


def __getattr__(name: str) -> Any:
    if name == "_is_profiler_used":
        return in_profiler_mode()
    if name == "_has_optimizer_wrapped":
        return False
    if name == "TracerEventType":
        return stepscope.paddle.TracerEventType
    if name == "_AllowedEventTypeList":
        return [
            getattr(stepscope.paddle.TracerEventType, event_type.name) for event_type in ALLOWED
        ]
    return _names_of_paddle(name)
