"""Forward, backward, optimization and data loading of a Paddle program, and its RecordEvents."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from paddle_recording import paddle_or_skip, paddle_recorded, path_of, rows_of, trace_of

from recording import row_of
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.views.event_types import event_types

paddle = paddle_or_skip()

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

PHASES = ("Forward", "Backward", "Optimization", "Dataloader")


class Numbers(paddle.io.Dataset):  # type: ignore[misc]
    def __getitem__(self, index: int) -> Any:
        return np.full([4], index, np.float32)

    def __len__(self) -> int:
        return 4


class TwoSteps(paddle.optimizer.SGD):  # type: ignore[misc]
    """An optimizer of the user's, which goes through that of Paddle."""

    def step(self) -> None:
        super().step()
        super().step()


def phases_of(trace: Trace) -> Counter[tuple[str, str]]:
    """Count the ranges of phases by type and name."""
    types = event_types(trace)
    events = ((TracerEventType(types[row]).name, name) for row, name in enumerate(trace.names()))
    return Counter(pair for pair in events if pair[0] in PHASES)


def patched_attributes() -> dict[str, Any]:
    """Return what the source replaces."""
    loaders = paddle.io.dataloader.dataloader_iter
    owners = {
        "Layer.__call__": (paddle.nn.Layer, "__call__"),
        "Tensor.backward": (paddle.Tensor, "backward"),
        "autograd.backward": (paddle.autograd, "backward"),
        "single": (loaders._DataLoaderIterSingleProcess, "__next__"),
        "several": (loaders._DataLoaderIterMultiProcess, "__next__"),
        "begin": (paddle.profiler.RecordEvent, "begin"),
        "end": (paddle.profiler.RecordEvent, "end"),
        "init": (paddle.optimizer.Optimizer, "__init_subclass__"),
        "mine": (TwoSteps, "step"),
    }
    names = (name for name in paddle.optimizer.__all__ if name != "lr")
    owners |= {name: (getattr(paddle.optimizer, name), "step") for name in names}
    return {key: vars(owner).get(name) for key, (owner, name) in owners.items()}


def train(steps: int, optimizer: type = paddle.optimizer.Momentum) -> None:
    model = paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.ReLU(), paddle.nn.Linear(4, 1))
    stepper = optimizer(learning_rate=0.1, parameters=model.parameters())
    loader = paddle.io.DataLoader(Numbers(), batch_size=4 // steps)
    for batch in loader:
        model(batch).sum().backward()
        stepper.step()
        stepper.clear_grad()


def test_a_training_step_has_all_phases_once() -> None:
    with paddle_recorded() as recorder:
        train(2)
    trace = trace_of(recorder)
    assert phases_of(trace) == {
        ("Forward", "Sequential"): 2,
        ("Forward", "Linear"): 4,
        ("Forward", "ReLU"): 2,
        ("Backward", "Gradient Backward"): 2,
        ("Optimization", "Optimization Step"): 2,
        ("Dataloader", "_DataLoaderIterSingleProcess"): 3,  # the last finds the end
    }
    for row in rows_of(trace, "relu dygraph"):
        assert path_of(trace, row)[:2] == ["Sequential", "ReLU"]
    for row in rows_of(trace, "momentum_ dygraph"):
        assert path_of(trace, row)[0] == "Optimization Step"


def test_the_phases_are_those_that_paddle_marks_itself() -> None:
    with paddle_recorded() as recorder:
        train(2)
    ours = phases_of(trace_of(recorder))
    theirs: Counter[tuple[str, str]] = Counter()
    profiler = paddle.profiler.Profiler(on_trace_ready=lambda _: None)
    profiler.start()
    train(2)
    profiler.stop()
    for root in profiler.profiler_result.get_data().values():
        waiting = [root]
        while waiting:
            node = waiting.pop()
            waiting += node.children_node
            if node.type.name in PHASES:
                theirs[node.type.name, node.name] += 1
    assert ours == theirs


def test_nothing_stays_patched() -> None:
    before = patched_attributes()
    with paddle_recorded(shapes=True), paddle_recorded():
        during = patched_attributes()
        train(1)
    assert patched_attributes() == before
    assert during["Tensor.backward"] is not before["Tensor.backward"]
    assert during["Layer.__call__"] is before["Layer.__call__"]  # to_static looks at it
    with pytest.raises(ValueError, match="mine"), paddle_recorded():
        raise ValueError("mine")
    assert patched_attributes() == before


def test_an_optimizer_of_the_users_steps_once_a_call() -> None:
    with paddle_recorded() as recorder:
        train(1, TwoSteps)
    assert phases_of(trace_of(recorder))["Optimization", "Optimization Step"] == 1


def test_an_optimizer_that_is_defined_while_recording_counts_and_is_restored() -> None:
    with paddle_recorded() as recorder:

        class Mine(paddle.optimizer.SGD):  # type: ignore[misc]
            def step(self) -> None:
                """Do nothing."""

        wrapped = vars(Mine)["step"]
        train(1, Mine)
    assert phases_of(trace_of(recorder))["Optimization", "Optimization Step"] == 1
    assert vars(Mine)["step"] is wrapped.__wrapped__


def test_a_phase_that_fails_ends_there() -> None:
    class Failing(paddle.nn.Layer):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            raise RuntimeError("not today")

    with paddle_recorded() as recorder:
        with pytest.raises(RuntimeError, match="not today"):
            Failing()(paddle.ones([1]))
        paddle.exp(paddle.ones([1]))
    trace = trace_of(recorder)
    assert phases_of(trace) == {("Forward", "Failing"): 1}
    assert path_of(trace, row_of(trace, "exp dygraph"))[0] != "Failing"


def test_backward_through_the_module_counts_as_the_tensors_does() -> None:
    x = paddle.ones([2])
    x.stop_gradient = False
    with paddle_recorded() as recorder:
        paddle.autograd.backward([(x * 2).sum()])
    assert phases_of(trace_of(recorder)) == {("Backward", "Gradient Backward"): 1}


def test_record_events_of_the_program_are_recorded() -> None:
    with paddle_recorded() as recorder:
        with paddle.profiler.RecordEvent("block"):
            paddle.exp(paddle.ones([1]))
        event = paddle.profiler.RecordEvent("by hand", paddle.profiler.TracerEventType.Forward)
        event.begin()
        event.end()
        event.end()
    trace = trace_of(recorder)
    types = event_types(trace)
    assert types[row_of(trace, "block")] == TracerEventType.PythonUserDefined
    assert types[row_of(trace, "by hand")] == TracerEventType.Forward
    assert path_of(trace, row_of(trace, "exp dygraph"))[0] == "block"


def test_record_events_may_recurse_and_overlap() -> None:
    @paddle.profiler.RecordEvent("down")  # type: ignore[untyped-decorator]
    def down(levels: int) -> None:
        if levels:
            down(levels - 1)

    first, second = (paddle.profiler.RecordEvent(name) for name in ("first", "second"))
    with paddle_recorded() as recorder:
        down(2)
        first.begin()
        second.begin()
        first.end()
        second.end()
        paddle.exp(paddle.ones([1]))
    trace = trace_of(recorder)
    assert path_of(trace, rows_of(trace, "down")[-1]) == ["down", "down", "down"]
    assert rows_of(trace, "first")
    assert rows_of(trace, "second")
    assert rows_of(trace, "exp dygraph")


def test_phases_are_marked_once_beside_paddles_own_profiler() -> None:
    profiler = paddle.profiler.Profiler(on_trace_ready=lambda _: None)
    profiler.start()
    with paddle_recorded() as recorder:
        train(2)
    profiler.stop()
    del profiler
    marked = phases_of(trace_of(recorder))
    assert marked["Forward", "Sequential"] == 2
    assert marked["Backward", "Gradient Backward"] == 2
    assert marked["Optimization", "Optimization Step"] == 2
