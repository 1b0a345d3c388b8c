"""Watches captures of CUDA graphs while Stepscope is imported and idle.

A graph is often captured long before its replays are recorded. CUPTI has room for one listener, and
other profilers need it, too: so we listen only during captures of PyTorch's.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from stepscope.record.patching import Patches
from stepscope.record.post_import import PostImport

if TYPE_CHECKING:
    from ctypes import CDLL
    from types import ModuleType

_MODULE = "torch.cuda.graphs"


def watch_captures_of_torch() -> None:
    if _MODULE in sys.modules:
        _watch(sys.modules[_MODULE])
    else:
        PostImport(_MODULE, _watch).install()


def _watch(_: ModuleType) -> None:
    _captures.acquire()


def _wrap(patches: Patches) -> None:
    kind = sys.modules[_MODULE].CUDAGraph
    watching: dict[int, CDLL | None] = {}  # by capture: the bridge that names its operators

    def beginning(theirs: Any) -> Any:
        @functools.wraps(theirs)
        def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
            if patches.in_use and _listen():
                watching[id(self)] = _named_by()
            return theirs(self, *args, **kwargs)

        return capture_begin

    def ending(theirs: Any) -> Any:
        @functools.wraps(theirs)
        def capture_end(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return theirs(self, *args, **kwargs)  # the nodes are copied here
            finally:
                if id(self) in watching:
                    _leave(watching.pop(id(self)))

        return capture_end

    patches.wrap(kind, "capture_begin", beginning)
    patches.wrap(kind, "capture_end", ending)


_captures = Patches(_wrap)


def _listen() -> bool:
    from stepscope.frameworks.cuda.activity import obstacle, watch_captures

    return _can_listen() and not obstacle() and watch_captures()


def _leave(names: CDLL | None) -> None:
    from stepscope.frameworks.cuda.activity import leave_captures

    leave_captures()
    if names is not None:
        names.stepscope_bridge_name_operators(False)


@functools.cache
def _can_listen() -> bool:
    from stepscope.frameworks.cuda.activity import cuda_available

    return cuda_available()


def _named_by() -> CDLL | None:
    """Have operators named from now on, and return the bridge; never compile one for this."""
    from stepscope.frameworks.torch.operators import ready_bridge

    bridge = ready_bridge(sys.modules["torch"])
    if bridge is not None:
        bridge.stepscope_bridge_name_operators(True)
    return bridge
