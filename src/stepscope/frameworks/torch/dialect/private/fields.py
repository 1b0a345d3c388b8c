"""The fields of each kind of event in the tree: torch's ``_ExtraFields_*``."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from stepscope.analysis.host.averages import ANNOTATION_KINDS
from stepscope.frameworks.torch.dialect.private.tensor_ids import Numbers
from stepscope.frameworks.torch.dialect.values import scalar_value
from stepscope.frameworks.torch.tensor_notes import tensors_of
from stepscope.trace.element_types import element_type
from stepscope.trace.keys import CONCRETE_INPUTS, INPUT_DIMS, INPUT_STRIDES, INPUT_TYPES
from stepscope.trace.kinds import DEVICE_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.frameworks.torch.dialect.private.event_tree import EventTree
    from stepscope.frameworks.torch.live_objects import LiveModule, LiveOptimizer, LiveTensor

_PLACE = re.compile(r"(.*)\((\d+)\): (.*)", re.DOTALL)
_FUNCTION, _BACKWARD, _USER = 0, 1, 7  # as at::RecordScope numbers them
_NO_TENSORS = ("", "Scalar", "ScalarList", "TensorList")


def torch_profiler(name: str) -> Any:
    """Return a class of torch's; users of these views have imported torch."""
    return getattr(sys.modules["torch"]._C._profiler, name)


class _View:
    """Passes ``isinstance`` for one of torch's classes."""

    torch_class: ClassVar[str]

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return torch_profiler(self.torch_class)  # type: ignore[no-any-return]


class TensorMetadata(_View):
    """A tensor at one moment: torch's ``_TensorMetadata``."""

    torch_class = "_TensorMetadata"

    def __init__(  # noqa: PLR0917 - it is made here only
        self,
        impl: int | None,
        storage: int | None,
        device: Any,
        dtype: Any,
        layout: Any,
        sizes: list[int],
        strides: list[int],
        numbers: Numbers,
    ) -> None:
        self.impl_ptr = impl
        self.storage_data_ptr = storage or None
        self.device = device
        self.dtype = dtype
        self.layout = layout
        self.sizes = sizes
        self.strides = strides
        self.id = numbers.tensor
        self.allocation_id = numbers.block

    @property
    def dim(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        return f"<tensor {self.id}: {self.dtype} {self.sizes} on {self.device}>"


class _OfSlice(_View):
    tag: ClassVar[str]

    def __init__(self, tree: EventTree, number: int) -> None:
        self._tree = tree
        self._number = number

    @property
    def name(self) -> str:
        return self._tree.trace.name_of(self._number)

    @property
    def _args(self) -> dict[str, Any]:
        trace = self._tree.trace
        return trace.slices.args.of_row(self._number, trace.strings)


class TorchOp(_OfSlice):
    """An operator, a function of the backward pass, or a range."""

    torch_class = "_ExtraFields_TorchOp"
    tag = "TorchOp"

    @property
    def overload_name(self) -> str:
        trace = self._tree.trace
        return trace.strings[int(trace.slices.overload[self._number])]

    @property
    def sequence_number(self) -> int:
        """Return the number that a backward function shares with its forward operator, or -1."""
        return int(self._tree.trace.slices.sequence[self._number])

    @property
    def scope(self) -> Any:
        number = _FUNCTION
        if self._tree.is_backward[self._number]:
            number = _BACKWARD
        elif self._tree.trace.slices.kind[self._number] in ANNOTATION_KINDS:
            number = _USER
        return torch_profiler("RecordScope")(number)

    @property
    def allow_tf32_cublas(self) -> bool:
        return bool(sys.modules["torch"].backends.cuda.matmul.allow_tf32)

    @property
    def inputs(self) -> list[Any]:
        """Return the tensors, lists of tensors and scalars of the call."""
        args = self._args
        types = args.get(INPUT_TYPES, [])
        note_of = {
            (p, i): note for p, i, note in tensors_of(self._tree.notes_of.get(self._number, []))
        }
        inputs: list[Any] = []
        columns = (INPUT_DIMS, INPUT_STRIDES, CONCRETE_INPUTS)
        rows = zip(types, *(args.get(name, []) for name in columns), strict=True)
        for position, (kind, dims, strides, value) in enumerate(rows):
            if kind == "TensorList":
                pairs = zip(dims, strides, strict=True)
                inputs.append(
                    [self._tensor(note_of, position, i, *pair, "") for i, pair in enumerate(pairs)]
                )
            elif kind in _NO_TENSORS:
                inputs.append(scalar_value(value) if kind == "Scalar" else None)
            else:
                inputs.append(self._tensor(note_of, position, None, dims, strides, kind))
        return inputs

    def _tensor(  # noqa: PLR0917
        self,
        note_of: dict[tuple[int, int | None], Any],
        position: int,
        place: int | None,
        dims: list[int],
        strides: list[int],
        kind: str,
    ) -> TensorMetadata:
        torch = sys.modules["torch"]
        note = note_of.get((position, place))
        if note is None:
            element = element_type(kind)
            of_type = getattr(torch, element.name if element else "float32")
            strided = torch.strided
            cpu = torch.device("cpu")
            return TensorMetadata(None, None, cpu, of_type, strided, dims, strides, Numbers())
        numbers = self._tree.ids.get((self._number, position, place), Numbers())
        return TensorMetadata(
            int(note["impl"]),
            int(note["storage"]),
            _device(int(note["device_type"]), int(note["device_index"])),
            _of_torch(_DTYPES, int(note["type"])),
            _of_torch(_LAYOUTS, int(note["layout"])) or torch.strided,
            dims,
            strides,
            numbers,
        )


class PyCall(_OfSlice):
    """A call of a Python function."""

    torch_class = "_ExtraFields_PyCall"
    tag = "PyCall"

    @property
    def callsite(self) -> FrameState:
        if self.module is None:
            return FrameState(self.name)
        code = sys.modules["torch"].nn.Module.__call__.__code__
        return FrameState(f"{code.co_filename}({code.co_firstlineno}): {code.co_name}")

    @property
    def caller(self) -> FrameState:
        return _caller(self._tree, self._number)

    @property
    def module(self) -> ModuleInfo | None:
        module = self._tree.objects.modules.get(self.name)
        return None if module is None else ModuleInfo(self._tree, module)

    @property
    def optimizer(self) -> OptimizerInfo | None:
        optimizer = self._tree.optimizer_of.get(self._number)
        return None if optimizer is None else OptimizerInfo(self._tree, optimizer)


class PyCCall(_OfSlice):
    """A call of a function written in C."""

    torch_class = "_ExtraFields_PyCCall"
    tag = "PyCCall"

    @property
    def caller(self) -> FrameState:
        return _caller(self._tree, self._number)


class Work(_OfSlice):
    torch_class = "_ExtraFields_Kineto"
    tag = "Kineto"


class Allocation(_View):
    """Memory that was handed out, or (negative) given back."""

    torch_class = "_ExtraFields_Allocation"
    tag = "Allocation"

    def __init__(self, tree: EventTree, number: int) -> None:
        memory = tree.trace.memory
        row = number - tree.slices
        self._tree = tree
        self._number = number
        self._device = tree.trace.strings[int(memory.device[row])]
        self.ptr = int(memory.address[row])
        self.alloc_size = int(memory.size[row])
        self.total_allocated = int(memory.allocated[row])
        self.total_reserved = int(memory.reserved[row])

    @property
    def device(self) -> Any:
        return sys.modules["torch"].device(self._device)

    @property
    def id(self) -> int | None:
        """Return the number of the tensor that it holds, or None."""
        return self._tree.ids[self._number].tensor

    @property
    def allocation_id(self) -> int | None:
        return self._tree.ids[self._number].block


class FrameState(_View):
    """Where a Python function stands: torch's ``_PyFrameState``."""

    torch_class = "_PyFrameState"

    def __init__(self, name: str) -> None:
        place = _PLACE.fullmatch(name)
        self.file_name = place[1] if place else ""
        self.line_number = int(place[2]) if place else 0
        self.function_name = place[3] if place else name


class ModuleInfo(_View):
    """A module as it was when first called: torch's ``_NNModuleInfo``."""

    torch_class = "_NNModuleInfo"

    def __init__(self, tree: EventTree, module: LiveModule) -> None:
        self.self_ptr = module.address
        self.cls_ptr = id(module.cls)
        self.cls_name = module.cls.__name__
        self.parameters = [
            (name, _live(tree, tensor), _live(tree, gradient))
            for name, tensor, gradient in module.parameters
        ]


class OptimizerInfo(_View):
    """An optimizer as it was when first called: torch's ``_OptimizerInfo``."""

    torch_class = "_OptimizerInfo"

    def __init__(self, tree: EventTree, optimizer: LiveOptimizer) -> None:
        self.self_ptr = optimizer.address
        self.parameters = [
            (_live(tree, tensor), _live(tree, gradient), [(k, _live(tree, s)) for k, s in state])
            for tensor, gradient, state in optimizer.parameters
        ]


def _live(tree: EventTree, tensor: LiveTensor | None) -> TensorMetadata | None:
    if tensor is None:
        return None
    return TensorMetadata(*tensor, tree.ids.get(id(tensor), Numbers()))


def _caller(tree: EventTree, number: int) -> FrameState:
    """Return the Python function around a call; functions in C have no frame."""
    from stepscope.trace.model import NO_PARENT, SliceKind

    parent = tree.parents[number]
    while parent != NO_PARENT and not (
        tree.trace.slices.kind[parent] == SliceKind.PYTHON
        and not is_c_call(tree.trace.name_of(parent))
    ):
        parent = tree.parents[parent]
    return FrameState("") if parent == NO_PARENT else PyCall(tree, parent).callsite


def is_c_call(name: str) -> bool:
    return name.startswith("<built-in ")


# ---- torch's objects by its numbers

# In the order of c10::ScalarType.
_DTYPES = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32",
    "complex64", "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16", "quint4x2",
    "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8", "bits16", "float8_e5m2",
    "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64",
)  # fmt: skip
_LAYOUTS = (
    "strided",
    "sparse_coo",
    "sparse_csr",
    "_mkldnn",
    "sparse_csc",
    "sparse_bsr",
    "sparse_bsc",
)
_DEVICES = {number: name for name, number in DEVICE_TYPES.items()}


def _of_torch(names: Sequence[str], number: int) -> Any:
    """Return the attribute of torch with this number, or None."""
    return getattr(sys.modules["torch"], names[number], None) if number < len(names) else None


def _device(kind: int, index: int) -> Any:
    name = _DEVICES.get(kind, "cpu")
    return sys.modules["torch"].device(name if index < 0 else f"{name}:{index}")
