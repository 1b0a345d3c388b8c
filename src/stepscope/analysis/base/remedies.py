"""The registry of remedies: what a framework's users call each that a finding proposes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from stepscope.registry import Registry


class Remedy(Enum):
    """Advice for which frameworks have words of their own."""

    COMPILER = auto()  # which fuses operators: its name
    FEWER_LAUNCHES = auto()  # a compiler that makes graphs of the device's, before those
    FUSED_ATTENTION = auto()
    NO_GRAPH = auto()  # around an inference
    NO_GRADIENTS = auto()  # for a model that is not trained
    FLOAT32 = auto()  # the type's name
    WHOLE_ARRAYS = auto()  # instead of lists
    BUCKETS = auto()  # in which gradients are exchanged
    BACKGROUND = auto()  # where work is done beside the loop
    LOADER = auto()  # the call that makes a loader, up to its arguments
    LOADER_PREFIX = auto()  # of the names of those arguments
    PINNED_MEMORY = auto()  # the argument of a loader
    CHECKPOINTS = auto()
    FREED_GRADIENTS = auto()
    SMALLER_WORKSPACE = auto()
    LESS_UNUSED = auto()  # of what an allocator holds
    LESS_KEPT = auto()  # what a loop may keep from every step


@dataclass(frozen=True, slots=True)
class Advice:
    framework: str  # as its package is called
    words: Mapping[Remedy, str]
    is_assumed: bool = False  # where a trace does not tell its framework
    loop_in: str = ""  # the words of a library that has the loop: how its file begins


# Each entry imports and returns the advice of one framework.
ADVICE: Registry[Callable[[], Advice]] = Registry()
