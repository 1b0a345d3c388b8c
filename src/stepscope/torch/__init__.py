"""The dialect of torch.profiler."""

from stepscope._native import record_function
from stepscope.schedules import ProfilerAction, schedule
from stepscope.torch.activity import ProfilerActivity, kineto_available, supported_activities
from stepscope.torch.columns import DeviceType
from stepscope.torch.event import FunctionEvent, FunctionEventAvg
from stepscope.torch.events import AverageList, EventList
from stepscope.torch.handlers import tensorboard_trace_handler
from stepscope.torch.lowlevel import LowLevelProfile
from stepscope.torch.observer import ExecutionTraceObserver
from stepscope.torch.options import ExperimentalConfig
from stepscope.torch.profile import profile
from stepscope.torch.values import Interval, Kernel

# What code that reaches below torch's public names calls them.
_KinetoProfile = LowLevelProfile
_ExperimentalConfig = ExperimentalConfig

__all__ = [
    "AverageList",
    "DeviceType",
    "EventList",
    "ExecutionTraceObserver",
    "ExperimentalConfig",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "LowLevelProfile",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
