"""The bytes of operators, against those of the tensors that torch takes and makes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch

from stepscope.analysis.device.traffic import bytes_of, inputs_of
from stepscope.analysis.flops.count import operations
from stepscope.analysis.flops.formulas import formula_of

if TYPE_CHECKING:
    from collections.abc import Callable

aten = torch.ops.aten
WORDS = {
    torch.float32: "float",
    torch.bfloat16: "c10::BFloat16",
    torch.float16: "c10::Half",
    torch.int64: "long int",
    torch.bool: "bool",
}


def tensor(*sizes: int, dtype: Any = torch.bfloat16) -> Any:
    return torch.ones(sizes, dtype=dtype)


def fragment(args: tuple[Any, ...]) -> str:
    """Write inputs down as a trace does."""
    tensors = [isinstance(arg, torch.Tensor) for arg in args]
    values = {
        "Input Dims": [
            list(a.shape) if is_one else [] for a, is_one in zip(args, tensors, strict=True)
        ],
        "Input Strides": [
            list(a.stride()) if is_one else [] for a, is_one in zip(args, tensors, strict=True)
        ],
        "Input type": [
            WORDS[a.dtype] if is_one else "Scalar" for a, is_one in zip(args, tensors, strict=True)
        ],
        "Concrete Inputs": [
            "" if is_one else str(a) for a, is_one in zip(args, tensors, strict=True)
        ],
    }
    return json.dumps(values)[1:-1]


def size(values: Any) -> int:
    """Return the bytes of tensors, each once."""
    result = values if isinstance(values, tuple | list) else (values,)
    return sum(item.numel() * item.element_size() for item in result if torch.is_tensor(item))


X, W, B = tensor(4, 8, 16, 16), tensor(6, 8, 3, 3), tensor(6)
Q, K = tensor(2, 4, 32, 16), tensor(2, 4, 48, 16)
ROWS, COLUMN = tensor(64, 32), tensor(64, 1)

CASES: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("aten::mm", aten.mm, (tensor(8, 16), tensor(16, 32))),
    ("aten::addmm", aten.addmm, (tensor(32), tensor(8, 16), tensor(16, 32))),
    ("aten::bmm", aten.bmm, (tensor(3, 8, 16), tensor(3, 16, 32))),
    ("aten::baddbmm", aten.baddbmm, (tensor(3, 8, 32), tensor(3, 8, 16), tensor(3, 16, 32))),
    ("aten::mv", aten.mv, (tensor(8, 16), tensor(16))),
    (
        "aten::convolution",
        aten.convolution,
        (X, W, B, [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
    ),
    ("aten::add", aten.add, (ROWS, COLUMN)),
    ("aten::mul", aten.mul, (COLUMN, tensor(1, 32))),
    ("aten::gelu", aten.gelu, (ROWS,)),
    ("aten::eq", aten.eq, (ROWS, COLUMN)),
    ("aten::_softmax", aten._softmax, (ROWS, 1, False)),
    ("aten::where", aten.where, (tensor(64, 32, dtype=torch.bool), ROWS, COLUMN)),
]


@pytest.mark.parametrize(("name", "call", "args"), CASES, ids=[case[0] for case in CASES])
def test_inputs_and_results_count_once(
    name: str, call: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    inputs = inputs_of(fragment(args))
    assert inputs is not None
    formula = formula_of(name)
    flops = operations(formula, fragment(args)) if formula else 0
    assert bytes_of(name, inputs, flops) == size(args) + size(call(*args))


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("aten::copy_", (ROWS, ROWS.float()), size(ROWS) + size(ROWS.float())),
        ("aten::add_", (ROWS, COLUMN), 2 * size(ROWS) + size(COLUMN)),
        ("aten::fill_", (ROWS, 0), size(ROWS)),
        ("aten::sum", (ROWS,), size(ROWS)),
        # A norm's own statistics are next to nothing.
        ("aten::native_layer_norm", (ROWS, [32], tensor(32), tensor(32)), 2 * size(ROWS) + 128),
        # An expanded tensor is as large as what lies in memory.
        ("aten::mul", (ROWS, COLUMN.expand(64, 32)), 2 * size(ROWS) + size(COLUMN)),
        # Queries, keys and values are read, the result is as large as the queries.
        ("aten::_scaled_dot_product_flash_attention", (Q, K, K), 2 * size(Q) + 2 * size(K)),
        ("aten::_flash_attention_backward", (Q, Q, K, K, Q), 4 * size(Q) + 4 * size(K)),
        (
            "aten::convolution_backward",
            (tensor(4, 6, 16, 16), X, W),
            size(tensor(4, 6, 16, 16)) + 2 * size(X) + 2 * size(W),
        ),
        (
            "aten::embedding",
            (tensor(1000, 32), torch.ones(8, dtype=torch.int64)),
            2 * 8 * 32 * 2 + 64,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_differs(name: str, args: tuple[Any, ...], expected: int) -> None:
    inputs = inputs_of(fragment(args))
    assert inputs is not None
    assert bytes_of(name, inputs, 0) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        '"Input Dims": 3, "Input type": []',
        '"Input Dims": [[-1]], "Input type": ["float"]',
        '"Input Dims": [[1, "x"]], "Input type": ["float"]',
        '"Input Dims": [[[2], [3]]], "Input type": ["TensorList"]',
        '"Input Dims": [[2]], "Input type": [["float"]]',
    ],
)
def test_what_is_no_tensor_is_not_known(text: str) -> None:
    assert inputs_of(text) is None
