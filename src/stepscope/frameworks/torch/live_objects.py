"""Notes modules and optimizers at their first call: names for the trace, and tensors.

In its timeline of Python calls, torch.profiler names a module ``nn.Module: Linear_0``. Its memory
tools find parameters, gradients and optimizer state through modules and optimizers.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope import _native
from stepscope.frameworks.torch.dynamo import keep_dynamo_out
from stepscope.frameworks.torch.unseen import unseen
from stepscope.record.options import MEMORY, STACKS
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.record.source import Source, Stage
from stepscope.trace.names import MODULE_PREFIX

if TYPE_CHECKING:
    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions


class LiveTensor(NamedTuple):
    """A tensor that Python holds, described without holding it."""

    impl: int
    storage: int
    device: Any
    dtype: Any
    layout: Any
    sizes: list[int]
    strides: list[int]


@dataclass(slots=True)
class LiveModule:
    """A module at its first call."""

    address: int
    cls: type
    parameters: list[tuple[str, LiveTensor, LiveTensor | None]]


@dataclass(slots=True)
class LiveOptimizer:
    """An optimizer at the first call of its step."""

    address: int
    time_ns: int
    parameters: list[tuple[LiveTensor, LiveTensor | None, list[tuple[str, LiveTensor]]]]


@dataclass(slots=True)
class LiveObjects:
    modules: dict[str, LiveModule] = field(default_factory=dict)  # by name in the trace
    optimizers: list[LiveOptimizer] = field(default_factory=list)
    _numbers: dict[type, int] = field(default_factory=dict)
    with_tensors: bool = False

    def name_module(self, module: Any) -> str:
        """Name the calls of a module."""
        cls = type(module)
        number = self._numbers.get(cls, 0)
        self._numbers[cls] = number + 1
        name = f"{MODULE_PREFIX}{cls.__name__}_{number}"
        parameters = []
        if self.with_tensors:
            with suppress(Exception), unseen():
                for key, value in vars(module)["_parameters"].items():
                    if (live := _live(value)) is not None:
                        parameters.append((key, live, _live(value.grad)))
        self.modules[name] = LiveModule(id(module), cls, parameters)
        return name

    def note_optimizer(self, optimizer: Any) -> None:
        """Note an optimizer's tensors; its calls are named like any function's."""
        parameters = []
        if self.with_tensors:
            with suppress(Exception), unseen():
                for group in optimizer.param_groups:
                    for value in group["params"]:
                        if (live := _live(value)) is not None:
                            state = dict(optimizer.state.get(value, {}))
                            tensors = [(key, _live(value)) for key, value in state.items()]
                            of_value = [(key, value) for key, value in tensors if value is not None]
                            parameters.append((live, _live(value.grad), of_value))
        self.optimizers.append(LiveOptimizer(id(optimizer), _native.now_ns(), parameters))


class TorchObjects(Source):
    """Names the calls of modules while Python calls are recorded."""

    name = "torch objects"
    stage = Stage.PYTHON
    when = STACKS

    def __init__(self, *, with_tensors: bool = False) -> None:
        self._with_tensors = with_tensors
        self._patches = PatchesWhenImported("torch", _WATCHED)
        self.objects = LiveObjects()

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        return cls(with_tensors=options[MEMORY])

    def start(self) -> None:
        self.objects = LiveObjects(with_tensors=self._with_tensors)
        _current.append(self.objects)
        self._patches.start()

    def stop(self) -> None:
        self._patches.stop()
        if self.objects in _current:
            _current.remove(self.objects)


_current: list[LiveObjects] = []  # of the active recordings, the oldest first


def _name_module(module: Any) -> str | None:
    names = [objects.name_module(module) for objects in _current]
    return names[0] if names else None


def _note_optimizer(optimizer: Any) -> None:
    for objects in _current:
        objects.note_optimizer(optimizer)


def _watch(patches: Patches) -> None:
    torch: Any = sys.modules["torch"]
    if not hasattr(torch, "nn"):  # another module of this name
        return
    keep_dynamo_out()
    call = torch.nn.Module.__call__.__code__
    _native.watch_frames(call, _name_module)
    patches.on_undo(lambda: _native.leave_frames(call))
    step = torch.optim.Optimizer._optimizer_step_code.__code__  # called in every step, for this
    _native.watch_frames(step, _note_optimizer)
    patches.on_undo(lambda: _native.leave_frames(step))


_WATCHED = Patches(_watch)


def optimizer_call() -> str:
    """Return the suffix by which a trace names calls of optimizers."""
    torch: Any = sys.modules["torch"]
    code = torch.optim.Optimizer._optimizer_step_code.__code__
    return f"torch/optim/optimizer.py({code.co_firstlineno}): {code.co_name}"


def _live(tensor: Any) -> LiveTensor | None:
    try:
        return LiveTensor(
            tensor._cdata,
            tensor.untyped_storage().data_ptr(),
            tensor.device,
            tensor.dtype,
            tensor.layout,
            list(tensor.shape),
            list(tensor.stride()),
        )
    except Exception:  # None, a number, a sparse or fake tensor
        return None
