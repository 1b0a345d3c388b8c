"""Records operators, backward functions and user scopes of all threads through the bridge."""

from __future__ import annotations

import ctypes
import functools
import os
from enum import IntFlag
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.frameworks.torch.bridge.build import BridgeUnavailableError
from stepscope.frameworks.torch.bridge.load import load_library
from stepscope.frameworks.torch.cuda_memory import CudaMemory
from stepscope.frameworks.torch.escapes import Escapes
from stepscope.frameworks.torch.options import NEEDLESS
from stepscope.frameworks.torch.owners import TorchOwners
from stepscope.record.held_memory import HeldMemory
from stepscope.record.options import (
    AS_TORCH,
    DEVICE,
    HELD_MEMORY,
    INSIDE,
    MEMORY,
    MODULES,
    SAMPLED_INPUTS,
    SHAPES,
    STACKS,
    StackMode,
)
from stepscope.record.source import Source

if TYPE_CHECKING:
    from stepscope.frameworks.torch.tensor_notes import TensorNotes
    from stepscope.record.options import Option, RecordOptions
    from stepscope.trace.schema import Captured

_CALIBRATION_ROUNDS = 2_000

_loaded: ctypes.CDLL | None = None


def load_bridge(torch: Any, *, may_build: bool = True) -> ctypes.CDLL:
    """Return the loaded bridge; raise BridgeUnavailableError if that is impossible."""
    global _loaded  # noqa: PLW0603 - one bridge a process; it is never unloaded
    if _loaded is None:
        bridge = load_library(torch, may_build=may_build)
        bridge.stepscope_bridge_init.argtypes = [ctypes.c_void_p]
        bridge.stepscope_bridge_overhead_ns.restype = ctypes.c_double
        bridge.stepscope_bridge_tensors.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        bridge.stepscope_bridge_tensors.restype = ctypes.c_int64
        bridge.stepscope_bridge_text.argtypes = [ctypes.c_uint64]
        bridge.stepscope_bridge_text.restype = ctypes.c_char_p
        bridge.stepscope_bridge_escaped.argtypes = [ctypes.c_void_p]
        if bridge.stepscope_bridge_init(_native.core_api_address()):
            raise BridgeUnavailableError("the bridge was built for another version of Stepscope")
        os.register_at_fork(after_in_child=bridge.stepscope_bridge_reset)
        asked = ctypes.cast(bridge.stepscope_bridge_others_listen, ctypes.c_void_p).value
        _native.set_others_listen(asked or 0)
        bridge.stepscope_bridge_name_operators.argtypes = [ctypes.c_bool]
        running = ctypes.cast(bridge.stepscope_bridge_operator, ctypes.c_void_p).value
        _native.set_current_operator(running or 0)
        _loaded = bridge
    return _loaded


def ready_bridge(torch: Any) -> ctypes.CDLL | None:
    """Return the bridge if no compilation, which takes seconds, is needed; else None."""
    return _loaded or _ready_bridge(torch)


@functools.cache
def _ready_bridge(torch: Any) -> ctypes.CDLL | None:
    try:
        return load_bridge(torch, may_build=False)
    except (BridgeUnavailableError, OSError):
        return None


@functools.cache
def _calibrated_ns(bridge: ctypes.CDLL) -> float:
    window = _native.open_window(0, False)
    bridge.stepscope_bridge_start(0)
    try:
        return float(bridge.stepscope_bridge_overhead_ns(_CALIBRATION_ROUNDS))
    finally:
        bridge.stepscope_bridge_stop(0)
        _native.close_window(window)


class _Wish(IntFlag):
    """What is wanted beyond names and times; as in ``bridge/torch_bridge.cpp``."""

    INPUTS = 1
    MEMORY = 2
    SAMPLED_INPUTS = 4
    SAMPLED_MEMORY = 8
    TENSORS = 16
    FRAMES_OF_SCRIPTS = 32
    MODULES_OF_SCRIPTS = 64
    VALUES = 128


_WISHES: tuple[tuple[Option[bool], _Wish], ...] = (
    (SHAPES, _Wish.INPUTS),
    (MEMORY, _Wish.MEMORY),
    (SAMPLED_INPUTS, _Wish.SAMPLED_INPUTS),
    (HELD_MEMORY, _Wish.SAMPLED_MEMORY),
    (NEEDLESS, _Wish.VALUES),
)


def _wishes_of(options: RecordOptions) -> _Wish:
    wishes = reduce(or_, (wish for option, wish in _WISHES if options[option]), _Wish(0))
    if options[AS_TORCH] and options[STACKS] is not StackMode.NONE:
        wishes |= _Wish.FRAMES_OF_SCRIPTS
    if options[AS_TORCH] and options[MODULES]:
        wishes |= _Wish.MODULES_OF_SCRIPTS
    # Tools for memory need them; noting each tensor costs too much otherwise.
    has_tools = options[SHAPES] and options[MEMORY] and not options[INSIDE]
    return wishes | _Wish.TENSORS if has_tools else wishes


_noting = 0  # the number of active recordings, which share the bridge's notes


class TorchOps(Source):
    """Records through the bridge: torch's callbacks fill the recorder."""

    name = "torch"

    def __init__(self, torch: Any, options: RecordOptions) -> None:
        self._torch = torch
        self._is_inside = options[INSIDE]
        self._bridge = load_bridge(torch, may_build=not self._is_inside)
        memory = options[MEMORY]
        self._wishes = _wishes_of(options)
        # Inside a run, the agent has a sample of all memory.
        has_sample = options[HELD_MEMORY] and not self._is_inside
        self._held_memory = HeldMemory() if has_sample else None
        self._owners = TorchOwners() if memory else None
        self._escapes = Escapes(torch, self._bridge) if options[NEEDLESS] else None
        self._cuda_memory = (
            CudaMemory(torch, may_build=not self._is_inside) if memory and options[DEVICE] else None
        )
        self.tensor_notes: TensorNotes | None = None  # of the last recording

    def prepare(self) -> None:
        if self._cuda_memory is not None:
            self._cuda_memory.prepare()

    def start(self) -> None:
        global _noting  # noqa: PLW0603 - one bridge a process
        _noting += 1
        if self._held_memory is not None:
            self._held_memory.start()
        if _Wish.MEMORY in self._wishes:
            _native.remember_blocks()
        self._bridge.stepscope_bridge_start(self._wishes)
        if self._escapes is not None:
            self._escapes.start()
        if self._cuda_memory is not None:
            self._cuda_memory.start()
        if self._owners is not None:
            self._owners.start()

    def stop(self) -> None:
        if self._owners is not None:
            self._owners.stop()
        if self._cuda_memory is not None:
            self._cuda_memory.stop()
        if self._escapes is not None:
            self._escapes.stop()
        self._bridge.stepscope_bridge_stop(self._wishes)
        if self._held_memory is not None:
            self._held_memory.stop()
        self._keep_notes()

    def _keep_notes(self) -> None:
        global _noting  # noqa: PLW0603
        _noting = max(_noting - 1, 0)
        if self._is_inside:
            return
        from stepscope.frameworks.torch.tensor_notes import noted_tensors

        self.tensor_notes = noted_tensors(self._bridge)
        if not _noting:
            self._bridge.stepscope_bridge_forget_tensors()

    def collect(self) -> Captured | None:
        return self._held_memory.collect() if self._held_memory is not None else None

    def so_far(self) -> Captured | None:
        return self._held_memory.so_far() if self._held_memory is not None else None

    def describe(self) -> str:
        return f"operators of torch {self._torch.__version__}, all threads, through the bridge"

    def overhead_ns(self) -> float:
        """Return the calibrated cost of one operator; 0 while a recording would record it."""
        watched = _native.recording() or self._torch.autograd._profiler_enabled()
        return 0.0 if watched else _calibrated_ns(self._bridge)
