"""Paddle's event types, which are the categories in a Trace of Paddle, and stated in ranges."""

from __future__ import annotations

from stepscope.enums import NumberedAlike
from stepscope.trace.keys import stated_fragment


class TracerEventType(NumberedAlike):
    """Paddle's event types with Paddle's numbers; they equal and print as Paddle's do."""

    Operator = 0
    Dataloader = 1
    ProfileStep = 2
    CudaRuntime = 3
    Kernel = 4
    Memcpy = 5
    Memset = 6
    UserDefined = 7
    OperatorInner = 8
    Forward = 9
    Backward = 10
    Optimization = 11
    Communication = 12
    PythonOp = 13
    PythonUserDefined = 14
    DygraphKernelLaunch = 15
    StaticKernelLaunch = 16


def event_type_fragment(event_type: TracerEventType) -> str:
    """Return the argument that sets a range's type, as the inside of a JSON object."""
    return stated_fragment(event_type.name)
