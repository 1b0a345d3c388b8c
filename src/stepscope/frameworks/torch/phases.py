"""Forward and backward phases of a PyTorch program, as Paddle has them.

Optimization and data loading need nothing: torch marks them itself. The calls are seen in
``Module._call_impl``, below ``__call__``, which the source of module names replaces.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from stepscope._native import begin_slice, end_slice
from stepscope.record.phase_ranges import (
    BACKWARD,
    BACKWARD_NAME,
    FORWARD,
    RANGE_KIND,
    Outermost,
    never,
)
from stepscope.record.shared_patches import Patches, PatchesWhenImported

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.build import Captured

    _Function = Callable[..., Any]


class TorchPhases:
    """The phases as a source: at once, or as soon as the program imports torch."""

    name = "torch phases"

    def __init__(self) -> None:
        """Touch nothing yet."""
        self._patches = PatchesWhenImported("torch", _phases)

    def prepare(self) -> None:
        """Nothing here is slow."""

    def start(self) -> None:
        """Mark phases from now on, or from torch's import on."""
        self._patches.start()

    def stop(self) -> None:
        """Leave torch as it was."""
        self._patches.stop()

    def collect(self) -> Captured | None:
        """Return None: the recorder has the ranges."""
        return None

    def describe(self) -> str:
        """Say what is recorded."""
        return "forward and backward phases" if "torch" in sys.modules else ""

    def overhead_ns(self) -> float:
        """Return 0: a range costs what every range costs."""
        return 0.0


# Globals, not a closure: Dynamo would guard its cells, and compile again when they are gone.
_plain_call: _Function
_is_dynamo_compiling: Callable[[], bool]


def _patch(patches: Patches) -> None:
    global _plain_call, _is_dynamo_compiling  # noqa: PLW0603 - torch is one for the process, too
    torch = sys.modules["torch"]
    _is_dynamo_compiling = torch.compiler.is_dynamo_compiling
    _plain_call = torch.nn.Module._call_impl
    patches.replace(torch.nn.Module, "_call_impl", functools.wraps(_plain_call)(_forward))
    backward = Outermost(BACKWARD_NAME, BACKWARD, never)
    # Tensor.backward calls it through the module, so both are seen.
    patches.replace(torch.autograd, "backward", backward(torch.autograd.backward))


def _forward(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    if _is_dynamo_compiling():  # true for Dynamo only: it compiles the plain call
        return _plain_call(self, *args, **kwargs)
    handle = begin_slice(RANGE_KIND, type(self).__name__, FORWARD)
    try:
        return _plain_call(self, *args, **kwargs)
    finally:
        end_slice(handle)


_phases = Patches(_patch)
