"""Calls of Paddle's models and their layers, steps of a fitted model, workers of a loader."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from paddle_recording import args_of, paddle_or_skip, path_of, rows_of, trace_of

from stepscope.analysis.host.modules import module_table
from stepscope.frameworks.paddle.modules import PaddleModelCalls
from stepscope.frameworks.paddle.paddle_source import PaddleSource
from stepscope.record.options import RecordOptions
from stepscope.record.recorder import Recorder
from stepscope.record.source import make_sources
from stepscope.trace.model import SliceKind

paddle = paddle_or_skip()

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.trace.model import Trace


class Net(paddle.nn.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first = paddle.nn.Linear(8, 8)
        self.second = paddle.nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.second(paddle.nn.functional.relu(self.first(x)))


@contextlib.contextmanager
def models_recorded() -> Iterator[Recorder]:
    recorder = Recorder([PaddleSource(RecordOptions()), PaddleModelCalls()])
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.stop()
        assert "__init_subclass__" not in vars(paddle.nn.Layer)


def module_rows(trace: Trace) -> list[int]:
    return np.flatnonzero(trace.slices.kind == SliceKind.MODULE).tolist()


def test_only_calls_outside_of_any_other_are_recorded() -> None:
    net, loss, x = Net(), paddle.nn.MSELoss(), paddle.randn([4, 8])
    with models_recorded() as recorder:
        for _ in range(2):
            loss(net(x), paddle.zeros([4, 2])).backward()
    trace = trace_of(recorder)
    assert [trace.name_of(row) for row in module_rows(trace)] == ["Net", "MSELoss"] * 2
    row = next(row for row in range(len(trace)) if trace.name_of(row) == "relu dygraph")
    assert path_of(trace, row)[0] == "Net"


def test_training_mode_and_gradients_are_told() -> None:
    net, x = Net(), paddle.randn([4, 8])
    with models_recorded() as recorder:
        net(x)
        net.eval()
        net(x)
        with paddle.no_grad():
            net(x)
    trace = trace_of(recorder)
    args = [args_of(trace, row) for row in module_rows(trace)]
    assert [(call["Training"], call["Grad"]) for call in args] == [(1, 1), (0, 1), (0, 0)]
    assert {call["Class"] for call in args} == {"Net"}
    assert {call["Model id"] for call in args} == {id(net)}
    assert {call["Input dtype"] for call in args} == {"paddle.float32"}


@pytest.mark.parametrize("full_graph", [True, False])
def test_static_models_are_recorded_and_work_as_before(
    full_graph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")  # small graphs, too
    net, x = Net(), paddle.randn([2, 8])
    expected = net(x).numpy()
    with models_recorded() as recorder:
        static = paddle.jit.to_static(net, full_graph=full_graph)
        results = [static(x) for _ in range(3)]
    for result in [*results, static(x)]:
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    trace = trace_of(recorder)
    assert [trace.name_of(row) for row in module_rows(trace)] == ["Net"] * 3


def test_all_layers_go_by_their_qualified_names() -> None:
    net, x = Net(), paddle.randn([4, 8])
    sources = make_sources(RecordOptions(modules=True, model_calls=True))
    recorder = Recorder(sources)
    recorder.start()
    net(x)
    recorder.stop()
    trace = trace_of(recorder)
    assert [trace.name_of(row) for row in module_rows(trace)] == ["Net", "first", "second"]
    args = [args_of(trace, row) for row in module_rows(trace)]
    assert args[1] == {"Class": "Linear", "Parameters": 72, "Own parameters": 72}
    assert args[0]["Parameters"] == 90
    assert trace.info.sources["paddle layers"] == "calls of paddle.nn.Layer, by qualified name"
    assert "torch modules" not in trace.info.sources
    table = module_table(trace)
    of_layers = dict(zip(table.name, table.operators.tolist(), strict=True))
    assert of_layers["first"] == of_layers["second"] > 0
    assert of_layers[""] == 0


def test_a_model_that_is_fitted_has_steps_of_its_optimizer() -> None:
    net = Net()
    model = paddle.Model(net)
    model.prepare(paddle.optimizer.Adam(parameters=net.parameters()), paddle.nn.MSELoss())
    data = paddle.io.TensorDataset([paddle.randn([8, 8]), paddle.randn([8, 2])])
    with models_recorded() as recorder:
        model.fit(data, batch_size=2, epochs=1, verbose=0)
    trace = trace_of(recorder)
    assert len(rows_of(trace, "Optimization Step")) == 4
    assert len(rows_of(trace, "Gradient Backward")) == 4
    assert len(rows_of(trace, "_DataLoaderIterSingleProcess")) >= 4


class Squares(paddle.io.Dataset):  # type: ignore[misc]
    def __getitem__(self, index: int) -> Any:
        return np.full([4], index * index, np.float32)

    def __len__(self) -> int:
        return 8


def test_workers_of_a_loader_show_what_they_do() -> None:
    recorder = Recorder(make_sources(RecordOptions(workers=True, loader_workers=True)))
    recorder.start()
    batches = list(paddle.io.DataLoader(Squares(), batch_size=2, num_workers=2))
    recorder.stop()
    assert len(batches) == 4
    trace = trace_of(recorder)
    assert trace.info.parallelism["loader workers"] == 2
    for worker in ("DataLoader worker 0", "DataLoader worker 1"):
        names = [
            trace.name_of(row)
            for row in range(len(trace))
            if trace.tracks[trace.slices.track[row]].process_name == worker
        ]
        assert names.count("DataLoader fetch: Squares") == 2
        assert names.count("Squares.__getitem__") == 4
        assert sum(name.startswith("collate: ") for name in names) == 2
