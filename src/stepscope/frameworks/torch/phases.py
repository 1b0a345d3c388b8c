"""Records the forward and backward phases of a PyTorch program, as Paddle does.

Optimization and data loading are not handled here, as torch marks them itself. Calls are watched in
``Module._call_impl``, below ``__call__``, which the source of module names replaces.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from stepscope._native import begin_slice, end_slice
from stepscope.frameworks.torch.options import PHASES
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.record.phase_ranges import (
    BACKWARD,
    BACKWARD_NAME,
    FORWARD,
    RANGE_KIND,
    Outermost,
    never,
)
from stepscope.record.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    _Function = Callable[..., Any]


class TorchPhases(Source):
    """Records the phases, at once or when the program imports torch."""

    name = "torch phases"
    when = PHASES

    def __init__(self) -> None:
        self._patches = PatchesWhenImported("torch", _phases)

    def start(self) -> None:
        self._patches.start()

    def stop(self) -> None:
        self._patches.stop()

    def describe(self) -> str:
        return "forward and backward phases" if "torch" in sys.modules else ""


# Globals instead of a closure: Dynamo would guard its cells, and recompile when they are gone.
_plain_call: _Function
_is_dynamo_compiling: Callable[[], bool]


def _patch(patches: Patches) -> None:
    global _is_dynamo_compiling  # noqa: PLW0603 - torch is one for the process, too
    torch = sys.modules["torch"]
    _is_dynamo_compiling = torch.compiler.is_dynamo_compiling
    patches.wrap(torch.nn.Module, "_call_impl", _forward_instead_of)
    # Tensor.backward calls it through the module, so both are seen.
    patches.wrap(torch.autograd, "backward", Outermost(BACKWARD_NAME, BACKWARD, never))


def _forward_instead_of(plain: _Function) -> _Function:
    global _plain_call  # noqa: PLW0603
    _plain_call = plain
    return functools.wraps(plain)(_forward)


def _forward(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    if _is_dynamo_compiling():  # true for Dynamo only, which compiles the plain call
        return _plain_call(self, *args, **kwargs)
    handle = begin_slice(RANGE_KIND, type(self).__name__, FORWARD)
    try:
        return _plain_call(self, *args, **kwargs)
    finally:
        end_slice(handle)


_phases = Patches(_patch)
