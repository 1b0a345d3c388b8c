"""Calls of PyTorch modules, by their names within the model.

While it is started, ``torch.nn.Module.__call__`` is a function that records the call and then calls
the plain one. torch's global forward hooks, even empty ones, cost over twice as much: they take
every call off torch's fast path. They also miss the end of a call that Ctrl-C interrupts.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from stepscope._native import begin_slice, end_slice
from stepscope.frameworks.torch.model_calls import MODEL_CALLS
from stepscope.frameworks.torch.module_names import Models
from stepscope.record.options import MODULES
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.record.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.frameworks.torch.module_names import Names

    _Call = Callable[..., Any]

_MODULE_KIND = 11  # SliceKind.MODULE, whose file imports NumPy


class TorchModules(Source):
    """Module calls as a source: at once, or as soon as the program imports torch."""

    name = "torch modules"
    when = MODULES

    def __init__(self) -> None:
        """Touch nothing yet."""
        self._patches = PatchesWhenImported("torch", _calls)

    def start(self) -> None:
        """Record calls from now on, or from torch's import on."""
        _models.forget()  # they may have changed since the last recording
        self._patches.start()

    def stop(self) -> None:
        """Leave torch as it was."""
        self._patches.stop()

    def describe(self) -> str:
        """Say what is used."""
        return "calls of torch.nn.Module, by qualified name"


class _InProgress(threading.local):
    """The names that hold for the calls in progress on this thread; None outside of any."""

    names: Names | None = None


_models = Models()
_in_progress = _InProgress()
_is_dynamo_compiling: Callable[[], bool]
_plain_call: _Call


def _patch(patches: Patches) -> None:
    global _is_dynamo_compiling  # noqa: PLW0603 - torch is one for the process, too
    torch = sys.modules["torch"]
    _is_dynamo_compiling = torch.compiler.is_dynamo_compiling
    MODEL_CALLS.pause()  # all calls include those of models
    patches.on_undo(MODEL_CALLS.resume)
    patches.wrap(torch.nn.Module, "__call__", _recorded_instead_of)


def _recorded_instead_of(plain: _Call) -> _Call:
    # Not a closure: Dynamo would guard its cells, and compile again all that it compiled while
    # recording, for they are gone afterwards. Globals stay what they are.
    global _plain_call  # noqa: PLW0603
    _plain_call = plain
    return _recorded_call


def _recorded_call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    if _is_dynamo_compiling():  # true for Dynamo only: it compiles the plain call
        return _plain_call(self, *args, **kwargs)
    names = _in_progress.names
    if names is None:
        return _call_model(self, args, kwargs)
    entry = names.get(id(self))
    if entry is None or entry[0]() is not self:
        entry = names.learn(self)
    handle = begin_slice(_MODULE_KIND, entry[1], entry[2])
    try:
        return _plain_call(self, *args, **kwargs)
    finally:
        end_slice(handle)


def _call_model(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not _calls.in_use:
        return _plain_call(model, *args, **kwargs)
    _in_progress.names = _models.names_of(model)
    try:
        return _recorded_call(model, *args, **kwargs)
    finally:
        _in_progress.names = None


_calls = Patches(_patch)
