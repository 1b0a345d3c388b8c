"""What to record beyond names and times."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class StackMode(Enum):
    """How much of Python's stack is recorded."""

    NONE = "none"
    OPERATORS = "operators"  # the frames in which an operator starts
    CALLS = "calls"  # those, and every call with its time, but of functions in C by libraries
    ALL_CALLS = "all-calls"  # those of functions in C by libraries, too


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What to record beyond names and times; each costs something."""

    shapes: bool = False
    memory: bool = False
    stacks: StackMode = StackMode.NONE
    modules: bool = False
    annotations: bool = False  # the program's own NVTX and ITT ranges
    workers: bool = False  # child processes, too
    host: bool = True  # the frameworks' operators
    device: bool = False  # kernels and copies, where there is a device
    phases: bool = False  # forward and backward of PyTorch's modules, as Paddle marks its own
    gc_pauses: bool = False  # Python's garbage collections, which torch.profiler does not show
