"""The dialect of torch.profiler."""

from stepscope._native import record_function
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
from stepscope.frameworks.torch.dialect.event_lists import AverageList, EventList
from stepscope.frameworks.torch.dialect.function_event import FunctionEvent, FunctionEventAvg
from stepscope.frameworks.torch.dialect.handlers import tensorboard_trace_handler
from stepscope.frameworks.torch.dialect.lowlevel import LowLevelProfile
from stepscope.frameworks.torch.dialect.observer import ExecutionTraceObserver
from stepscope.frameworks.torch.dialect.options import ExperimentalConfig
from stepscope.frameworks.torch.dialect.profile import profile
from stepscope.frameworks.torch.dialect.values import Interval, Kernel
from stepscope.record.schedules import ProfilerAction, schedule

# The names used by code that reaches below torch's public API.
_KinetoProfile = LowLevelProfile
_ExperimentalConfig = ExperimentalConfig

__all__ = [
    "AverageList",
    "CuspyConfig",
    "DeviceType",
    "EventList",
    "ExecutionTraceObserver",
    "ExperimentalConfig",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "LowLevelProfile",
    "PerformanceMetricsConfig",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerActivityConfig",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
