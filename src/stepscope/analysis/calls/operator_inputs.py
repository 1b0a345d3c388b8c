"""What is known of the inputs of operators: of all of them with shapes, else of a few in many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.analysis.base.shared import shared
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import INPUT_DIMS, INPUT_TYPES, SAMPLED_DIMS, SAMPLED_TYPES
from stepscope.trace.model import Int64, SliceKind, Trace

# Of traces with shapes, and of operators that were drawn by lot (see record/inputs.py).
_KEYS = ((INPUT_DIMS, INPUT_TYPES), (SAMPLED_DIMS, SAMPLED_TYPES))


@dataclass(frozen=True, slots=True)
class OperatorInputs:
    """One row per operator with known inputs, in the order of slices."""

    rows: Int64  # of the slices
    elements: Int64  # of the largest tensor
    types: tuple[str, ...]  # of tensors, as the framework spells them
    type: Int64  # of the first tensor with several elements, else of the first; index of ``types``
    is_sample: bool  # whether they are a random sample

    def __len__(self) -> int:
        return len(self.rows)


@shared
def operator_inputs(trace: Trace) -> OperatorInputs:
    slices = trace.slices
    if not len(slices.args.rest):
        return _none()
    rows = np.flatnonzero((slices.kind == SliceKind.OPERATOR) & (slices.args.rest != 0))
    texts, place = np.unique(slices.args.rest[rows], return_inverse=True)
    types: dict[str, int] = {}
    elements, kind = np.full((2, len(texts)), -1, np.int64)
    are_all = False
    for i, text in enumerate(texts.tolist()):
        call_tensors = _tensors_in(trace.strings[text])
        if call_tensors is None:
            continue
        tensors, is_sample = call_tensors
        are_all |= not is_sample
        elements[i] = max(count for count, _ in tensors)
        # A number that is written in an expression comes as a double without dimensions.
        first = next((name for count, name in tensors if count > 1), tensors[0][1])
        kind[i] = types.setdefault(first, len(types))
    is_known = elements[place] >= 0
    place = place[is_known]
    return OperatorInputs(rows[is_known], elements[place], tuple(types), kind[place], not are_all)


def _none() -> OperatorInputs:
    nothing = np.zeros(0, np.int64)
    return OperatorInputs(nothing, nothing, (), nothing, False)


def _tensors_in(fragment: str) -> tuple[list[tuple[int, str]], bool] | None:
    """Return size and type of each input tensor, and whether it was drawn; None if unknown."""
    for number, (dims_key, types_key) in enumerate(_KEYS):
        if f'"{dims_key}"' in fragment:
            pairs = pairs_of(fragment)
            tensors = list(_sized(pairs.get(dims_key), pairs.get(types_key)))
            return (tensors, number == 1) if tensors else None
    return None


def _sized(dims: Any, types: Any) -> Iterator[tuple[int, str]]:
    if not isinstance(dims, list) or not isinstance(types, list):
        return
    for sizes, kind in zip(dims, types, strict=False):
        is_tensor = isinstance(kind, str) and not kind.startswith(("Scalar", "TensorList"))
        if kind and is_tensor and isinstance(sizes, list) and all(type(n) is int for n in sizes):
            yield math.prod(sizes), kind
