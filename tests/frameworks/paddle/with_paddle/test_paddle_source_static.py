"""Static graphs and to_static: events of the executor, on whatever thread it runs them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from paddle_recording import category_of, paddle_or_skip, paddle_recorded, rows_of, trace_of

paddle = paddle_or_skip()

if TYPE_CHECKING:
    from collections.abc import Callable


class Net(paddle.nn.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first = paddle.nn.Linear(8, 8)
        self.second = paddle.nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.second(paddle.nn.functional.relu(self.first(x)))


@pytest.mark.parametrize("full_graph", [True, False])
@pytest.mark.parametrize("compiled_before", [True, False])
def test_to_static_is_recorded_and_not_compiled_otherwise(
    full_graph: bool, compiled_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")  # small graphs, too
    net, x = Net(), paddle.randn([2, 8])
    expected = net(x).numpy()
    static = paddle.jit.to_static(net, full_graph=full_graph)
    if compiled_before:
        static(x)
    with paddle_recorded(shapes=True) as recorder:
        static(x)
        result = static(x)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    trace = trace_of(recorder)
    operators = rows_of(trace, "pd_op.matmul")
    assert len(operators) == 4
    assert {category_of(trace, row) for row in operators} == {"Operator"}
    launches = rows_of(trace, "matmul kernel launch")
    assert {category_of(trace, row) for row in launches} == {"StaticKernelLaunch"}
    assert rows_of(trace, "Net")
    assert not rows_of(trace, "matmul dygraph")
    np.testing.assert_allclose(static(x).numpy(), expected, rtol=1e-6)


class Block(paddle.nn.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = paddle.nn.Linear(8, 8), paddle.nn.LayerNorm(8)

    def forward(self, x: Any) -> Any:
        return paddle.nn.functional.relu(self.norm(self.first(x))) + x


def launches(call: Callable[[], Any]) -> Counter[str]:
    """Count by what operators are launched, with Paddle's collector and nothing of ours."""
    core = paddle.base.core
    options = core.ProfilerOptions()
    options.trace_switch = 1
    profiler = core._Profiler.create(options, [])
    profiler.prepare()
    profiler.start()
    call()
    calls: Counter[str] = Counter()
    result = profiler.stop()  # it owns its nodes
    waiting = list(result.get_data().values())
    while waiting:
        node = waiting.pop()
        calls[node.type.name] += 1
        waiting += node.children_node
    return Counter({name: calls[name] for name in ("StaticKernelLaunch", "DygraphKernelLaunch")})


def marked(x: Any) -> Any:
    event = paddle.profiler.RecordEvent("mine")
    event.begin()
    for _ in range(9):
        x = x * 3 + 1
    event.end()
    return x


def compiled() -> list[Callable[[], Any]]:
    """Return calls of what to_static makes: a step of a model, and a function with a range."""
    plain, x = paddle.nn.Sequential(Block(), Block()), paddle.randn([2, 8])
    stepper = paddle.optimizer.SGD(parameters=plain.parameters())
    model = paddle.jit.to_static(plain, full_graph=False)
    marks = paddle.jit.to_static(marked, full_graph=False)

    def train() -> None:
        model(x).sum().backward()
        stepper.step()

    return [train, lambda: marks(x)]


@pytest.mark.parametrize("shapes", [False, True])
def test_graphs_are_those_of_a_program_that_nobody_records(shapes: bool) -> None:
    for call in (plain := compiled()):
        call()
    expected = [launches(call) for call in plain]
    assert all(names["StaticKernelLaunch"] for names in expected)
    watched = compiled()
    with paddle_recorded(shapes=shapes) as recorder:
        for call in watched:
            call()
            call()
    assert [launches(call) for call in watched] == expected
    trace = trace_of(recorder)
    assert rows_of(trace, "pd_op.layer_norm")
    assert not rows_of(trace, "layer_norm dygraph")


def test_a_static_program_is_recorded() -> None:
    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [2, 4], "float32")
            out = paddle.matmul(x, x, transpose_y=True)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        feed = {"x": np.ones([2, 4], np.float32)}
        with paddle_recorded() as recorder:
            (result,) = executor.run(main, feed=feed, fetch_list=[out])
    finally:
        paddle.disable_static()
    assert result.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    trace = trace_of(recorder)
    (operator,) = rows_of(trace, "pd_op.matmul")
    assert category_of(trace, operator) == "Operator"
    assert len(rows_of(trace, "matmul kernel launch")) == 1
