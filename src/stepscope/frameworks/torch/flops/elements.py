"""FLOP formulas of operators with few operations per element: all but sums of products.

One operation is an addition, a multiplication, a division, a comparison that picks a number, or
one call of a library function (exp, log, tanh, erf, sqrt, sigmoid, pow ...). Moving numbers, making
them up (random ones) and asking about them (``x > 0``, ``argmax``) is none.
"""

from __future__ import annotations

from functools import partial
from math import gcd, prod

from stepscope.analysis.flops.inputs import Formula, Inputs, Shape

# --- elementwise, softmax, losses ---

_ELEMENTWISE: tuple[tuple[int, int, str], ...] = (
    # number of broadcast inputs, operations per element, operators
    (
        1,
        1,
        "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp"
        " exp2 expm1 floor frac lgamma log log10 log1p log2 neg rad2deg reciprocal relu round"
        " rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan tanh threshold trunc"
        " threshold_backward hardtanh_backward hardsigmoid_backward",
    ),
    (1, 2, "clamp hardtanh relu6 hardshrink softshrink leaky_relu rrelu_with_noise softplus silu"),
    (1, 2, "native_dropout native_dropout_backward leaky_relu_backward"),
    (1, 3, "logit elu log_sigmoid log_sigmoid_forward hardsigmoid"),
    (1, 3, "tanh_backward sigmoid_backward elu_backward softplus_backward"),
    (1, 4, "selu celu mish hardswish hardswish_backward log_sigmoid_backward"),
    (1, 4, "_softmax_backward_data _log_softmax_backward_data"),  # product, sum, difference, ...
    (1, 5, "_softmax _log_softmax _masked_softmax"),  # max, difference, exp, sum, quotient
    (1, 5, "gelu silu_backward"),
    (1, 9, "mish_backward"),
    (1, 12, "gelu_backward"),
    (
        2,
        1,
        "mul div divide multiply true_divide floor_divide remainder fmod pow maximum minimum fmax"
        " fmin max min atan2 hypot copysign clamp_min clamp_max",
    ),
    (2, 2, "xlogy _prelu_kernel"),
    (2, 3, "mse_loss _prelu_kernel_backward"),
    (2, 4, "logaddexp logaddexp2 smooth_l1_loss huber_loss"),
    (2, 7, "binary_cross_entropy"),
    (3, 3, "addcmul addcdiv lerp mse_loss_backward"),
    (3, 4, "smooth_l1_loss_backward huber_loss_backward"),
    (3, 5, "binary_cross_entropy_backward"),
)


def _elementwise(operands: int, cost: int, inputs: Inputs) -> int:
    if inputs.are_integers(operands):
        return 0
    return cost * prod(broadcast([inputs.shape(i) for i in range(_count(inputs, operands))]))


def _sum(inputs: Inputs) -> int:
    """Count ``a + alpha * b``."""
    return _elementwise(2, 1 + _has_factor(inputs, 2), inputs)


def _on_lists(operands: int, cost: int, inputs: Inputs) -> int:
    """Count an operator on lists of tensors; a scalar applies to every tensor."""
    lists = [inputs.shapes(0)]
    for index in range(1, _count(inputs, operands)):
        others = inputs.dims[index]
        if isinstance(others, list) and len(others) == len(lists[0]) and _are_shapes(others):
            lists.append(inputs.shapes(index))
    return cost * sum(prod(broadcast(shapes)) for shapes in zip(*lists, strict=True))


def _sum_on_lists(inputs: Inputs) -> int:
    return _on_lists(2, 1 + _has_factor(inputs, 2), inputs)


def _has_factor(inputs: Inputs, index: int) -> bool:
    """Tell whether a factor is given and not one."""
    if index >= len(inputs.concrete):
        return False
    text = str(inputs.concrete[index])
    return text not in {"", "1", "1."}


def _count(inputs: Inputs, operands: int) -> int:
    return min(operands, max(1, len(inputs.dims)))


def _are_shapes(values: list[object]) -> bool:
    return all(isinstance(value, list) for value in values)


def broadcast(shapes: list[Shape] | tuple[Shape, ...]) -> list[int]:
    """Return the broadcast shape; raise ValueError if the shapes do not fit."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        stretched = {size for size in sizes if size != 1}
        if len(stretched) > 1:
            raise ValueError(f"shapes do not fit: {shapes}")
        result.append(stretched.pop() if stretched else 1)
    return result


# --- reductions ---

_REDUCTIONS: tuple[tuple[int, str], ...] = (
    (1, "sum nansum mean nanmean prod cumsum cumprod amax amin cummax cummin"),
    (2, "norm linalg_vector_norm aminmax"),
    (4, "var std var_mean std_mean logsumexp logcumsumexp batch_norm_stats"),
)


def _input_size(index: int, cost: int, inputs: Inputs) -> int:
    return 0 if inputs.are_integers(1) else cost * prod(inputs.shape(index))


def _embedding_bag(inputs: Inputs) -> int:
    (_, width), indices = inputs.shape(0), inputs.shape(1)
    return prod(indices) * width


# --- normalisation ---


def _norm(weight: int, bias: int, inputs: Inputs) -> int:
    """Count mean (1), variance (3), difference and quotient (2), and the affine step."""
    affine = inputs.is_given(weight) + inputs.is_given(bias)
    return (6 + affine) * prod(inputs.shape(0))


def _batch_norm(inputs: Inputs) -> int:
    cost = 6 if inputs.flag(5) else 2  # known statistics are not computed
    return (cost + inputs.is_given(1) + inputs.is_given(2)) * prod(inputs.shape(0))


def _rms_norm(inputs: Inputs) -> int:
    return (3 + inputs.is_given(2)) * prod(inputs.shape(0))


def _norm_backward(weight: int, mask: int, inputs: Inputs) -> int:
    return _norm_gradients(inputs, weight, inputs.flags(mask, 3))


def _batch_norm_backward(inputs: Inputs) -> int:
    mask = inputs.flags(9, 3)
    if inputs.flag(7):
        return _norm_gradients(inputs, 2, mask)
    cost = mask[0] + 4 * mask[1] + mask[2]  # known statistics: the input's gradient is scaled
    return cost * prod(inputs.shape(0))


def _rms_norm_backward(inputs: Inputs) -> int:
    wants_input, wants_weight = inputs.flags(5, 2)
    cost = 1 + wants_input * (5 + inputs.is_given(4)) + 2 * wants_weight
    return cost * prod(inputs.shape(0))


def _norm_gradients(inputs: Inputs, weight: int, mask: list[bool]) -> int:
    """Count the normalised input (2), then each gradient that is asked for."""
    wants_input, wants_weight, wants_bias = mask
    cost = 2 * (wants_input or wants_weight)
    cost += wants_input * (7 + inputs.is_given(weight))  # two sums (3), three terms (4)
    cost += wants_weight * 2 + wants_bias
    return cost * prod(inputs.shape(0))


def _whole_batch_norm_backward(inputs: Inputs) -> int:
    return _norm_gradients(inputs, 2, [True, True, True])


# --- pooling ---


def _pool(rank: int, dilation: int | None, ceil_mode: int, inputs: Inputs) -> int:
    """Count one operation per element that an output depends on."""
    outer, sizes = _split(inputs.shape(0), rank)
    kernel = inputs.integers(1, rank)
    stride = inputs.integers(2, rank) if inputs.has_words(2) else kernel
    padding = inputs.integers(3, rank)
    spread = [1] * rank if dilation is None else inputs.integers(dilation, rank)
    if min(*kernel, *stride, *spread) < 1:
        raise ValueError(f"kernel {kernel}, stride {stride}, dilation {spread}")
    rounded_up = inputs.flag(ceil_mode)
    places = 1
    for size, k, step, pad, d in zip(sizes, kernel, stride, padding, spread, strict=True):
        room = size + 2 * pad - d * (k - 1) - 1
        count = (room + (step - 1) * rounded_up) // step + 1
        if rounded_up and (count - 1) * step >= size + pad:
            count -= 1  # the last window would start outside of the input
        places *= max(0, count)
    return prod(outer) * places * prod(kernel)


def _avg_pool_backward(rank: int, inputs: Inputs) -> int:
    kernel = inputs.integers(2, rank)
    if min(kernel) < 1:
        raise ValueError(f"kernel {kernel}")
    return prod(inputs.shape(0)) * prod(kernel)


def _adaptive_pool(rank: int, inputs: Inputs) -> int:
    outer, sizes = _split(inputs.shape(0), rank)
    return prod(outer) * adaptive_windows(sizes, tuple(inputs.integers(1, rank)))


def _adaptive_avg_pool_backward(rank: int, inputs: Inputs) -> int:
    outer, sizes = _split(inputs.shape(1), rank)
    return prod(outer) * adaptive_windows(sizes, inputs.shape(0)[-rank:])


def adaptive_windows(sizes: Shape, places: Shape) -> int:
    """Return the number of elements in all windows; neighbours overlap if sizes do not divide."""
    if min(places) < 1:
        raise ValueError(f"output {places}")
    return prod(n + m - gcd(n, m) for n, m in zip(sizes, places, strict=True))


def _split(shape: Shape, rank: int) -> tuple[Shape, Shape]:
    if len(shape) not in {rank + 1, rank + 2}:
        raise ValueError(f"shape {shape} for a pooling of rank {rank}")
    return shape[:-rank], shape[-rank:]


def _pooling() -> dict[str, Formula]:
    formulas: dict[str, Formula] = {}
    for rank in (1, 2, 3):
        largest = partial(_pool, rank, 4, 5)
        formulas |= {
            f"max_pool{rank}d": largest,
            f"max_pool{rank}d_with_indices": largest,
            f"max_pool{rank}d_with_indices_backward": partial(_input_size, 0, 1),
            f"avg_pool{rank}d": partial(_pool, rank, None, 4),
            f"avg_pool{rank}d_backward": partial(_avg_pool_backward, rank),
            f"adaptive_avg_pool{rank}d": partial(_adaptive_pool, rank),
            f"_adaptive_avg_pool{rank}d": partial(_adaptive_pool, rank),
            f"_adaptive_avg_pool{rank}d_backward": partial(_adaptive_avg_pool_backward, rank),
            f"adaptive_max_pool{rank}d": partial(_adaptive_pool, rank),
            f"adaptive_max_pool{rank}d_backward": partial(_input_size, 0, 1),
        }
    return formulas


# --- optimizers, as many operations as their one-by-one versions take ---


def _adam(decay_cost: int, inputs: Inputs) -> int:
    decay = decay_cost * (inputs.number(9) != 0)
    return (13 + decay + inputs.flag(11)) * _elements(inputs)


def _sgd(inputs: Inputs) -> int:
    has_momentum = inputs.number(4) != 0
    cost = 2 + 2 * (inputs.number(3) != 0) + has_momentum * (2 + 2 * inputs.flag(7))
    return cost * _elements(inputs)


def _adagrad(inputs: Inputs) -> int:
    return (8 + 2 * (inputs.number(6) != 0)) * _elements(inputs)


def _elements(inputs: Inputs) -> int:
    return sum(prod(shape) for shape in inputs.shapes(0))


_SUMS = ("add", "sub", "rsub", "subtract")

_OTHERS: dict[str, Formula] = {
    **dict.fromkeys(_SUMS, _sum),
    "glu": partial(_input_size, 0, 1),  # sigmoid and product, for half of the input
    "index_add": partial(_input_size, 3, 1),
    "scatter_add": partial(_input_size, 2, 1),
    "embedding_dense_backward": partial(_input_size, 0, 1),
    "_embedding_bag": _embedding_bag,
    "nll_loss_forward": partial(_input_size, 1, 2),
    "nll_loss2d_forward": partial(_input_size, 1, 2),
    "nll_loss_backward": partial(_input_size, 2, 1),
    "nll_loss2d_backward": partial(_input_size, 2, 1),
    "native_layer_norm": partial(_norm, 2, 3),
    "native_layer_norm_backward": partial(_norm_backward, 5, 7),
    "native_group_norm": partial(_norm, 1, 2),
    "native_group_norm_backward": partial(_norm_backward, 4, 9),
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"), _batch_norm),
    "native_batch_norm_backward": _batch_norm_backward,
    "cudnn_batch_norm_backward": _whole_batch_norm_backward,
    "miopen_batch_norm_backward": _whole_batch_norm_backward,
    "_fused_rms_norm": _rms_norm,
    "_fused_rms_norm_backward": _rms_norm_backward,
    "_fused_adam": partial(_adam, 2),
    "_fused_adamw": partial(_adam, 1),
    "_fused_sgd": _sgd,
    "_fused_adagrad": _adagrad,
}

_BY_NAME: dict[str, Formula] = {
    **{
        name: partial(_elementwise, operands, cost)
        for operands, cost, names in _ELEMENTWISE
        for name in names.split()
    },
    **{
        name: partial(_input_size, 0, cost) for cost, names in _REDUCTIONS for name in names.split()
    },
    **_pooling(),
    **_OTHERS,
}

_ON_LISTS: dict[str, Formula] = {
    **{
        f"_foreach_{name}": partial(_on_lists, operands, cost)
        for operands, cost, names in _ELEMENTWISE
        for name in names.split()
    },
    **{f"_foreach_{name}": _sum_on_lists for name in _SUMS},
    "_foreach_norm": partial(_on_lists, 1, 2),
}

FORMULAS: dict[str, Formula] = {f"aten::{name}": f for name, f in (_BY_NAME | _ON_LISTS).items()}
