"""Records allocations of torch's CUDA allocator, through a bridge of their own."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.frameworks.cuda.cupti import cuda_include_folders
from stepscope.frameworks.torch.bridge.build import BridgeUnavailableError
from stepscope.frameworks.torch.bridge.load import load_library
from stepscope.frameworks.torch.bridge.prebuilt import Bridge
from stepscope.notices import notify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_loaded: ctypes.CDLL | None = None


def _includes() -> list[Path]:
    includes = list(cuda_include_folders())
    if not includes:
        raise BridgeUnavailableError(
            "CUDA's headers (cuda_runtime_api.h) were not found; set CUDA_HOME"
        )
    return includes


CUDA_MEMORY = Bridge(
    "cuda_memory",
    "cuda_memory_bridge.cpp",
    "torch's CUDA allocator,",
    ("c10_cuda", "torch_cpu", "c10"),
    _includes,
    one_a_minor=True,
)


class CudaMemory:
    """Records the allocator's events; does nothing if torch has no CUDA."""

    def __init__(self, torch: Any, *, may_build: bool) -> None:
        self._may_build = may_build
        self._torch = torch
        self._bridge: ctypes.CDLL | None = None
        self._on = False

    def prepare(self) -> None:
        if self._bridge is not None or not self._torch.cuda.is_available():
            return
        try:
            self._bridge = _load(self._torch, may_build=self._may_build)
        except BridgeUnavailableError as error:
            notify(f"the device's memory is not recorded: {error}")

    def start(self) -> None:
        if self._bridge is None:
            self.prepare()
        if self._bridge is None:
            return
        for device in _devices_in_use(self._torch):
            allocated = self._torch.cuda.memory_allocated(device)
            reserved = self._torch.cuda.memory_reserved(device)
            self._bridge.stepscope_cuda_bridge_totals(device, allocated, reserved)
        # torch attaches the bridge now, or as soon as the program initialises CUDA.
        self._torch.cuda._lazy_call(self._bridge.stepscope_cuda_bridge_attach)
        self._bridge.stepscope_cuda_bridge_start()
        self._on = True

    def stop(self) -> None:
        if self._on and self._bridge is not None:
            self._bridge.stepscope_cuda_bridge_stop()
        self._on = False


def _devices_in_use(torch: Any) -> Iterator[int]:
    if torch.cuda.is_initialized():
        yield from range(torch.cuda.device_count())


def _load(torch: Any, *, may_build: bool) -> ctypes.CDLL:
    global _loaded  # noqa: PLW0603 - one bridge a process; it is never unloaded
    if _loaded is None:
        bridge = load_library(torch, CUDA_MEMORY, may_build=may_build)
        bridge.stepscope_cuda_bridge_init.argtypes = [ctypes.c_void_p]
        bridge.stepscope_cuda_bridge_totals.argtypes = [
            ctypes.c_int,
            ctypes.c_int64,
            ctypes.c_int64,
        ]
        if bridge.stepscope_cuda_bridge_init(_native.core_api_address()):
            raise BridgeUnavailableError("the bridge was built for another version of Stepscope")
        _loaded = bridge
    return _loaded
