"""Flops of real models, against the two counters that torch has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F
from torch import nn

from counted_flops import counted, flop_counter, training
from stepscope.analysis.flops.formulas import formula_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Step = Callable[[], Any]

aten = torch.ops.aten


def encoder() -> nn.TransformerEncoder:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)


def without_onednn(step: Step) -> Step:
    def plain() -> None:
        with torch.backends.mkldnn.flags(enabled=False):
            step()

    return plain


def double_precision() -> None:
    image = torch.randn(1, 4, 9, 9, dtype=torch.double, requires_grad=True)
    nn.Conv2d(4, 8, 3, dilation=2).double()(image).sum().backward()


def complex_convolution() -> None:
    kernel = torch.randn(8, 4, 3, 3, dtype=torch.cfloat)
    F.conv2d(torch.randn(1, 4, 9, 9, dtype=torch.cfloat), kernel)


def einsum() -> None:
    torch.einsum("bij,bjk->bik", torch.randn(2, 3, 4), torch.randn(2, 4, 5))


def batched_sum() -> None:
    torch.baddbmm(torch.randn(2, 3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5))


CNN = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, (3, 5), stride=(2, 1), dilation=2),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(16, 10),
    nn.LogSoftmax(-1),
)
MLP = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))

MODELS: dict[str, Step] = {
    "mlp": training(MLP, 5, 8),
    "linear of a sequence": training(nn.Linear(8, 16), 3, 5, 8),
    "linear without bias": training(nn.Linear(8, 16, bias=False), 3, 5, 8),
    "cnn": training(CNN, 2, 3, 24, 20),
    "1d": training(nn.Conv1d(4, 8, 3, stride=2, padding=1), 2, 4, 21),
    "3d": training(nn.Conv3d(4, 8, (1, 2, 3), dilation=2, padding=1), 2, 4, 9, 8, 7),
    "padding by name": training(nn.Conv2d(4, 8, 3, dilation=2, padding="same"), 2, 4, 9, 8),
    "no batch": training(nn.Conv2d(4, 8, 3), 4, 20, 16),
    "transposed 1d": training(nn.ConvTranspose1d(4, 8, 3, stride=2), 2, 4, 10),
    "transposed 2d": training(nn.ConvTranspose2d(4, 8, 3, 2, output_padding=1), 2, 4, 10, 9),
    "transposed 3d": training(nn.ConvTranspose3d(4, 8, 3, dilation=2), 2, 4, 5, 6, 7),
    "double precision, dilated": double_precision,
    "convolution without oneDNN": without_onednn(training(nn.Conv3d(4, 8, 3), 2, 4, 6, 6, 6)),
    "complex convolution": complex_convolution,
    "transformer": training(encoder(), 2, 10, 32),
    "rnn": training(nn.RNN(8, 16), 7, 3, 8),
    "gru": training(nn.GRU(8, 16, 2, bidirectional=True), 7, 3, 8),
    "lstm of operators": without_onednn(training(nn.LSTM(8, 16, 2), 7, 3, 8)),
    "lstm with projection": training(nn.LSTM(8, 16, proj_size=4), 7, 3, 8),
    "einsum": einsum,
    "baddbmm": batched_sum,
}


@pytest.mark.parametrize("name", MODELS)
def test_products_are_what_flop_counter_counts(name: str, tmp_path: Path) -> None:
    expected = flop_counter(MODELS[name])
    assert expected > 0
    assert counted(MODELS[name], tmp_path).products == expected


@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer", "gru", "baddbmm"])
def test_products_by_operator_are_what_torch_profiler_counts(name: str, tmp_path: Path) -> None:
    step = counted(MODELS[name], tmp_path)
    names = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::conv2d")
    theirs = {name: step.profiler[name] for name in names}
    assert any(theirs.values())
    assert {name: step.ours[name] for name in names} == theirs


def test_sums_and_products_of_elements_are_what_torch_profiler_counts(tmp_path: Path) -> None:
    a, b = torch.randn(5, 7), torch.randn(7)
    step = counted(lambda: (a + b) * b + a * a, tmp_path)
    assert step.ours == step.profiler == {"aten::add": 70, "aten::mul": 70}


def test_a_number_of_python_is_no_second_product(tmp_path: Path) -> None:
    """With a bare number, as autograd's formulas have it, ``mul`` calls ``mul`` with a tensor."""
    matrix = torch.randn(5, 7)
    step = counted(lambda: aten.mul.Scalar(matrix, 2.0), tmp_path)
    assert [*step.trace.names()].count("aten::mul") == 2
    assert step.ours == step.profiler == {"aten::mul": 35}


def test_the_layers_that_torch_compile_makes_count_as_the_plain_ones(tmp_path: Path) -> None:
    rows, layer = torch.randn(5, 8), nn.Linear(8, 16)
    image, convolution = torch.randn(2, 4, 9, 8), nn.Conv2d(4, 6, (3, 2), 2, 1, groups=2)
    sizes = [1, 1], [2, 2], [1, 1], 2

    def compiled() -> None:
        fused = torch.ops.mkldnn
        fused._linear_pointwise(rows, layer.weight, layer.bias, "none", [-1], "")
        weights = convolution.weight, convolution.bias
        fused._convolution_pointwise(image, *weights, *sizes, "none", [], "")

    if not torch.backends.mkldnn.is_available():
        pytest.skip("needs oneDNN")
    with torch.no_grad():
        ours = counted(compiled, tmp_path).ours
        plain = counted(lambda: (layer(rows), convolution(image)), tmp_path).ours
    assert ours["mkldnn::_linear_pointwise"] == plain["aten::addmm"] > 0
    assert ours["mkldnn::_convolution_pointwise"] == plain["aten::conv2d"] > 0


# --- where torch is wrong, or knows less ---


def test_a_group_of_channels_only_meets_itself(tmp_path: Path) -> None:
    """flop_counter takes the weight's gradient for as many times too much as there are groups."""
    grouped = training(nn.Conv2d(4, 8, 3, groups=4), 2, 4, 20, 16)
    channels = [training(nn.Conv2d(1, 2, 3), 2, 1, 20, 16) for _ in range(4)]
    one_by_one = sum(flop_counter(channel) for channel in channels)
    assert counted(grouped, tmp_path).products == one_by_one
    forward = one_by_one // 3
    assert flop_counter(grouped) == forward + forward + 4 * forward


def test_a_grouped_transposed_convolution(tmp_path: Path) -> None:
    step = training(nn.ConvTranspose2d(4, 8, 3, stride=2, groups=2), 2, 4, 10, 9)
    single = training(nn.ConvTranspose2d(2, 4, 3, stride=2), 2, 2, 10, 9)
    assert counted(step, tmp_path).products == 2 * flop_counter(single)


def test_gradients_that_nobody_asked_for_do_not_count(tmp_path: Path) -> None:
    module = nn.Conv2d(4, 8, 3)
    image = torch.randn(2, 4, 9, 9)
    step = counted(lambda: module(image).sum().backward(), tmp_path)
    assert step.of("aten::convolution_backward") == step.of("aten::conv2d")


def test_the_size_of_a_product_is_that_of_the_result(tmp_path: Path) -> None:
    scalar, matrix = torch.tensor(2.0), torch.randn(5, 7)
    step = counted(lambda: scalar * matrix, tmp_path)
    assert (step.ours["aten::mul"], step.profiler["aten::mul"]) == (35, 1)


def test_integers_have_no_fraction(tmp_path: Path) -> None:
    numbers = torch.arange(12)
    step = counted(lambda: (numbers + numbers).sum() * 3, tmp_path)
    assert step.ours == {}
    assert step.profiler["aten::add"] == 12


def test_a_factor_is_a_product(tmp_path: Path) -> None:
    a = torch.randn(10)
    step = counted(lambda: torch.add(a, a, alpha=3), tmp_path)
    assert (step.ours["aten::add"], step.profiler["aten::add"]) == (20, 10)


def test_vectors_count_too(tmp_path: Path) -> None:
    matrix, vector = torch.randn(5, 6), torch.randn(6)
    step = counted(lambda: (matrix @ vector, vector @ vector), tmp_path)
    assert step.ours == {"aten::mv": 60, "aten::dot": 12}


def test_the_fast_way_through_a_transformer_is_no_way_around(tmp_path: Path) -> None:
    """flop_counter only sees the one operator that holds a whole layer."""
    module, given = encoder().eval(), torch.randn(2, 10, 32)

    def step() -> None:
        with torch.no_grad():
            module(given)

    fast = counted(step, tmp_path)
    assert fast.products > flop_counter(step) == 0
    assert fast.ours["aten::_addmm_activation"] > 0
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        slow = counted(step, tmp_path)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    attention = slow.of("aten::_scaled_dot_product_flash_attention_for_cpu")
    assert fast.products == slow.products + attention


# --- attention ---

QUERY, KEY, VALUE = (2, 8, 128, 64), (2, 2, 96, 64), (2, 2, 96, 64)


def on_no_device(*shape: int) -> torch.Tensor:
    """Return a tensor that has a shape and no numbers: what a GPU would run can be called."""
    return torch.empty(*shape, device="meta", dtype=torch.float16)


def flash() -> tuple[Any, ...]:
    output: tuple[Any, ...] = aten._scaled_dot_product_flash_attention(
        on_no_device(*QUERY), on_no_device(*KEY), on_no_device(*VALUE)
    )
    return output


def flash_backward() -> None:
    out, logsumexp, *_, seed, offset, _ = flash()
    aten._scaled_dot_product_flash_attention_backward(
        *(out, on_no_device(*QUERY), on_no_device(*KEY), on_no_device(*VALUE), out, logsumexp),
        *(None, None, QUERY[2], KEY[2], 0.0, False, seed, offset),
    )


def efficient() -> None:
    tensors = on_no_device(*QUERY), on_no_device(*KEY), on_no_device(*VALUE)
    aten._scaled_dot_product_efficient_attention(*tensors, None, False)


def cudnn() -> None:
    tensors = on_no_device(*QUERY), on_no_device(*KEY), on_no_device(*VALUE)
    aten._scaled_dot_product_cudnn_attention(*tensors, None, False)


@pytest.mark.parametrize("step", [flash, flash_backward, efficient, cudnn])
def test_attention_on_a_gpu(step: Step, tmp_path: Path) -> None:
    expected = flop_counter(step)
    assert expected > 0
    ours = counted(step, tmp_path).ours
    assert sum(flops for name, flops in ours.items() if "attention" in name) == expected


def test_attention_on_a_cpu_counts_as_on_a_gpu(tmp_path: Path) -> None:
    def step() -> None:
        tensors = [torch.randn(shape, requires_grad=True) for shape in (QUERY, KEY, VALUE)]
        F.scaled_dot_product_attention(*tensors, enable_gqa=True).sum().backward()

    ours = counted(step, tmp_path).ours
    forward = ours["aten::_scaled_dot_product_flash_attention_for_cpu"]
    backward = ours["aten::_scaled_dot_product_flash_attention_for_cpu_backward"]
    assert forward == flop_counter(flash)
    assert forward + backward == flop_counter(flash_backward)
    assert flop_counter(step) == 0, "flop_counter has learned it: say so in the module"


def test_the_kernel_below_has_its_lengths_before_its_heads(tmp_path: Path) -> None:
    """flop_counter takes one for the other when the kernel is called directly."""
    query = on_no_device(2, 128, 8, 64)

    def step() -> Any:
        return aten._flash_attention_forward(
            *(query, query, query, None, None, 128, 128, 0.0, False, False)
        )

    assert step()[1].shape == (2, 8, 128)  # a number for each head and place
    assert counted(step, tmp_path).total == 4 * 2 * 8 * 128 * 128 * 64
    assert flop_counter(step) == 4 * 2 * 128 * 8 * 8 * 64


# --- recurrent layers ---


def lstm(*, bidirectional: bool = False) -> nn.LSTM:
    return nn.LSTM(8, 16, 2, bidirectional=bidirectional)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_an_lstm_in_one_call_counts_as_one_of_operators(
    bidirectional: bool, tmp_path: Path
) -> None:
    module, given = lstm(bidirectional=bidirectional), torch.randn(7, 3, 8)

    def step() -> None:
        with torch.no_grad():
            module(given)

    fused = counted(step, tmp_path)
    if not fused.ours["aten::mkldnn_rnn_layer"]:
        pytest.skip("oneDNN has no LSTM here")
    assert fused.total == counted(without_onednn(step), tmp_path).total


def test_the_gradients_of_an_lstm_are_twice_its_products(tmp_path: Path) -> None:
    ours = counted(training(lstm(), 7, 3, 8), tmp_path).ours
    if not ours["aten::mkldnn_rnn_layer"]:
        pytest.skip("oneDNN has no LSTM here")
    assert ours["aten::mkldnn_rnn_layer_backward"] == 2 * ours["aten::mkldnn_rnn_layer"]


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_a_layer_of_cudnn_counts_as_one_of_operators(kind: str, tmp_path: Path) -> None:
    layers = {"lstm": (nn.LSTM, 2), "gru": (nn.GRU, 3), "rnn": (nn.RNN, 1)}
    layer, mode = layers[kind]
    module = layer(8, 16, 2, bidirectional=True)
    given, state = torch.randn(7, 3, 8), torch.randn(4, 3, 16)
    weights = [weight.detach().to("meta") for weight in module.parameters()]

    def on_gpu() -> None:
        aten._cudnn_rnn(
            *(given.to("meta"), weights, 4, None, state.to("meta"), state.to("meta")),
            *(mode, 16, 0, 2, False, 0.0, True, True, [], None),
        )

    def on_cpu() -> None:
        with torch.no_grad():
            module(given)

    fused = counted(on_gpu, tmp_path).ours["aten::_cudnn_rnn"]
    assert fused == counted(without_onednn(on_cpu), tmp_path).total > 0


def test_all_that_flop_counter_knows_is_known() -> None:
    """A new torch may count more: then a formula is missing here."""
    from torch.utils.flop_counter import flop_registry

    names = {str(name).replace(".", "::") for name in flop_registry}
    # No operators of a trace: what runs inside of aten::conv2d, and what is compiled away.
    names -= {"aten::_slow_conv2d_forward", "flex_attention", "flex_attention_backward"}
    assert len(names) >= 20
    assert {name for name in names if formula_of(name) is None} == set()


def test_groups_of_experts(tmp_path: Path) -> None:
    """Of 8 rows, each is multiplied with the matrix of one of 2 experts."""
    tokens, experts = torch.randn(8, 16), torch.randn(2, 16, 32)
    ends = torch.tensor([3, 8], dtype=torch.int32)
    if not hasattr(torch, "_grouped_mm"):
        pytest.skip("this torch has none")
    result = counted(
        lambda: torch._grouped_mm(tokens.bfloat16(), experts.bfloat16(), offs=ends), tmp_path
    )
    assert result.of("aten::_grouped_mm") == 2 * 8 * 16 * 32
