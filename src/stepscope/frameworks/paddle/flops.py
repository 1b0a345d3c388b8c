"""FLOP formulas of Paddle's eager operators, with the arguments of ``paddle._C_ops``.

Operations are counted as for torch's operators, whose formulas are used where the inputs are alike.
A linear layer is one ``matmul dygraph`` whose third input is the bias.
"""

from __future__ import annotations

from functools import partial
from math import prod

from stepscope.analysis.flops.inputs import Formula, Inputs, Shape
from stepscope.frameworks.torch.flops import FORMULAS as _TORCH
from stepscope.frameworks.torch.flops.elements import adaptive_windows, broadcast

_ALSO_CALLED = {"input": "x", "other": "y"}  # parameter names that Paddle took over from torch


def _bound(parameters: str, inputs: Inputs) -> Inputs:
    """Arrange inputs in the order of the parameters, whether passed by position or by name."""
    order = parameters.split()
    bound = Inputs([[] for _ in order], ["" for _ in order], ["" for _ in order])
    for position, dims in enumerate(inputs.dims):
        name = str(inputs.names[position]) if position < len(inputs.names) else ""
        name = name if name in order else _ALSO_CALLED.get(name, name)
        at = order.index(name) if name in order else -1 if name else position
        if 0 <= at < len(order):
            bound.dims[at] = dims
            bound.types[at] = inputs.types[position]
            bound.concrete[at] = inputs.concrete[position]
    return bound


def _like_torch(parameters: str, name: str, inputs: Inputs) -> int:
    return _TORCH[f"aten::{name}"](_bound(parameters, inputs))


def _is_set(inputs: Inputs, index: int) -> bool:
    return str(inputs.concrete[index]) == "True"


# --- matrices ---


def _matmul(parameters: str, first_flag: int, inputs: Inputs) -> int:
    """Count a product; a vector is a matrix of one row or column, and batches are broadcast."""
    inputs = _bound(parameters, inputs)
    first, second = inputs.shape(0), inputs.shape(1)
    if not first or not second:
        raise ValueError(f"no matrices: {first}, {second}")
    first = (1, *first) if len(first) == 1 else _turned(first, _is_set(inputs, first_flag))
    second = (*second, 1) if len(second) == 1 else _turned(second, _is_set(inputs, first_flag + 1))
    (*batch, m, k), (*batch2, k2, n) = first, second
    if k != k2:
        raise ValueError(f"{first} times {second}")
    return 2 * prod(broadcast((tuple(batch), tuple(batch2)))) * m * n * k


def _turned(shape: Shape, is_transposed: bool) -> Shape:
    *batch, rows, columns = shape
    return (*batch, columns, rows) if is_transposed else shape


# --- convolutions ---


def _places(inputs: Inputs, window: Shape, options: dict[str, int]) -> tuple[Shape, Shape]:
    """Return batch and channels, and the number of window positions along each dimension."""
    rank = len(window)
    outer, sizes = _split(inputs, options["format"], rank)
    stride = inputs.integers(options["stride"], rank)
    spread = inputs.integers(options["dilation"], rank) if "dilation" in options else [1] * rank
    if min(*stride, *spread, *window) < 1:
        raise ValueError(f"stride {stride}, dilation {spread}, window {window}")
    padding = _padding(inputs, options, rank)
    if padding is None:
        return outer, tuple(-(-size // step) for size, step in zip(sizes, stride, strict=True))
    rounded_up = "ceil" in options and _is_set(inputs, options["ceil"])
    return outer, tuple(
        max(0, (size + pad - d * (k - 1) - 1 + (step - 1) * rounded_up) // step + 1)
        for size, pad, d, k, step in zip(sizes, padding, spread, window, stride, strict=True)
    )


def _padding(inputs: Inputs, options: dict[str, int], rank: int) -> list[int] | None:
    """Return the total padding of each dimension; None if it keeps the size ("SAME")."""
    algorithm = str(inputs.concrete[options["algorithm"]]) if "algorithm" in options else ""
    if algorithm == "SAME":
        return None
    if algorithm == "VALID":
        return [0] * rank
    try:
        return [2 * pad for pad in inputs.integers(options["padding"], rank)]
    except ValueError:
        ends = inputs.integers(options["padding"], 2 * rank)
        return [sum(ends[i : i + 2]) for i in range(0, 2 * rank, 2)]


def _split(inputs: Inputs, format_index: int, rank: int) -> tuple[Shape, Shape]:
    """Split an image's shape into batch and channels, and the dimensions after them."""
    shape = inputs.shape(0)
    if len(shape) != rank + 2:
        raise ValueError(f"shape {shape} for {rank} sizes")
    channels_last = format_index < len(inputs.concrete) and str(
        inputs.concrete[format_index]
    ).endswith("C")
    batch, channels = shape[0], shape[-1] if channels_last else shape[1]
    return (batch, channels), shape[1:-1] if channels_last else shape[2:]


def _convolution(parameters: str, inputs: Inputs) -> int:
    """Count a product per element of the weight and position of the output."""
    inputs = _bound(parameters, inputs)
    names = ("stride", "padding", "algorithm", "dilation", "format")
    options = {name: parameters.split().index(name) for name in names}
    weight = inputs.shape(1)
    (batch, _), places = _places(inputs, weight[2:], options)
    return 2 * batch * prod(weight) * prod(places)


def _transposed(inputs: Inputs) -> int:
    """Count a product per element of the weight and position of the input."""
    inputs = _bound(_CONV_TRANSPOSE, inputs)
    weight = inputs.shape(1)
    (batch, _), sizes = _split(inputs, _CONV_TRANSPOSE.split().index("format"), len(weight) - 2)
    return 2 * batch * prod(weight) * prod(sizes)


# --- pooling ---


def _pool(parameters: str, rank: int, inputs: Inputs) -> int:
    """Count one operation per element that an output depends on."""
    inputs = _bound(parameters, inputs)
    at = {name: i for i, name in enumerate(parameters.split())}
    window = tuple(inputs.integers(at["window"], rank))
    no_format = len(inputs.concrete)
    outer, sizes = _split(inputs, at.get("format", no_format), rank)
    if _is_set(inputs, at["global"]):
        return prod(outer) * prod(sizes)
    if _is_set(inputs, at["adaptive"]):
        return prod(outer) * adaptive_windows(sizes, window)
    names = ("stride", "padding", "ceil", "algorithm", "format")
    options = {"format": no_format} | {name: at[name] for name in names if name in at}
    return prod(outer) * prod(window) * prod(_places(inputs, window, options)[1])


# --- normalisation, losses, the rest ---


def _norm(parameters: str, inputs: Inputs) -> int:
    """Count mean (1), variance (3), difference and quotient (2), and the affine step."""
    inputs = _bound(parameters, inputs)
    order = parameters.split()
    affine = inputs.is_given(order.index("scale")) + inputs.is_given(order.index("bias"))
    knows = any(_is_set(inputs, order.index(n)) for n in ("test", "global") if n in order)
    return (2 if knows else 6) * prod(inputs.shape(0)) + affine * prod(inputs.shape(0))


def _rms_norm(inputs: Inputs) -> int:
    inputs = _bound("x bias residual scale norm_bias", inputs)
    extras = sum(inputs.is_given(i) for i in range(1, 5))
    return (3 + extras) * prod(inputs.shape(0))


def _cross_entropy(inputs: Inputs) -> int:
    """Count softmax (5 an element), then a product and a sum per label."""
    return 5 * prod(inputs.shape(0)) + 2 * prod(inputs.shape(1))


def _scale(inputs: Inputs) -> int:
    inputs = _bound("x scale bias", inputs)
    if inputs.are_integers(1):
        return 0
    has_bias = str(inputs.concrete[2]) not in {"", "0", "0.0"}
    return (1 + has_bias) * prod(inputs.shape(0))


def _attention(inputs: Inputs) -> int:
    """Count both products of attention; the tensors are batch, length, heads, depth."""
    turned = []
    for index in range(3):
        batch, length, heads, depth = inputs.shape(index)
        turned.append([batch, heads, length, depth])
    torch_inputs = Inputs(turned, inputs.types[:3], [""] * 3)
    return _TORCH["aten::_scaled_dot_product_flash_attention"](torch_inputs)


_CELLS = {
    "LSTM": 13,
    "GRU": 10,
    "RNN_TANH": 2,
    "RNN_RELU": 2,
}  # an element, beside the products


def _rnn(inputs: Inputs) -> int:
    """Count all layers and directions; every matrix of the weights is used at every step."""
    inputs = _bound(
        "x state weights lengths dropout rate bidirectional input hidden layers mode", inputs
    )
    *steps, _ = inputs.shape(0)
    matrices = [shape for shape in inputs.shapes(2) if len(shape) == 2]
    mode = str(inputs.concrete[10])
    if mode not in _CELLS:
        raise ValueError(f"cell {mode!r}")
    cells = inputs.integer(9) * (1 + _is_set(inputs, 6))
    products = 2 * sum(prod(shape) for shape in matrices)
    return prod(steps) * (products + cells * _CELLS[mode] * inputs.integer(8))


def _of_first(cost: int, inputs: Inputs) -> int:
    return cost * prod(inputs.shape(0))


_CONV2D = "x weight stride padding algorithm dilation groups format"
_CONV = "x weight stride padding algorithm groups dilation format"
_CONV_TRANSPOSE = "x weight stride padding output_padding size algorithm groups dilation format"
_POOL = "x window stride padding ceil exclusive format kind global adaptive algorithm"
_POOL_WITH_INDEX = "x window stride padding global adaptive ceil"

_SAME_NAME = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfinv exp expm1 floor lgamma"
    " log log10 log1p log2 reciprocal relu round rsqrt sigmoid sign sin sinh sqrt square tan tanh"
    " trunc hardtanh relu6 leaky_relu softplus silu logit elu celu selu mish hardswish hardsigmoid"
    " gelu sum mean prod cumsum cumprod amax amin cummax cummin logsumexp"
)
_SAME_NAME_OF_TWO = "add floor_divide remainder maximum minimum fmax fmin atan2 mv bmm dot"

# Paddle's operators that compute the same as one of torch's, whose formula then counts them: their
# first inputs are the same, too.
_SAME_AS_TORCH = {
    "x": {
        **{name: name for name in _SAME_NAME.split()},
        "swish": "silu",
        "softmax": "_softmax",
        "log_softmax": "_log_softmax",
        "logsigmoid": "log_sigmoid",
        "mean_all": "mean",
        "max": "amax",
        "min": "amin",
        "p_norm": "norm",
        "frobenius_norm": "norm",
        "clip": "clamp",
        "pow": "square",
        "dropout": "native_dropout",
    },
    "x y": {
        **{name: name for name in _SAME_NAME_OF_TWO.split()},
        "subtract": "sub",
        "multiply": "mul",
        "divide": "div",
        "elementwise_pow": "pow",
    },
    "input x y": {"addmm": "addmm", "baddbmm": "baddbmm"},
}

_BY_NAME: dict[str, Formula] = {
    **{
        name: partial(_like_torch, parameters, torch_name)
        for parameters, names in _SAME_AS_TORCH.items()
        for name, torch_name in names.items()
    },
    "matmul": partial(_matmul, "x y transpose_x transpose_y", 2),
    "fused_gemm_epilogue": partial(_matmul, "x y bias trans_x trans_y", 3),
    "conv2d": partial(_convolution, _CONV2D),
    **dict.fromkeys(("depthwise_conv2d", "conv3d"), partial(_convolution, _CONV)),
    **dict.fromkeys(
        ("conv2d_transpose", "conv3d_transpose", "depthwise_conv2d_transpose"), _transposed
    ),
    "pool2d": partial(_pool, _POOL, 2),
    "pool3d": partial(_pool, _POOL, 3),
    "max_pool2d_with_index": partial(_pool, _POOL_WITH_INDEX, 2),
    "max_pool3d_with_index": partial(_pool, _POOL_WITH_INDEX, 3),
    **dict.fromkeys(("layer_norm", "group_norm", "instance_norm"), partial(_norm, "x scale bias")),
    "batch_norm": partial(_norm, "x mean variance scale bias test momentum epsilon format global"),
    "rms_norm": _rms_norm,
    "cross_entropy_with_softmax": _cross_entropy,
    "scale": _scale,
    "flash_attn": _attention,
    "memory_efficient_attention": _attention,
    "rnn": _rnn,
    # Optimizers cost as much as torch's fused ones.
    "adam": partial(_of_first, 13),
    "adamw": partial(_of_first, 14),
    "sgd": partial(_of_first, 2),
    "momentum": partial(_of_first, 4),
}

FORMULAS: dict[str, Formula] = {
    f"{name}{in_place} dygraph": formula
    for name, formula in _BY_NAME.items()
    for in_place in ("", "_")
}
