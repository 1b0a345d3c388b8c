"""Calls of PyTorch modules, by their names within the model.

While it is started, ``torch.nn.Module.__call__`` is a function that records the call and goes on to
the plain one. torch's global forward hooks, even empty ones, cost over twice as much: they take
every call off torch's short path. They also miss the end of a call that Ctrl-C interrupts.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

from stepscope._native import begin_slice, end_slice
from stepscope.frameworks.torch.module_names import Models
from stepscope.record.patching import Patch
from stepscope.record.post_import import PostImport

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.frameworks.torch.module_names import Names
    from stepscope.trace.build import Captured

    _Call = Callable[..., Any]

_MODULE_KIND = 11  # SliceKind.MODULE, whose file imports NumPy


class TorchModules:
    """Module calls as a source: at once, or as soon as the program imports torch."""

    name = "torch modules"

    def __init__(self) -> None:
        """Touch nothing yet."""
        self._started = False
        self._patched: Patch | None = None
        self._hook = PostImport("torch", self._on_torch)

    def prepare(self) -> None:
        """Nothing is slow here: names are looked up when a model is first called."""

    def start(self) -> None:
        """Record calls from now on, or from torch's import on."""
        self._started = True
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "nn"):
            self._on_torch(torch)
        else:
            self._hook.install()

    def stop(self) -> None:
        """Leave torch as it was."""
        self._started = False
        self._hook.remove()
        if self._patched is not None:
            self._patched.remove()
            self._patched = None

    def collect(self) -> Captured | None:
        """Return None: the recorder has it all."""
        return None

    def describe(self) -> str:
        """Say what is used."""
        return "calls of torch.nn.Module, by qualified name"

    def overhead_ns(self) -> float:
        """Return 0: the recorder knows the cost of a slice."""
        return 0.0

    def _on_torch(self, torch: Any) -> None:
        if self._started and self._patched is None:
            _models.forget()  # they may have changed since the last recording
            self._patched = _patch_of(torch)
            self._patched.install()


class _InProgress(threading.local):
    """The names that hold for the calls in progress on this thread; None outside of any."""

    names: Names | None = None


_models = Models()
_in_progress = _InProgress()
_is_dynamo_compiling: Callable[[], bool]
_plain_call: _Call
_patch: Patch


@functools.cache
def _patch_of(torch: Any) -> Patch:
    global _is_dynamo_compiling, _patch  # noqa: PLW0603 - torch is one for the process, too
    _is_dynamo_compiling = torch.compiler.is_dynamo_compiling
    _patch = Patch(torch.nn.Module, "__call__", _recorded_instead_of)
    return _patch


def _recorded_instead_of(plain: _Call, _patch: Patch) -> _Call:
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
    if not _patch.is_wanted:
        return _plain_call(model, *args, **kwargs)
    _in_progress.names = _models.names_of(model)
    try:
        return _recorded_call(model, *args, **kwargs)
    finally:
        _in_progress.names = None
