"""Stepscope: where every step of training and inference goes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stepscope._native import record_function

if TYPE_CHECKING:
    from stepscope import itt, nvtx, paddle
    from stepscope.errors import StepscopeError, TraceReadError, UnsupportedError
    from stepscope.export import export_trace
    from stepscope.patch import patch_torch, unpatch_torch
    from stepscope.readers import read_trace
    from stepscope.record.limits import Keep, MemoryLimit
    from stepscope.record.options import StackMode
    from stepscope.report.handler import html_handler
    from stepscope.schedules import ProfilerAction, schedule
    from stepscope.session import Session
    from stepscope.sources.torch_source import TorchCollector
    from stepscope.torch.activity import ProfilerActivity, kineto_available, supported_activities
    from stepscope.torch.columns import DeviceType
    from stepscope.torch.handlers import tensorboard_trace_handler
    from stepscope.torch.observer import ExecutionTraceObserver
    from stepscope.torch.options import ExperimentalConfig
    from stepscope.torch.profile import profile
    from stepscope.trace.model import Trace

# Everything but the range type is imported when it is first used: a program that only marks its
# ranges pays nothing for the rest.
_HOMES = {
    "DeviceType": "stepscope.torch.columns",
    "ExecutionTraceObserver": "stepscope.torch.observer",
    "ExperimentalConfig": "stepscope.torch.options",
    "Keep": "stepscope.record.limits",
    "MemoryLimit": "stepscope.record.limits",
    "ProfilerAction": "stepscope.schedules",
    "ProfilerActivity": "stepscope.torch.activity",
    "Session": "stepscope.session",
    "StackMode": "stepscope.record.options",
    "StepscopeError": "stepscope.errors",
    "TorchCollector": "stepscope.sources.torch_source",
    "Trace": "stepscope.trace.model",
    "TraceReadError": "stepscope.errors",
    "UnsupportedError": "stepscope.errors",
    "export_trace": "stepscope.export",
    "html_handler": "stepscope.report.handler",
    "kineto_available": "stepscope.torch.activity",
    "patch_torch": "stepscope.patch",
    "profile": "stepscope.torch.profile",
    "read_trace": "stepscope.readers",
    "schedule": "stepscope.schedules",
    "supported_activities": "stepscope.torch.activity",
    "tensorboard_trace_handler": "stepscope.torch.handlers",
    "unpatch_torch": "stepscope.patch",
}
_MODULES = {"itt", "nvtx", "paddle"}

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ExperimentalConfig",
    "Keep",
    "MemoryLimit",
    "ProfilerAction",
    "ProfilerActivity",
    "Session",
    "StackMode",
    "StepscopeError",
    "TorchCollector",
    "Trace",
    "TraceReadError",
    "UnsupportedError",
    "export_trace",
    "html_handler",
    "itt",
    "kineto_available",
    "nvtx",
    "paddle",
    "patch_torch",
    "profile",
    "read_trace",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
    "unpatch_torch",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"stepscope.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stepscope' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
