"""FLOP formulas of sums of products: matrices, convolutions, attention, recurrent layers.

A multiplication and the addition after it are two operations. What is added besides (a bias, the
``beta * self`` of ``addmm``, the softmax inside attention) is not counted, as in
``torch.utils.flop_counter``; only recurrent layers, which are not counted there, include the
arithmetic of their gates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from stepscope.analysis.flops.inputs import Formula, Inputs, Shape


def _same(*sizes: int) -> int:
    """Return the size that several dimensions must share."""
    if len(set(sizes)) != 1:
        raise ValueError(f"sizes differ: {sizes}")
    return sizes[0]


# --- matrices ---


def _mm(first: int, inputs: Inputs) -> int:
    (m, k), (k2, n) = inputs.shape(first), inputs.shape(first + 1)
    return 2 * m * n * _same(k, k2)


def _bmm(first: int, inputs: Inputs) -> int:
    (b, m, k), (b2, k2, n) = inputs.shape(first), inputs.shape(first + 1)
    return 2 * _same(b, b2) * m * n * _same(k, k2)


def _grouped(inputs: Inputs) -> int:
    """Count products in groups (of experts); every row or column is in one group."""
    first, second = inputs.shape(0), inputs.shape(1)
    (*groups, m, k), (*others, k2, n) = first, second
    both = _same(groups[0], others[0]) if groups and others else 1
    return 2 * both * m * n * _same(k, k2)


def _mv(first: int, inputs: Inputs) -> int:
    (m, k), (k2,) = inputs.shape(first), inputs.shape(first + 1)
    return 2 * m * _same(k, k2)


def _dot(inputs: Inputs) -> int:
    (k,), (k2,) = inputs.shape(0), inputs.shape(1)
    return 2 * _same(k, k2)


def _addr(inputs: Inputs) -> int:
    (m,), (n,) = inputs.shape(1), inputs.shape(2)
    return 2 * m * n


def _linear(inputs: Inputs) -> int:
    """Count torch.compile's own linear layer; the weight is (out, in)."""
    (*rows, k), (n, k2) = inputs.shape(0), inputs.shape(1)
    return 2 * prod(rows) * n * _same(k, k2)


# --- convolutions ---


@dataclass(frozen=True, slots=True)
class _Layout:
    """The positions of a convolution operator's arguments that decide the size of its output."""

    stride: int
    padding: int
    dilation: int


def _spatial(image: Shape, weight: Shape) -> tuple[int, Shape]:
    """Return the batch and the sizes after the channels; the batch may be missing."""
    if len(weight) < 3 or len(image) not in {len(weight), len(weight) - 1}:
        raise ValueError(f"image {image}, weight {weight}")
    has_batch = len(image) == len(weight)
    return (image[0] if has_batch else 1), image[1 + has_batch :]


def _convolution(layout: _Layout, inputs: Inputs) -> int:
    """Count a product per element of the weight and position of the output."""
    if inputs.is_complex(0):
        return 0  # the three real convolutions that it consists of count instead
    weight = inputs.shape(1)
    batch, sizes = _spatial(inputs.shape(0), weight)
    rank = len(sizes)
    stride = inputs.integers(layout.stride, rank)
    padding = inputs.integers(layout.padding, rank)
    dilation = inputs.integers(layout.dilation, rank)
    if min(*stride, *dilation) < 1:
        raise ValueError(f"stride {stride}, dilation {dilation}")
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, weight[2:], strict=True)]
    places = [
        max(0, (size + 2 * pad - span) // step + 1)
        for size, pad, span, step in zip(sizes, padding, reach, stride, strict=True)
    ]
    return 2 * batch * prod(weight) * prod(places)


def _transposed(inputs: Inputs) -> int:
    """Count a product per element of the weight and position of the input."""
    if inputs.is_complex(0):
        return 0
    weight = inputs.shape(1)
    batch, sizes = _spatial(inputs.shape(0), weight)
    return 2 * batch * prod(weight) * prod(sizes)


def _any_convolution(inputs: Inputs) -> int:
    if inputs.flag(6):
        return _transposed(inputs)
    return _convolution(_Layout(stride=3, padding=4, dilation=5), inputs)


def _convolution_backward(inputs: Inputs) -> int:
    """Count the forward's products once per gradient: the image's and the weight's."""
    gradient, image, weight = (inputs.shape(index) for index in range(3))
    batch, sizes = _spatial(image if inputs.flag(7) else gradient, weight)
    wants_image, wants_weight, _ = inputs.flags(10, 3)
    return 2 * batch * prod(weight) * prod(sizes) * (wants_image + wants_weight)


# --- attention ---


def _attention(first: int, products: tuple[int, int], inputs: Inputs) -> int:
    """Count an operator whose tensors are batch, heads, length, depth."""
    return _attention_products([inputs.shape(first + i) for i in range(3)], products)


def _attention_kernel(first: int, lengths: int, products: tuple[int, int], inputs: Inputs) -> int:
    """Count a kernel of an operator, whose tensors are batch, length, heads, depth."""
    if inputs.is_given(lengths):
        return 0  # lengths differ within a batch, and only the tensors' values tell them
    shapes: list[Shape] = []
    for index in range(first, first + 3):
        batch, length, heads, depth = inputs.shape(index)
        shapes.append((batch, heads, length, depth))
    return _attention_products(shapes, products)


def _attention_products(shapes: list[Shape], products: tuple[int, int]) -> int:
    """Count so many products of the size of query with key, and of weights with value."""
    (batch, heads, length, depth), (b2, h2, keys, d2), (b3, h3, k3, value_depth) = shapes
    groups = _same(h2, h3)
    if groups < 1 or heads % groups:
        raise ValueError(f"{heads} heads of queries, {groups} of keys")
    with_keys, with_values = products
    depths = with_keys * _same(depth, d2) + with_values * value_depth
    return 2 * _same(batch, b2, b3) * heads * length * _same(keys, k3) * depths


_FORWARD = (1, 1)
_BACKWARD = (3, 2)  # the scores again; gradients of query and key; of weights and value


# --- recurrent layers ---

_CELLS = {  # by torch's number of the cell: number of gates, operations per element
    0: (1, 2),  # relu: add, relu
    1: (1, 2),  # tanh: add, tanh
    2: (4, 13),  # lstm: 4 additions, 3 sigmoids, 2 tanhs, 3 products, 1 addition
    3: (3, 10),  # gru: 4 additions, 1 difference, 2 sigmoids, 1 tanh, 2 products
}


def _recurrent_layer(mode: int, passes: int, inputs: Inputs) -> int:
    """Count one direction of one layer; inputs are input, two weights, two biases and the state."""
    *steps, _ = inputs.shape(0)
    (rows, _), (rows2, hidden) = inputs.shape(1), inputs.shape(2)
    gates, cell = _CELLS[_cell(inputs, mode)]
    if _same(rows, rows2) != gates * hidden:
        raise ValueError(f"{rows} rows for {gates} gates of {hidden}")
    products = 2 * (prod(inputs.shape(1)) + prod(inputs.shape(2)))
    return passes * prod(steps) * (products + cell * hidden)


def _cudnn_rnn(mode: int, passes: int, inputs: Inputs) -> int:
    """Count all layers and directions; every matrix of the weights is used at every step."""
    *steps, _ = inputs.shape(0)
    matrices = [shape for shape in inputs.shapes(1) if len(shape) == 2]
    _, cell = _CELLS[_cell(inputs, mode)]
    hidden, layers = inputs.integer(mode + 1), inputs.integer(mode + 3)
    if hidden < 0 or layers < 0:
        raise ValueError(f"hidden size {hidden}, {layers} layers")
    cells = layers * (1 + inputs.flag(mode + 7))
    products = 2 * sum(prod(shape) for shape in matrices)
    return passes * prod(steps) * (products + cells * cell * hidden)


def _cell(inputs: Inputs, mode: int) -> int:
    cell = inputs.integer(mode)
    if cell not in _CELLS:
        raise ValueError(f"cell {cell}")
    return cell


def _fused_cell(index: int, gates: int, arithmetic: int, inputs: Inputs) -> int:
    """Count a cell whose products were counted before; an input has so many rows per gate."""
    batch, rows = inputs.shape(index)
    hidden, rest = divmod(rows, gates)
    if rest:
        raise ValueError(f"{rows} rows for {gates} gates")
    return batch * hidden * arithmetic


_BY_IMAGE = _Layout(stride=3, padding=4, dilation=5)
_MKLDNN = _Layout(stride=4, padding=3, dilation=5)
_CUDNN = _Layout(stride=3, padding=2, dilation=4)
_ATTENTION = [
    f"aten::_scaled_dot_product_{kind}"
    for kind in (
        "flash_attention",
        "flash_attention_for_cpu",
        "efficient_attention",
        "cudnn_attention",
        "fused_attention_overrideable",
    )
]

FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("aten::mm", "aten::_int_mm", "aten::_scaled_mm"), partial(_mm, 0)),
    **dict.fromkeys(("aten::addmm", "aten::_addmm_activation"), partial(_mm, 1)),
    "aten::bmm": partial(_bmm, 0),
    **dict.fromkeys(("aten::baddbmm", "aten::addbmm"), partial(_bmm, 1)),
    **dict.fromkeys(("aten::_grouped_mm", "aten::_scaled_grouped_mm"), _grouped),
    "aten::mv": partial(_mv, 0),
    "aten::addmv": partial(_mv, 1),
    **dict.fromkeys(("aten::dot", "aten::vdot"), _dot),
    "aten::addr": _addr,
    "mkldnn::_linear_pointwise": _linear,
    **{f"aten::conv{rank}d": partial(_convolution, _BY_IMAGE) for rank in (1, 2, 3)},
    **{f"aten::conv_transpose{rank}d": _transposed for rank in (1, 2, 3)},
    **dict.fromkeys(
        ("aten::convolution", "aten::_convolution", "aten::convolution_overrideable"),
        _any_convolution,
    ),
    **dict.fromkeys(
        ("aten::mkldnn_convolution", "mkldnn::_convolution_pointwise"),
        partial(_convolution, _MKLDNN),
    ),
    "aten::cudnn_convolution": partial(_convolution, _CUDNN),
    "aten::cudnn_convolution_transpose": _transposed,
    "aten::convolution_backward": _convolution_backward,
    **{name: partial(_attention, 0, _FORWARD) for name in _ATTENTION},
    **{f"{name}_backward": partial(_attention, 1, _BACKWARD) for name in _ATTENTION},
    "aten::_flash_attention_forward": partial(_attention_kernel, 0, 3, _FORWARD),
    "aten::_flash_attention_backward": partial(_attention_kernel, 1, 6, _BACKWARD),
    "aten::_efficient_attention_forward": partial(_attention_kernel, 0, 4, _FORWARD),
    "aten::_efficient_attention_backward": partial(_attention_kernel, 1, 6, _BACKWARD),
    # The backward does the forward's products twice, for the inputs' and the weights' gradients,
    # and about twice the arithmetic of the gates.
    "aten::mkldnn_rnn_layer": partial(_recurrent_layer, 9, 1),
    "aten::mkldnn_rnn_layer_backward": partial(_recurrent_layer, 14, 2),
    "aten::_cudnn_rnn": partial(_cudnn_rnn, 6, 1),
    "aten::_cudnn_rnn_backward": partial(_cudnn_rnn, 10, 2),
    "aten::_thnn_fused_lstm_cell": partial(_fused_cell, 0, 4, 13),
    "aten::_thnn_fused_lstm_cell_backward_impl": partial(_fused_cell, 2, 1, 2 * 13),
    "aten::_thnn_fused_gru_cell": partial(_fused_cell, 0, 3, 10),
    "aten::_thnn_fused_gru_cell_backward": partial(_fused_cell, 0, 1, 2 * 10),
}
