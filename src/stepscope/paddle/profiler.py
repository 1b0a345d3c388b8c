"""paddle.profiler.profiler: the profiler, and what programs use besides it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stepscope.paddle
from stepscope.frameworks.paddle.dialect.handlers import export_chrome_tracing, export_protobuf
from stepscope.frameworks.paddle.dialect.paddles_names import names_of
from stepscope.frameworks.paddle.dialect.profiler import Profiler
from stepscope.frameworks.paddle.dialect.record_event import RecordEvent
from stepscope.frameworks.paddle.dialect.states import (
    ProfilerState,
    _always_record,
    make_scheduler,
)
from stepscope.frameworks.paddle.dialect.targets import ProfilerTarget, supported_targets
from stepscope.frameworks.paddle.views.summary_tables import SortedKeys, SummaryView
from stepscope.paddle import utils
from stepscope.paddle.utils import wrap_optimizers

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

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

# Names of paddle.profiler's functions mean ours, which do not need Paddle.
_PADDLES = ("paddle.profiler", "paddle.profiler.profiler")
_OWN = {
    function.__name__: function
    for function in (export_chrome_tracing, export_protobuf, make_scheduler)
}


def __getattr__(name: str) -> Any:
    if name == "TracerEventType":
        return stepscope.paddle.TracerEventType
    return _names_of_paddle(name)


def get_profiler(config_path: str | os.PathLike[str]) -> Profiler:
    """Return a profiler with the arguments of a JSON file; what cannot be used is said, and left.

    ``targets`` are names of devices, ``timer_only`` is true or false, ``scheduler`` a pair of steps
    or a function, ``on_trace_ready`` a function. A function is
    ``{NAME: {"module": ..., "use_direct": true}}``, or one that is returned by
    ``{NAME: {"module": ..., "use_direct": false, "args": [...], "kwargs": {...}}}``.
    """
    try:
        config = dict(json.loads(Path(config_path).read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError) as error:
        print(f"Load config file for profiler error: {error}")
        print("Use default parameters instead.")
        return Profiler()
    arguments: dict[str, Any] = {}
    for name, understood in _ARGUMENTS.items():
        if name not in config:
            continue
        try:
            arguments[name] = understood(config[name])
        except Exception:  # a function of the user's module may raise anything
            print(f"Set {name} parameter error, use default parameter instead.")
    return Profiler(**arguments)


def _targets(names: Any) -> list[ProfilerTarget]:
    targets = {target.name.lower(): target for target in (ProfilerTarget.CPU, ProfilerTarget.GPU)}
    return [targets[name.lower()] for name in names if name.lower() in targets]


def _scheduler(value: Any) -> Any:
    return _function(value) if isinstance(value, dict) else [value[0], value[1]]


def _function(value: Any) -> Any:
    (name, where), *_ = value.items()
    module = where["module"]
    if module in _PADDLES and name in _OWN:
        chosen: Callable[..., Any] = _OWN[name]
    else:
        chosen = getattr(importlib.import_module(module), name)
    return chosen if where["use_direct"] else chosen(*where["args"], **where["kwargs"])


def _true_or_false(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is not true or false")
    return value


_ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "targets": _targets,
    "scheduler": _scheduler,
    "on_trace_ready": _function,
    "timer_only": _true_or_false,
}
