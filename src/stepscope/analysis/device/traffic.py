"""The bytes that an operator has to move at least, from the shapes and types of its inputs.

Every input is read once and every result written once: what a kernel finds in a cache, reads twice
or keeps for the backward pass is not known. Of a table (an embedding), only the rows that are asked
for count. An operator of unknown purpose, such as one of a server for language models that holds
its weights itself, has no number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from stepscope.analysis.base.landmarks import Landmarks, landmarks
from stepscope.trace.element_types import element_type
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import INPUT_DIMS, INPUT_STRIDES, INPUT_TYPES

# The positions of the matrices among the inputs; for some, also the result's element size.
_PRODUCTS = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "_scaled_mm", "_int_mm"), (0, 1)),
    **dict.fromkeys(("_grouped_mm", "_scaled_grouped_mm", "matmul"), (0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"), (1, 2)),
}
_LOOK_UPS = ("embedding", "index_select", "gather")
_RESULT_BYTES = {"_scaled_mm": 2, "_scaled_grouped_mm": 2, "_int_mm": 4}
_REDUCTIONS = re.compile(
    r"(sum|mean|prod|max|min|amax|amin|argmax|argmin|norm|linalg_vector_norm|var|std|var_mean|any|all"
    r"|count_nonzero|nll_loss(2d)?(_forward)?|logsumexp|nonzero|_local_scalar_dense)$"
)
_TRUTHS = re.compile(r"(eq|ne|lt|le|gt|ge|isnan|isinf|isfinite|logical_(not|and|or|xor))$")
_FILLS = re.compile(
    r"(fill|zero|normal|uniform|random|bernoulli|exponential|log_normal|cauchy|geometric)_$"
)
_CONVOLUTION = re.compile(r"conv(olution)?(\d?d)?(_overrideable)?$")
_LIKE_ELEMENTS = re.compile(r"norm|silu|gelu|swiglu|act_and_mul|quant|softmax", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor among the inputs of a call."""

    sizes: tuple[int, ...]
    kind: str
    item_bytes: int
    moved: int  # elements that lie in memory: a tensor that was expanded has fewer than its sizes

    @property
    def bytes(self) -> int:
        return self.moved * self.item_bytes


@dataclass(frozen=True, slots=True)
class CallInputs:
    """The tensors of one call, by their place among its inputs."""

    tensors: dict[int, Tensor]

    @property
    def kind(self) -> str:
        """Return the type in which the call computes: that of its first floating-point tensor."""
        kinds = [tensor.kind for tensor in self.tensors.values()]
        return next((kind for kind in kinds if not kind.startswith("int")), kinds[0])

    @property
    def shapes_text(self) -> str:
        """Return the shapes as people write them: ``8192x512, 512``."""
        return ", ".join(
            "x".join(map(str, tensor.sizes)) or "scalar" for tensor in self.tensors.values()
        )


def inputs_of(fragment: str) -> CallInputs | None:
    """Read the inputs of a slice; None if it names no tensor."""
    pairs = pairs_of(fragment)
    dims, types = pairs.get(INPUT_DIMS), pairs.get(INPUT_TYPES)
    if not isinstance(dims, list) or not isinstance(types, list):
        return None
    strides = pairs.get(INPUT_STRIDES)
    tensors = dict(_tensors(dims, types, strides if isinstance(strides, list) else []))
    return CallInputs(tensors) if tensors else None


def bytes_of(name: str, inputs: CallInputs, flops: int) -> int:
    """Return the bytes that a call has to move; 0 if unknown."""
    marks = landmarks()
    if name.startswith(marks.fused_kernels):  # results are among the arguments
        return sum(tensor.bytes for tensor in inputs.tensors.values())
    word = _word_of(name, marks)
    if word == name and not _LIKE_ELEMENTS.search(name) and not flops:
        return 0
    bare = word.rstrip("_")
    first = next(iter(inputs.tensors.values()))
    if _FILLS.match(word):
        return first.bytes
    if bare in _LOOK_UPS:
        return _looked_up(bare, inputs)
    # A product may name the tensor for its result as one more input.
    last = max(_PRODUCTS.get(bare, inputs.tensors))
    read = sum(tensor.bytes for place, tensor in inputs.tensors.items() if place <= last)
    if bare not in (word, "copy"):
        return read + first.bytes
    return read + _written(bare, inputs, flops)


def _word_of(name: str, marks: Landmarks) -> str:
    """Return an operator's name without the prefixes and suffixes of its framework."""
    for prefix in marks.operator_prefixes:
        name = name.removeprefix(prefix)
    for suffix in marks.operator_suffixes:
        name = name.removesuffix(suffix)
    return name


def _written(word: str, inputs: CallInputs, flops: int) -> int:
    """Return the bytes that an operator writes."""
    tensors = inputs.tensors
    if word == "copy" or (_REDUCTIONS.match(word) and len(tensors) == 1):
        return 0  # the target of a copy is one of its inputs
    if word in _PRODUCTS:
        return _product(word, inputs)
    if flops and _CONVOLUTION.search(word) and 1 in tensors and 0 in tensors:
        places = flops // (2 * max(math.prod(tensors[1].sizes[1:]), 1))
        return places * tensors[0].item_bytes
    if word == "convolution_backward":
        return sum(tensors[at].bytes for at in (1, 2) if at in tensors)
    if "attention" in word or "flash_attn" in word:
        return _attention(word, inputs)
    return _elements(inputs) * (1 if _TRUTHS.match(word) else _widest(inputs))


def _tensors(dims: list[Any], types: list[Any], strides: list[Any]) -> Iterator[tuple[int, Tensor]]:
    for place, (sizes, word) in enumerate(zip(dims, types, strict=False)):
        element = element_type(word) if isinstance(word, str) else None
        if element is None or not _is_shape(sizes):
            continue
        apart = strides[place] if place < len(strides) else None
        steps = apart if _is_shape(apart) and len(apart) == len(sizes) else [1] * len(sizes)
        moved = math.prod(size for size, step in zip(sizes, steps, strict=True) if step)
        yield place, Tensor(tuple(sizes), element.kind, element.bytes, moved)


def _is_shape(sizes: Any) -> TypeGuard[list[int]]:
    return isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes)


def _product(word: str, inputs: CallInputs) -> int:
    first, second = (inputs.tensors.get(at) for at in _PRODUCTS[word])
    if first is None or second is None or not first.sizes or not second.sizes:
        return 0
    columns = second.sizes[-1] if len(second.sizes) > 1 else 1
    return math.prod(first.sizes[:-1]) * columns * _RESULT_BYTES.get(word, first.item_bytes)


def _looked_up(word: str, inputs: CallInputs) -> int:
    """Return the bytes of the rows that a lookup reads and writes, and of its indices."""
    table, *others = inputs.tensors.values()
    if not others:
        return 0
    index = others[0]
    width = table.sizes[-1] if len(table.sizes) > 1 and word != "gather" else 1
    return 2 * index.moved * width * table.item_bytes + index.bytes


def _attention(word: str, inputs: CallInputs) -> int:
    """Return what attention writes: as much as its queries; of its gradients, all three."""
    tensors = inputs.tensors
    if "backward" in word:
        return sum(tensors[at].bytes for at in (1, 2, 3) if at in tensors)
    query = tensors.get(0)
    return query.bytes if query is not None else 0


def _elements(inputs: CallInputs) -> int:
    """Return the number of elements after broadcasting, or of the largest tensor."""
    shapes = [tensor.sizes for tensor in inputs.tensors.values()]
    result: list[int] = []
    for place in range(1, max(map(len, shapes)) + 1):
        sizes = {shape[-place] for shape in shapes if len(shape) >= place} - {1}
        if len(sizes) > 1:
            return max(math.prod(shape) for shape in shapes)
        result.append(sizes.pop() if sizes else 1)
    return math.prod(result)


def _widest(inputs: CallInputs) -> int:
    """Return the bytes of an element of the result, in the type of the computation."""
    kind = inputs.kind
    return max(tensor.item_bytes for tensor in inputs.tensors.values() if tensor.kind == kind)
