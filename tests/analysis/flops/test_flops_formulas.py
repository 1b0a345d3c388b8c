"""What each operator counts, whose flops they are, and what odd input does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import stepscope
from counted_flops import by_name, counted, fragment, one_call
from made_trace import Call, trace_of_calls
from sample_traces import HOSTILE, json_events, recording, sample_path
from stepscope.analysis.flops import count as flops
from stepscope.analysis.flops.count import flops_of, flops_per_second
from stepscope.frameworks.torch.flops import FORMULAS as FOR_TORCH

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Step = Callable[..., Any]

FORMULAS = sorted(FOR_TORCH)

N = 2 * 8 * 6 * 4
X = torch.randn(2, 8, 6, 4)


def grad() -> torch.Tensor:
    return X.clone().requires_grad_()


# --- a few operations an element ---

FORWARD: dict[str, tuple[Step, dict[str, int]]] = {
    "softmax": (lambda x: F.softmax(x, -1), {"aten::_softmax": 5 * N}),
    "log_softmax": (lambda x: F.log_softmax(x, 1), {"aten::_log_softmax": 5 * N}),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), {"aten::native_layer_norm": 6 * N}),
    "affine layer_norm": (nn.LayerNorm(4), {"aten::native_layer_norm": 8 * N}),
    "group_norm": (nn.GroupNorm(4, 8), {"aten::native_group_norm": 8 * N}),
    "batch_norm": (nn.BatchNorm2d(8), {"aten::native_batch_norm": 8 * N}),
    "batch_norm, known": (nn.BatchNorm2d(8).eval(), {"aten::native_batch_norm": 4 * N}),
    "instance_norm": (F.instance_norm, {"aten::native_batch_norm": 6 * N}),
    "rms_norm": (nn.RMSNorm(4), {"aten::_fused_rms_norm": 4 * N}),
    "relu": (F.relu, {"aten::relu": N}),
    "in place": (lambda x: x.clone().relu_(), {"aten::relu_": N}),
    "gelu": (F.gelu, {"aten::gelu": 5 * N}),
    "silu": (F.silu, {"aten::silu": 2 * N}),
    "glu": (F.glu, {"aten::glu": N}),
    "sum": (torch.sum, {"aten::sum": N}),
    "mean": (lambda x: x.mean(1), {"aten::mean": N}),
    "var": (torch.var, {"aten::var": 4 * N}),
    "max": (lambda x: x.max(1), {"aten::max": N}),
    "pow": (lambda x: x**3, {"aten::pow": N}),
    "clamp": (lambda x: x.clamp(0, 1), {"aten::clamp": 2 * N}),
    "addcmul": (lambda x: torch.addcmul(x, x, x), {"aten::addcmul": 3 * N}),
    "broadcast": (lambda x: x[:1] / x[:, :1], {"aten::div": N}),
    "mse": (lambda x: F.mse_loss(x, x), {"aten::mse_loss": 3 * N}),
    # Random numbers are none; the mask is scaled, then applied.
    "dropout": (F.dropout, {"aten::div_": N, "aten::mul": N}),
    "embedding": (lambda x: F.embedding(torch.tensor([1, 2]), x[0, 0]), {}),
    "views and copies": (lambda x: x.transpose(0, 1).contiguous().view(-1)[3:].clone(), {}),
    "questions": (lambda x: ((x > 0).any(), x.argmax(), x.isnan(), torch.where(x > 0, x, x)), {}),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name: str, tmp_path: Path) -> None:
    function, expected = FORWARD[name]
    assert counted(lambda: function(X), tmp_path).ours == expected


BACKWARD: dict[str, tuple[Step, str, int]] = {
    "relu": (F.relu, "aten::threshold_backward", N),
    "tanh": (torch.tanh, "aten::tanh_backward", 3 * N),
    "gelu": (F.gelu, "aten::gelu_backward", 12 * N),
    "softmax": (lambda x: F.softmax(x, -1), "aten::_softmax_backward_data", 4 * N),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), "aten::native_layer_norm_backward", 9 * N),
    "affine": (nn.LayerNorm(4), "aten::native_layer_norm_backward", 13 * N),
    "group_norm": (nn.GroupNorm(4, 8), "aten::native_group_norm_backward", 13 * N),
    "batch_norm": (nn.BatchNorm2d(8), "aten::native_batch_norm_backward", 13 * N),
    "batch_norm, known": (nn.BatchNorm2d(8).eval(), "aten::native_batch_norm_backward", 6 * N),
    "max_pool": (lambda x: F.max_pool2d(x, 2), "aten::max_pool2d_with_indices_backward", N // 4),
    "avg_pool": (lambda x: F.avg_pool2d(x, 2), "aten::avg_pool2d_backward", N),
    "mse": (lambda x: F.mse_loss(x, X), "aten::mse_loss_backward", 3 * N),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name: str, tmp_path: Path) -> None:
    function, operator, expected = BACKWARD[name]
    ours = counted(lambda: function(grad()).sum().backward(), tmp_path).ours
    assert ours[operator] == expected


def test_softmax_counts_as_the_steps_that_it_is_made_of(tmp_path: Path) -> None:
    def by_hand() -> None:
        powers = (X - X.amax(-1, keepdim=True)).exp()
        powers / powers.sum(-1, keepdim=True)

    fused = counted(lambda: F.softmax(X, -1), tmp_path)
    assert fused.total == counted(by_hand, tmp_path).total


# --- pooling ---

IMAGE = torch.randn(2, 3, 11, 13)
POOLS: dict[str, tuple[Step, int]] = {
    "max": (lambda: F.max_pool2d(IMAGE, 3, 2, 1), 9),
    "last window partly outside": (lambda: F.max_pool2d(IMAGE, 2, 2, ceil_mode=True), 4),
    "dilated": (lambda: F.max_pool2d(IMAGE, (2, 3), dilation=2), 6),
    "average": (lambda: F.avg_pool2d(IMAGE, 3, ceil_mode=True), 9),
    "average, overlapping": (lambda: F.avg_pool2d(IMAGE, (1, 4), (1, 1)), 4),
    "1d": (lambda: F.max_pool1d(IMAGE[0], 3, 1), 3),
    "1d average": (lambda: F.avg_pool1d(IMAGE[0], 3), 3),
    "3d": (lambda: F.max_pool3d(IMAGE, 2), 8),
    "3d average": (lambda: F.avg_pool3d(IMAGE, (1, 2, 3)), 6),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_pooling_looks_at_its_window_for_every_output(name: str, tmp_path: Path) -> None:
    step, window = POOLS[name]
    assert counted(step, tmp_path).total == step().numel() * window


@pytest.mark.parametrize("size", [(1, 13), (4, 5), (11, 7), (15, 20)])
def test_an_adaptive_pooling_has_windows_that_overlap(
    size: tuple[int, int], tmp_path: Path
) -> None:
    def windows(n: int, m: int) -> int:
        return sum(-(-(i + 1) * n // m) - i * n // m for i in range(m))

    step = counted(lambda: F.adaptive_avg_pool2d(IMAGE, size), tmp_path)
    assert step.total == 2 * 3 * windows(11, size[0]) * windows(13, size[1])


# --- optimizers ---


def optimizer(kind: type[torch.optim.Optimizer], **options: Any) -> Step:
    parameters = [nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(5))]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    made = kind(parameters, **options)
    made.step()  # the first one makes its state
    return made.step


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.Adam, {}),
        (torch.optim.Adam, {"weight_decay": 0.1, "amsgrad": True}),
        (torch.optim.AdamW, {}),
        (torch.optim.SGD, {"lr": 0.1}),
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ],
)
def test_an_optimizer_in_one_call_counts_as_one_of_operators(
    kind: type[torch.optim.Optimizer], options: dict[str, Any], tmp_path: Path
) -> None:
    def elements(**way: bool) -> int:
        """Count whatever is done to all 17 parameters: not the step's number, a scalar each."""
        counts = flops_of(counted(optimizer(kind, **options, **way), tmp_path).trace)
        return int(counts[counts % 17 == 0].sum())

    fused = elements(fused=True)
    assert fused > 0
    assert fused == elements(foreach=True)


# --- whose they are ---

CONVOLUTION = fragment(
    [[2, 3, 8, 8], [4, 3, 3, 3], [4], [], [], [], []],
    ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"],
)
PRODUCT = fragment([[5, 7], [7, 3]])


def test_the_outermost_formula_wins() -> None:
    calls = [
        Call("aten::conv2d", 0, 100, rest=CONVOLUTION),
        Call("a frame of Python", 10, 90, "python_function"),
        Call("aten::mm", 20, 80, rest=PRODUCT),
        Call("aten::mm", 110, 120, rest=PRODUCT),
    ]
    assert flops_of(trace_of_calls(calls)).tolist() == [2 * 2 * 36 * 4 * 27, 0, 0, 210]


def test_what_runs_at_the_same_time_on_another_thread_is_not_inside() -> None:
    calls = [
        Call("aten::conv2d", 0, 100, rest=CONVOLUTION),
        Call("aten::mm", 20, 80, track=1, rest=PRODUCT),
    ]
    assert flops_of(trace_of_calls(calls))[1] == 210


def test_an_inner_one_counts_where_the_outer_one_cannot_know() -> None:
    unknown = fragment([[2, 3, 8, 8], [4, 3, 3, 3], [4], [], [], [], []])
    calls = [
        Call("aten::conv2d", 0, 100, rest=unknown),
        Call("aten::mm", 20, 80, rest=PRODUCT),
    ]
    assert flops_of(trace_of_calls(calls)).tolist() == [0, 210]


def test_a_range_with_the_name_of_an_operator_is_none() -> None:
    calls = [Call("aten::mm", 0, 10, "user_annotation", rest=PRODUCT)]
    assert flops_of(trace_of_calls(calls)).tolist() == [0]


def test_deep_nesting() -> None:
    calls = [Call("aten::mm", depth, 2_000 - depth, rest=PRODUCT) for depth in range(900)]
    assert flops_of(trace_of_calls(calls)).tolist() == [210] + [0] * 899


def test_the_same_call_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    plain = flops.operations
    monkeypatch.setattr(
        flops, "operations", lambda formula, text: computed.append(text) or plain(formula, text)
    )
    calls = [Call("aten::mm", 10 * i, 10 * i + 5, rest=PRODUCT) for i in range(500)]
    assert flops_of(trace_of_calls(calls)).sum() == 500 * 210
    assert computed == [PRODUCT]


# --- odd input ---


def test_a_trace_without_arguments_or_slices() -> None:
    assert flops_of(recording(["aten::mm"])).tolist() == [0]
    nothing = flops_of(trace_of_calls([]))
    assert nothing.dtype == np.int64
    assert not len(nothing)


NO_SHAPES: list[Any] = [None, "a", {}, [-1, -1], [True, False], [1.5, 2.5], [10**30, 2], [1] * 100]
NO_VALUES: list[Any] = [None, "", "[]", "x", "[1, x]", "[1, 1, 1, 1, 1]", 3]
GARBAGE = [
    *HOSTILE,
    "{",
    "[" * 100_000,
    '"Input Dims": ' + "[" * 100_000,
    '"Input Dims": 5, "Concrete Inputs": {}',
    '"Input Dims": null, "Input type": 3, "Concrete Inputs": "x"',
    '"Input Dims": ' + "9" * 5_000,
    *(fragment([shape] * 20, ["1"] * 20) for shape in NO_SHAPES),
    *(fragment([[]] * 20, [value] * 20) for value in NO_VALUES),
    fragment([], []),
    fragment([[[[]]]] * 20, [[]] * 20),
]


@pytest.mark.parametrize("rest", GARBAGE)
def test_garbage_counts_nothing_much(rest: str) -> None:
    """A scalar counts one; everything else of these is no input at all."""
    calls = [Call(name, 10 * i, 10 * i + 5, rest=rest) for i, name in enumerate(FORMULAS)]
    counts = flops_of(trace_of_calls(calls))
    assert counts.min() >= 0
    assert counts.max() <= 20


_NUMBER = st.integers(-3, 70) | st.integers(-(2**70), 2**70) | st.sampled_from([None, "", 2.5])
_DIMS = st.lists(st.recursive(_NUMBER, lambda inner: st.lists(inner, max_size=6)), max_size=16)
_WORD = st.sampled_from(["", "[]", "[1]", "[2, 2]", "[0, 0]", "True", "[True, False, True]", "-1"])
_CONCRETE = st.lists(_WORD | st.text(max_size=5) | _NUMBER, max_size=16)


@pytest.mark.slow
@given(name=st.sampled_from(FORMULAS), dims=_DIMS, concrete=_CONCRETE, types=_CONCRETE)
def test_no_input_raises(name: str, dims: Any, concrete: Any, types: Any) -> None:
    assert one_call(name, fragment(dims, concrete, types)) >= 0


def test_more_than_64_bits_are_not_known() -> None:
    assert one_call("aten::mm", fragment([[2**40, 2**10], [2**10, 2**11]])) == 2**62
    assert one_call("aten::mm", fragment([[2**40, 2**10], [2**10, 2**12]])) == 0


@pytest.mark.parametrize(
    "dims",
    [[[5, 7], [8, 3]], [[5, 7, 1], [7, 3]], [[5], [5]], [[5, 7]], [[-5, 7], [7, 3]]],
)
def test_matrices_that_do_not_fit(dims: Any) -> None:
    assert one_call("aten::mm", fragment(dims)) == 0


@pytest.mark.parametrize("stride", ["[0, 0]", "[-1, 1]", "[1, 1, 1]", "", "same", "[]"])
def test_a_stride_that_makes_no_sense(stride: str) -> None:
    rest = CONVOLUTION.replace('"[1, 1]"', f'"{stride}"', 1)
    assert rest != CONVOLUTION
    assert one_call("aten::conv2d", rest) == 0


# --- real traces, and the rate ---


@pytest.mark.parametrize("name", ["made_language_model", "h200_language_model"])
def test_a_large_language_model_on_a_gpu(name: str) -> None:
    path = sample_path(name)
    trace = stepscope.read_trace(path)
    expected = {"aten::mm": 0, "aten::addmm": 0}
    for event in json_events(path):
        if event["name"] in expected:
            first = event["name"] == "aten::addmm"
            (m, k), (_, n) = event["args"]["Input Dims"][first : first + 2]
            expected[event["name"]] += 2 * m * k * n
    ours = by_name(trace)
    assert {operator: ours.get(operator, 0) for operator in expected} == expected
    assert expected["aten::mm"] > 0
    assert ours["aten::_scaled_dot_product_flash_attention"] > 0
    assert not ours.get("aten::_flash_attention_forward")


def test_the_rate_is_that_of_the_time_it_took() -> None:
    counts, took = np.array([6_000, 5, 0]), np.array([3_000, 0, 10])
    assert flops_per_second(counts, took).tolist() == [2e9, 0.0, 0.0]
