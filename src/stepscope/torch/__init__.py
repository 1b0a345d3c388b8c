"""The dialect of torch.profiler."""

from stepscope._native import record_function
from stepscope.schedules import ProfilerAction, schedule
from stepscope.torch.activity import ProfilerActivity, supported_activities
from stepscope.torch.columns import DeviceType
from stepscope.torch.event import FunctionEvent, FunctionEventAvg, Interval, Kernel
from stepscope.torch.events import AverageList, EventList
from stepscope.torch.profile import profile

__all__ = [
    "AverageList",
    "DeviceType",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
]
