"""Stepscope: a profiler that shows where the time of every training and inference step goes."""

from __future__ import annotations

import os
import sys

from stepscope._native import record_function
from stepscope.lazy import lazy_names
from stepscope.registry import before_first_use, before_recording

TYPE_CHECKING = False  # nothing here imports more than a program has that we record
if TYPE_CHECKING:
    from typing import Any

    from stepscope import itt, nvtx, paddle
    from stepscope.background import wait_for_exports
    from stepscope.errors import StepscopeError, TraceReadError, UnsupportedError
    from stepscope.formats import export_trace, read_trace
    from stepscope.formats.compared import diff
    from stepscope.frameworks.torch.dialect.activity import (
        ProfilerActivity,
        kineto_available,
        supported_activities,
    )
    from stepscope.frameworks.torch.dialect.collectors import (
        CuspyConfig,
        PerformanceMetricsConfig,
        ProfilerActivityConfig,
    )
    from stepscope.frameworks.torch.dialect.event_columns import DeviceType
    from stepscope.frameworks.torch.dialect.handlers import tensorboard_trace_handler
    from stepscope.frameworks.torch.dialect.observer import ExecutionTraceObserver
    from stepscope.frameworks.torch.dialect.options import ExperimentalConfig
    from stepscope.frameworks.torch.dialect.profile import profile
    from stepscope.frameworks.torch.options import TorchCollector
    from stepscope.frameworks.torch.patch import patch_torch, unpatch_torch
    from stepscope.job.model import Job, open_job
    from stepscope.live.captures import capture
    from stepscope.live.server import serve
    from stepscope.record.limits import Keep, Last, MemoryLimit
    from stepscope.record.options import StackMode
    from stepscope.record.schedules import ProfilerAction, schedule
    from stepscope.record.session import Session
    from stepscope.report.handler import html_handler
    from stepscope.trace.model import Trace


@before_recording
def _register_sources() -> None:
    from stepscope.frameworks.cuda.sources import device_sources
    from stepscope.frameworks.paddle.sources import paddle_sources
    from stepscope.frameworks.python.sources import python_sources
    from stepscope.frameworks.torch.sources import torch_sources
    from stepscope.record.source import SOURCES

    for sources in (device_sources, paddle_sources, python_sources, torch_sources):
        SOURCES.register(sources)


@before_recording
def _register_extensions() -> None:
    from stepscope.extensions import load_extensions

    load_extensions()


@before_first_use
def _register_others() -> None:
    for name in (
        "formats",
        "query",
        "report",
        "frameworks.paddle.reading",
        "frameworks.python.reading",
        "frameworks.torch.reading",
    ):
        __import__(f"{__name__}.{name}")


# What a graph was captured from is known while it is captured, or never. Only there: elsewhere the
# import stays light.
if os.access("/dev/nvidiactl", os.F_OK):
    from stepscope.frameworks.torch.graph_captures import watch_captures_of_torch

    watch_captures_of_torch()

__all__ = [
    "CuspyConfig",
    "DeviceType",
    "ExecutionTraceObserver",
    "ExperimentalConfig",
    "Job",
    "Keep",
    "Last",
    "MemoryLimit",
    "PerformanceMetricsConfig",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerActivityConfig",
    "Session",
    "StackMode",
    "StepscopeError",
    "TorchCollector",
    "Trace",
    "TraceReadError",
    "UnsupportedError",
    "capture",
    "diff",
    "export_trace",
    "html_handler",
    "itt",
    "kineto_available",
    "nvtx",
    "open_job",
    "paddle",
    "patch_torch",
    "profile",
    "read_trace",
    "record_function",
    "schedule",
    "serve",
    "supported_activities",
    "tensorboard_trace_handler",
    "unpatch_torch",
    "wait_for_exports",
]


def _teach_dynamo(_dynamo: object = None) -> None:
    from stepscope.frameworks.torch.dynamo import teach_dynamo

    teach_dynamo()


class _AwaitsDynamo:
    """Teaches torch.compile the range type above, once the program imports it.

    It stands among the finders of modules but finds none: it waits for ``torch._dynamo``.
    """

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        """Leave the module to the other finders, and teach it when it is loaded."""
        if name != "torch._dynamo":
            return None
        sys.meta_path.remove(cls)
        from stepscope.record.post_import import PostImport

        return PostImport(name, _teach_dynamo, shown=False).find_spec(name, path, target)


if "torch._dynamo" in sys.modules:
    _teach_dynamo()
else:
    sys.meta_path.insert(0, _AwaitsDynamo)


def _version() -> str:
    from stepscope.trace.process_facts import own_version

    return own_version()


def _device_type() -> Any:
    torch = sys.modules.get("torch")
    if torch is not None:
        return torch.autograd.DeviceType  # torch's members equal none but their own
    from stepscope.frameworks.torch.dialect.event_columns import DeviceType

    return DeviceType


# Everything but the range type is imported when it is first used: a program that only marks its
# ranges pays nothing for the rest. torch is not in __all__: a star import would hide the real one.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "stepscope.background": "wait_for_exports",
        "stepscope.errors": "StepscopeError TraceReadError UnsupportedError",
        "stepscope.formats": "export_trace read_trace",
        "stepscope.formats.compared": "diff",
        "stepscope.frameworks.torch.dialect.activity": (
            "ProfilerActivity kineto_available supported_activities"
        ),
        "stepscope.frameworks.torch.dialect.collectors": (
            "CuspyConfig PerformanceMetricsConfig ProfilerActivityConfig"
        ),
        "stepscope.frameworks.torch.dialect.handlers": "tensorboard_trace_handler",
        "stepscope.frameworks.torch.dialect.observer": "ExecutionTraceObserver",
        "stepscope.frameworks.torch.dialect.options": "ExperimentalConfig",
        "stepscope.frameworks.torch.dialect.profile": "profile",
        "stepscope.frameworks.torch.patch": "patch_torch unpatch_torch",
        "stepscope.frameworks.torch.options": "TorchCollector",
        "stepscope.job.model": "Job open_job",
        "stepscope.live.captures": "capture",
        "stepscope.live.server": "serve",
        "stepscope.record.limits": "Keep Last MemoryLimit",
        "stepscope.record.options": "StackMode",
        "stepscope.record.schedules": "ProfilerAction schedule",
        "stepscope.record.session": "Session",
        "stepscope.report.handler": "html_handler",
        "stepscope.trace.model": "Trace",
        "stepscope.integrations.notebook": "load_ipython_extension",  # what %load_ext calls
    },
    modules=("integrations", "itt", "nvtx", "paddle", "torch"),
    made={"DeviceType": _device_type, "__version__": _version},
)

if os.environ.get("STEPSCOPE"):
    from stepscope.cli.environment import start_of_environment

    start_of_environment(os.environ["STEPSCOPE"])
