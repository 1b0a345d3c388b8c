"""The layers of a pass and their floating-point operations, as they follow a summary."""

from __future__ import annotations

import pytest

from made_trace import Call, trace_of_calls
from stepscope.analysis.flops.count import flops_of
from stepscope.frameworks.paddle.views.flops import flops_text, layer_rows

SHAPES = '"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]'


def net(start: int) -> list[Call]:
    """Return a pass of a model of two layers, and its backward pass."""
    return [
        Call("Net", start, start + 50, "Forward"),
        Call("Linear", start + 5, start + 25, "Forward"),
        Call("aten::mm", start + 10, start + 20, rest=SHAPES),
        Call("aten::view", start + 12, start + 14),
        Call("ReLU", start + 30, start + 40, "Forward"),
        Call("relu dygraph", start + 32, start + 38, "Operator"),
        Call("Gradient Backward", start + 60, start + 90, "Backward"),
        Call("aten::mm", start + 65, start + 75, rest=SHAPES),
        Call("Global_ReluGradNode", start + 92, start + 95, "Operator"),
    ]


def test_layers_of_the_first_pass_have_the_flops_of_what_is_in_them() -> None:
    rows = layer_rows(trace_of_calls([*net(0), *net(100)]))
    assert [(row.level, row.name, row.flops) for row in rows] == [
        (0, "Net", 48),
        (1, "Linear", 48),
        (2, "aten::mm", 48),
        (1, "ReLU", 0),
        (2, "relu dygraph", 0),
    ]
    assert len(layer_rows(trace_of_calls([*net(0), *net(100)]), passes=2)) == 2 * len(rows)


def test_the_text_stands_between_paddles_rules() -> None:
    lines = flops_text(trace_of_calls(net(0))).splitlines()
    assert lines[0] == "--------------------------------------- Flops Profiler Begin " + "-" * 39
    assert lines[1] == "Net latency: 50.0 us, FLOPs: 48, FLOPS: 960.0 K"
    assert lines[3] == "    aten::mm latency: 10.0 us, FLOPs: 48, FLOPS: 4.8 M"
    assert lines[5] == "    relu latency: 6.0 us, FLOPs: 0, FLOPS: 0.0"
    assert lines[-1] == "---------------------------------------- Flops Profiler End " + "-" * 40


def test_without_a_layer_it_says_so() -> None:
    assert "No layer was recorded." in flops_text(trace_of_calls([Call("aten::mm", 0, 1)]))


def test_modules_of_torch_are_layers() -> None:
    torch = pytest.importorskip("torch")
    import stepscope

    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    with stepscope.profile(record_shapes=True, with_modules=True) as profiler:
        model(torch.ones(3, 4))
    rows = layer_rows(profiler.trace)
    assert (rows[0].name, rows[0].level) == ("Sequential", 0)
    assert rows[0].flops == flops_of(profiler.trace).sum() >= 2 * 3 * 4 * 2
    assert {"aten::linear", "aten::relu"} <= {row.name for row in rows}
