"""What torch's blocks of memory hold: parameters, gradients, optimizer state and inputs.

Torch's global hooks tell of optimizers and modules. Statements about their tensors are made while
the tensors are there: gradients before each step of an optimizer, inputs when a model is called,
everything else when it is first seen and at the end.

A global module hook costs microseconds in every module of a model, so it is there only until the
next model is called, and again after each step of an optimizer: it sees the first model of every
iteration. Where torch.compile is in use there is none, and inputs stay unknown.
"""

from __future__ import annotations

import sys
import threading
import weakref
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stepscope._native import note_gradients, note_inputs, note_owner
from stepscope.trace.model import MemoryOwner

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEVICE_TYPES = {"cpu": 0, "cuda": 1, "xpu": 12, "mps": 13, "hpu": 15, "mtia": 19}
_PRIVATE_USE = 20  # a backend that gave itself a name
_NO_INDEX = -1
_NO_HOOK = -1
_DEEPEST = 4  # how far tensors are looked for in lists of lists


class Note(Protocol):
    """Take a statement: the block at this address now holds that."""

    def __call__(
        self, address: int, size: int, device_type: int, device_index: int, owner: int, /
    ) -> object:
        """Take it."""


class Gradients(NamedTuple):
    """What is known of an optimizer's gradients before they are there: that of its parameters."""

    parameters: tuple[Any, ...]  # those whose gradients are plain tensors
    bytes: tuple[int, ...]
    devices: tuple[int, ...]  # words of the core's
    others: tuple[Any, ...]
    of_all: int  # how many parameters there are

    @staticmethod
    def of(parameters: list[Any], plain: Any) -> Gradients:
        """Sort the parameters; a gradient is like its parameter, of torch's own type or not."""
        simple: list[Any] = []
        others: list[Any] = []
        for parameter in parameters:
            tensors = [parameter.data] + ([] if parameter.grad is None else [parameter.grad])
            is_simple = all(_begins_its_block(tensor, plain) for tensor in tensors)
            (simple if is_simple else others).append(parameter)
        devices = [_device_numbers(parameter.device) for parameter in simple]
        return Gradients(
            tuple(simple),
            tuple(parameter.nbytes for parameter in simple),
            tuple(kind << 8 | index & 0xFF for kind, index in devices),
            tuple(others),
            len(parameters),
        )


def _begins_its_block(tensor: Any, plain: Any) -> bool:
    return type(tensor) is plain and not tensor.is_sparse and not tensor.storage_offset()


class TorchOwners:
    """States what blocks of memory hold, while it is started.

    It looks at tensors without running an operator, keeps none of them alive, and whatever fails
    in it fails silently: a statement less is no reason to break a training.
    """

    def __init__(self, note: Note | None = None) -> None:
        """Take who wants to know, if not the recorder: that one is told faster."""
        self._note = note or note_owner
        self._is_quick = note is None
        self._torch: Any = None
        self._hooks: list[Any] = []
        self._module_hooks: dict[int, Any] = {}
        self._module_hook = _NO_HOOK
        self._changing_hooks = threading.Lock()
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._gradients: weakref.WeakKeyDictionary[Any, Gradients] = weakref.WeakKeyDictionary()
        self._models: weakref.WeakSet[Any] = weakref.WeakSet()

    def start(self) -> None:
        """Begin to watch optimizers and modules."""
        if self._hooks:
            return
        import torch
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        self._torch = torch
        # Torch's own functions for it take tens of microseconds, and this is done in every step.
        self._module_hooks = torch.nn.modules.module._global_forward_pre_hooks
        hook = torch.utils.hooks.RemovableHandle(self._module_hooks)
        self._module_hook = hook.id
        self._hooks = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        self._await_model()

    def stop(self) -> None:
        """State what is there now, and forget all that was seen."""
        with self._changing_hooks:
            hooks, self._hooks = self._hooks, []
        self._await_no_model()
        for hook in hooks:
            hook.remove()
        for optimizer in list(self._optimizers):
            self._tell_parameters(_parameters_of(optimizer))
            self._tell_state(optimizer)
        for model in list(self._models):
            with suppress(Exception):
                self._tell_parameters(model.parameters())
        self._optimizers.clear()
        self._gradients.clear()
        self._models.clear()

    def _await_model(self) -> None:
        with self._changing_hooks:
            if self._hooks and not _compiles():
                self._module_hooks[self._module_hook] = self._before_forward

    def _await_no_model(self) -> None:
        self._module_hooks.pop(self._module_hook, None)

    def _before_step(self, optimizer: Any, args: object, kwargs: object) -> None:
        with suppress(Exception):
            # Gradients are new blocks in most steps, and gone before the next.
            known = self._gradients.get(optimizer)
            if known is None or known.of_all != _count_of(optimizer):
                plain = self._torch.Tensor if self._is_quick else type(None)
                known = Gradients.of(list(_parameters_of(optimizer)), plain)
                self._gradients[optimizer] = known
            note_gradients(known.parameters, known.bytes, known.devices)
            for parameter in known.others:
                if parameter.is_leaf:
                    self._tell(parameter.grad, MemoryOwner.GRADIENT)

    def _after_step(self, optimizer: Any, args: object, kwargs: object) -> None:
        with suppress(Exception):
            self._await_model()
            if optimizer in self._optimizers:
                return
            self._optimizers.add(optimizer)
            self._tell_parameters(_parameters_of(optimizer))
            self._tell_state(optimizer)

    def _before_forward(self, module: Any, args: tuple[object, ...]) -> None:
        if self._torch.compiler.is_compiling():
            return  # a compiler reads this function as part of the model
        with suppress(Exception):
            self._await_no_model()
            # The hook gets no keyword arguments, by which many models take all their inputs.
            named = sys._getframe(1).f_locals.get("kwargs")
            is_told = self._is_quick and not named and note_inputs(args, self._torch.Tensor)
            if not is_told:
                for value in _tensors((args, named)):
                    if self._is_tensor(value) and value.grad_fn is None:
                        self._tell(value, MemoryOwner.INPUT)
            if module not in self._models:
                self._models.add(module)
                self._tell_parameters(module.parameters())

    def _is_tensor(self, value: object) -> bool:
        return isinstance(value, self._torch.Tensor)

    def _tell_parameters(self, parameters: Iterator[Any]) -> None:
        with suppress(Exception):
            for parameter in parameters:
                self._tell(parameter, MemoryOwner.PARAMETER)
                if parameter.is_leaf:  # torch warns when another's gradient is asked for
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
        except Exception:  # sparse, fake and not yet initialised tensors have no storage
            return


@cache
def _device_numbers(device: Any) -> tuple[int, int]:
    index = _NO_INDEX if device.index is None else device.index
    return _DEVICE_TYPES.get(device.type, _PRIVATE_USE), index


def _compiles() -> bool:
    """Return whether torch.compile was used.

    A compiled module warns of global module hooks when it is called, and one that is compiled
    while they are there is compiled again when they are gone: too much for knowing the inputs.
    """
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    backends = getattr(dynamo, "cached_backends", {})
    return any(callable(backend) for backend in backends.values())


def _count_of(optimizer: Any) -> int:
    return sum([len(group["params"]) for group in optimizer.param_groups])


def _parameters_of(optimizer: Any) -> Iterator[Any]:
    for group in list(optimizer.param_groups):
        yield from group["params"]


def _tensors(value: object, depth: int = 0) -> Iterator[Any]:
    """Yield what lists, tuples and dicts hold, however nested up to a depth."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        yield value
    elif depth < _DEEPEST:
        for each in value:
            yield from _tensors(each, depth + 1)
