"""States what torch's blocks of memory hold: parameters, gradients, optimizer state, inputs.

Torch's global hooks report optimizers; the slot behind the call operator reports models. Statements
about tensors are made while the tensors exist: gradients before each step of an optimizer, inputs
when a model is called, everything else when it is first seen and at the end.

Of the models that are called between two steps of optimizers, only the first is inspected. Hooks of
modules are not used, as compilers read them as part of the model.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from stepscope._native import OwnerHooks, note_owner, tell_calls
from stepscope.frameworks.torch.unseen import unseen
from stepscope.record.patching import Patches
from stepscope.trace.kinds import MemoryOwner, device_type_number

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_INDEX = -1
_DEEPEST = 4  # the depth to which nested lists are searched for tensors


class Note(Protocol):
    """Receives a statement: the block at this address now holds that."""

    def __call__(
        self, address: int, size: int, device_type: int, device_index: int, owner: int, /
    ) -> object:
        """Take it."""


class TorchOwners:
    """States what blocks of memory hold, while it is started.

    It inspects tensors without running an operator, keeps none of them alive, and ignores its own
    failures: a missing statement must not break the training. Native code does what is needed in
    every step; it calls this class for optimizers and models that it has not seen.
    """

    def __init__(self, note: Note | None = None) -> None:
        self._note = note or note_owner
        self._given_note = note
        self._torch: Any = None
        self._native: OwnerHooks | None = None
        self._hooks: list[Any] = []
        # By id, without a WeakSet's callbacks: Python drops exceptions that are raised there.
        self._optimizers: dict[int, weakref.ref[Any]] = {}
        self._models: dict[int, weakref.ref[Any]] = {}

    def start(self) -> None:
        if self._native is not None:
            return
        import torch
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        self._torch = torch
        self._native = native = OwnerHooks(
            self, torch.Tensor, self._given_note, torch._C.DisableTorchFunction
        )
        self._hooks = [
            register_optimizer_step_pre_hook(native.before_step),
            register_optimizer_step_post_hook(native.after_step),
        ]
        _RUNNING.append(native)
        _MODELS.acquire()

    def stop(self) -> None:
        native, self._native = self._native, None
        if native is None:
            return
        native.stop()
        _MODELS.release()
        if native in _RUNNING:
            _RUNNING.remove(native)
        for hook in self._hooks:
            hook.remove()
        with unseen():
            for optimizer in _alive(self._optimizers):
                self._tell_parameters(_parameters_of(optimizer))
                self._tell_state(optimizer)
            for model in _alive(self._models):
                with suppress(Exception):
                    self._tell_parameters(model.parameters())
        self._optimizers.clear()
        self._models.clear()

    def learn_optimizer(self, optimizer: Any) -> None:
        """Separate parameters that native code can handle; a gradient is like its parameter."""
        with suppress(Exception):
            simple: list[Any] = []
            others: list[Any] = []
            for parameter in _parameters_of(optimizer):
                # Not ``parameter.data``, which is an operator that the program's modes would see.
                gradient = parameter.grad if parameter.is_leaf else None
                tensors = [parameter] if gradient is None else [parameter, gradient]
                is_simple = all(map(self._begins_its_block, tensors))
                (simple if is_simple else others).append(parameter)
            devices = [_device_numbers(parameter.device) for parameter in simple]
            if self._native is not None:
                self._native.know_optimizer(
                    optimizer,
                    tuple(simple),
                    [parameter.nbytes for parameter in simple],
                    [kind << 8 | index & 0xFF for kind, index in devices],
                    tuple(others),
                )

    def tell_optimizer(self, optimizer: Any) -> None:
        """State the parameters and the state of an optimizer after its first step."""
        with suppress(Exception):
            self._optimizers[id(optimizer)] = weakref.ref(optimizer)
            self._tell_parameters(_parameters_of(optimizer))
            self._tell_state(optimizer)

    def tell_gradients(self, parameters: tuple[Any, ...]) -> None:
        """State the gradients that are not plain tensors."""
        with suppress(Exception):
            for parameter in parameters:
                if parameter.is_leaf:
                    self._tell(parameter.grad, MemoryOwner.GRADIENT)

    def tell_model(self, model: Any) -> None:
        """State the parameters of a model at its first call."""
        with suppress(Exception):
            self._models[id(model)] = weakref.ref(model)
            self._tell_parameters(model.parameters())

    def tell_input(self, value: Any) -> None:
        """State the inputs of a model that no operator made."""
        with suppress(Exception):
            if self._is_tensor(value) and value.grad_fn is None:
                self._tell(value, MemoryOwner.INPUT)

    def _begins_its_block(self, tensor: Any) -> bool:
        is_plain = type(tensor) in (self._torch.Tensor, self._torch.nn.Parameter)
        return is_plain and not tensor.is_sparse and not tensor.storage_offset()

    def _is_tensor(self, value: object) -> bool:
        return isinstance(value, self._torch.Tensor)

    def _tell_parameters(self, parameters: Iterator[Any]) -> None:
        with suppress(Exception):
            for parameter in parameters:
                self._tell(parameter, MemoryOwner.PARAMETER)
                if parameter.is_leaf:  # torch warns about gradients of other tensors
                    self._tell(parameter.grad, MemoryOwner.GRADIENT)

    def _tell_state(self, optimizer: Any) -> None:
        with suppress(Exception):
            for value in _tensors(list(optimizer.state.values())):
                if self._is_tensor(value):
                    self._tell(value, MemoryOwner.OPTIMIZER_STATE)

    def _tell(self, tensor: Any, owner: MemoryOwner) -> None:
        if tensor is None:
            return
        try:
            storage = getattr(tensor, "_local_tensor", tensor).untyped_storage()
            address, size = storage.data_ptr(), storage.nbytes()
            if address and size:
                self._note(address, size, *_device_numbers(storage.device), owner)
        except Exception:  # sparse, fake and uninitialised tensors have no storage
            return


_RUNNING: list[OwnerHooks] = []  # of the active recordings


def _see_models(patches: Patches) -> None:
    """Watch calls of models in the interpreter, as a hook of torch's would be visible."""
    import torch

    from stepscope.frameworks.torch.modules import TORCH_MODULES

    def on_model_call(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        awaiting = [hooks for hooks in _RUNNING if hooks.awaits_model()]
        # Looking at a tensor during compilation or tracing could become part of the result.
        if awaiting and not torch.compiler.is_compiling() and not torch.jit.is_tracing():
            for hooks in awaiting:
                hooks.before_forward(model, args, kwargs)

    patches.on_undo(TORCH_MODULES.watched.release)
    TORCH_MODULES.watched.acquire()
    patches.on_undo(lambda: tell_calls(torch.nn.Module, None))
    tell_calls(torch.nn.Module, on_model_call)


_MODELS = Patches(_see_models)


@cache
def _device_numbers(device: Any) -> tuple[int, int]:
    index = _NO_INDEX if device.index is None else device.index
    return device_type_number(device.type), index


def _alive(references: dict[int, weakref.ref[Any]]) -> list[Any]:
    return [alive for reference in list(references.values()) if (alive := reference()) is not None]


def _parameters_of(optimizer: Any) -> Iterator[Any]:
    for group in list(optimizer.param_groups):
        yield from group["params"]


def _tensors(value: object, depth: int = 0) -> Iterator[Any]:
    """Yield the elements of nested lists, tuples and dicts, up to a depth."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        yield value
    elif depth < _DEEPEST:
        for element in value:
            yield from _tensors(element, depth + 1)
