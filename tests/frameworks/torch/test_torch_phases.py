"""Forward and backward phases of a PyTorch program, as Paddle marks its own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from recording import chain_of, row_of
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.views.event_types import event_types
from stepscope.frameworks.torch.phases import TorchPhases
from stepscope.record.options import RecordOptions
from stepscope.record.recorder import Recorder
from stepscope.record.source import make_sources

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import Trace

PHASES = ("Forward", "Backward", "Optimization", "Dataloader")


def recorded(work: Callable[[], Any], **options: Any) -> Trace:
    recorder = Recorder(make_sources(RecordOptions(phases=True, **options)))
    recorder.start()
    try:
        work()
    finally:
        trace = recorder.stop()
    assert trace is not None
    return trace


def phases_of(trace: Trace) -> Counter[tuple[str, str]]:
    types = event_types(trace)
    events = ((TracerEventType(types[row]).name, name) for row, name in enumerate(trace.names()))
    return Counter(pair for pair in events if pair[0] in PHASES)


def training() -> Callable[[], None]:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    stepper = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.ones(4, 4), batch_size=2)

    def work() -> None:
        for batch in loader:
            model(batch).sum().backward()
            stepper.step()

    return work


def test_a_training_step_has_all_phases() -> None:
    trace = recorded(training())
    assert phases_of(trace) == {
        ("Forward", "Sequential"): 2,
        ("Forward", "Linear"): 4,
        ("Forward", "ReLU"): 2,
        ("Backward", "Gradient Backward"): 2,
        ("Optimization", "Optimizer.step#SGD.step"): 2,
        ("Dataloader", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"): 3,
    }
    relu = next(row for row, name in enumerate(trace.names()) if name == "aten::relu")
    assert chain_of(trace, relu) == ("aten::relu", "ReLU", "Sequential")


def test_the_phases_come_only_when_asked_for() -> None:
    recorder = Recorder(make_sources())
    recorder.start()
    training()()
    trace = recorder.stop()
    assert trace is not None
    assert {phase for phase, _ in phases_of(trace)} == {"Optimization", "Dataloader"}


def test_backward_through_the_module_counts_as_the_tensors_does() -> None:
    x = torch.ones(2, requires_grad=True)
    trace = recorded(lambda: torch.autograd.backward([(x * 2).sum()]))
    assert phases_of(trace) == {("Backward", "Gradient Backward"): 1}


def test_module_names_and_phases_go_together_and_torch_is_restored() -> None:
    plain = torch.nn.Module.__call__, torch.nn.Module._call_impl, torch.autograd.backward
    first, second = (
        Recorder(make_sources(options))
        for options in (RecordOptions(modules=True), RecordOptions(phases=True))
    )
    linear, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    first.start()
    second.start()
    linear(x)
    first.stop()
    second.stop()
    assert plain == (torch.nn.Module.__call__, torch.nn.Module._call_impl, torch.autograd.backward)
    assert second.trace is not None
    assert chain_of(second.trace, row_of(second.trace, "aten::linear"))[1] == "Linear"


def test_a_call_that_fails_ends_there() -> None:
    class Failing(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            raise RuntimeError("not today")

    def work() -> None:
        with pytest.raises(RuntimeError, match="not today"):
            Failing()(torch.ones(1))
        torch.exp(torch.ones(1))

    trace = recorded(work)
    assert phases_of(trace) == {("Forward", "Failing"): 1}
    assert chain_of(trace, row_of(trace, "aten::exp")) == ("aten::exp",)


def test_a_compiled_model_is_neither_broken_nor_compiled_again() -> None:
    graphs = 0

    def count(graph: Any, _: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    compiled, x = torch.compile(model, backend=count), torch.ones(1, 4)
    compiled(x)
    for phases in (TorchPhases(), TorchPhases()):
        phases.start()
        compiled(x)
        phases.stop()
    compiled(x)
    assert graphs == 1
    torch._dynamo.reset()
    phases = TorchPhases()
    phases.start()
    compiled(x)
    phases.stop()
    compiled(x)
    assert graphs == 2
    torch._dynamo.reset()
