"""The kinds of slices and memory blocks: every tool's categories mapped to one set."""

from __future__ import annotations

import re
from enum import IntEnum, IntFlag

_STEP_NAME = re.compile(r"Profiler?Step#(\d{1,10})$")
_LAST_STEP = 2**31 - 1  # the column has 32 bits


class SliceKind(IntEnum):
    """What a slice is, whatever the tool that wrote the trace called it."""

    OTHER = 0
    OPERATOR = 1
    RANGE = 2
    STEP = 3
    PYTHON = 4
    RUNTIME = 5
    KERNEL = 6
    MEMCPY = 7
    MEMSET = 8
    SYNC = 9
    DEVICE_RANGE = 10
    MODULE = 11  # a call of a neural network's module, by its qualified name


DEVICE_KINDS = (
    SliceKind.KERNEL,
    SliceKind.MEMCPY,
    SliceKind.MEMSET,
    SliceKind.SYNC,
    SliceKind.DEVICE_RANGE,
)


DEVICE_TYPES = {
    "cpu": 0,
    "cuda": 1,
    "hip": 6,
    "xpu": 12,
    "mps": 13,
    "meta": 14,
    "hpu": 15,
    "mtia": 19,
    "privateuseone": 20,
}
"""Torch's names and numbers of device types."""

_NAME_OF_DEVICE_TYPE = {number: name for name, number in DEVICE_TYPES.items()}
_PRIVATE_USE = DEVICE_TYPES["privateuseone"]
_UNNAMED_DEVICE = re.compile(r"device(\d{1,9})")


def device_type_name(number: int) -> str:
    """Return torch's name of a device type, ``device7`` for an unknown number."""
    return _NAME_OF_DEVICE_TYPE.get(number, f"device{number}")


def device_type_number(name: str) -> int:
    """Return torch's number of a device type; any other name is a custom backend's."""
    unnamed = _UNNAMED_DEVICE.fullmatch(name)
    return int(unnamed[1]) if unnamed else DEVICE_TYPES.get(name, _PRIVATE_USE)


WORK_KINDS = (SliceKind.KERNEL, SliceKind.MEMCPY, SliceKind.MEMSET)
"""The kinds of slices that keep a device busy."""

CALL_KINDS = (SliceKind.OPERATOR, SliceKind.RANGE, SliceKind.STEP)
"""The kinds that torch's profilers count as host functions."""


class SliceFlags(IntFlag):
    """What is special about one slice."""

    UNFINISHED = 1  # still open when recording stopped; its end is the end of the recording
    ASYNC = 2  # ended on another thread than it started on
    BACKWARD = 4  # a function of the backward pass


class ThreadState(IntEnum):
    """What a thread was doing when its stack was sampled."""

    PYTHON = 0  # running Python code
    NATIVE = 1  # running native code: a function written in C, an operator
    GIL = 2  # waiting for the GIL
    BLOCKED = 3  # waiting for anything else: see WaitReason
    READY = 4  # could run, but other threads have all cores


RUNNING_STATES = (ThreadState.PYTHON, ThreadState.NATIVE)
"""The states in which a thread has a core."""


class WaitReason(IntEnum):
    """What a blocked thread waits for, according to the kernel."""

    UNKNOWN = 0
    SLEEP = 1
    LOCK = 2
    FILE = 3
    SOCKET = 4
    PIPE = 5
    PROCESS = 6  # the end of a child process
    POLL = 7  # one of several files or sockets: an idle event loop


class MemoryOwner(IntEnum):
    """What a block of memory contains, if the program reported it."""

    PARAMETER = 1
    GRADIENT = 2
    OPTIMIZER_STATE = 3
    INPUT = 4


class UseRole(IntEnum):
    """What an operator did with the data of a tensor."""

    READ = 0
    MADE = 1
    CHANGED = 2
    RELEASED = 3  # nothing refers to the storage any more
    ESCAPED = 4  # code outside of the framework got hold of it
    READ_ROW = 5  # read, as a tensor whose first size is 1


_KIND_OF_CATEGORY = {
    "cpu_op": SliceKind.OPERATOR,
    "operator": SliceKind.OPERATOR,
    "user_annotation": SliceKind.RANGE,
    "python_function": SliceKind.PYTHON,
    "fee": SliceKind.PYTHON,  # of viztracer: function entry and exit
    "module": SliceKind.MODULE,
    "request": SliceKind.RANGE,  # of a server
    "task": SliceKind.RANGE,  # of asyncio
    "compile": SliceKind.RANGE,
    "cuda_runtime": SliceKind.RUNTIME,
    "cuda_driver": SliceKind.RUNTIME,
    "cuda_graph_node": SliceKind.RUNTIME,  # captured into a graph
    "hip_runtime": SliceKind.RUNTIME,
    "hsa_api": SliceKind.RUNTIME,
    "mtia_runtime": SliceKind.RUNTIME,
    "xpu_runtime": SliceKind.RUNTIME,
    "privateuse1_runtime": SliceKind.RUNTIME,
    "privateuse1_driver": SliceKind.RUNTIME,
    "runtime": SliceKind.RUNTIME,
    "kernel": SliceKind.KERNEL,
    "mtia_ccp_events": SliceKind.KERNEL,
    "gpu_memcpy": SliceKind.MEMCPY,
    "memcpy": SliceKind.MEMCPY,
    "gpu_memset": SliceKind.MEMSET,
    "memset": SliceKind.MEMSET,
    "cuda_sync": SliceKind.SYNC,
    "gpu_user_annotation": SliceKind.DEVICE_RANGE,
    "mtia_user_annotation": SliceKind.DEVICE_RANGE,
    # Paddle's event types. Its kernels and copies have the names above.
    "operatorinner": SliceKind.OPERATOR,
    "dygraphkernellaunch": SliceKind.OPERATOR,
    "statickernellaunch": SliceKind.OPERATOR,
    "pythonop": SliceKind.OPERATOR,
    "communication": SliceKind.OPERATOR,
    "userdefined": SliceKind.OPERATOR,  # C++: the binding around an operator
    "pythonuserdefined": SliceKind.RANGE,
    "profilestep": SliceKind.RANGE,
    "forward": SliceKind.RANGE,
    "backward": SliceKind.RANGE,
    "optimization": SliceKind.RANGE,
    "dataloader": SliceKind.RANGE,
    "cudaruntime": SliceKind.RUNTIME,
}


def kind_of_category(category: str) -> SliceKind:
    """Return the kind that a tool's category stands for."""
    return _KIND_OF_CATEGORY.get(category.lower(), SliceKind.OTHER)


def step_number(name: str) -> int | None:
    """Return n for ``ProfilerStep#n`` and ``ProfileStep#n``, else None."""
    match = _STEP_NAME.match(name)
    number = int(match[1]) if match else None
    return None if number is None or number > _LAST_STEP else number
