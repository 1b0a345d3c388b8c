"""Each problem is found in a real program that has it, and not in one that does not.

The programs are real; their traces are put on a clock of the test's own, see ``event_clock``.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest

from event_clock import on_event_clock
from stepscope import profile, schedule
from stepscope.analysis.findings import DETECTORS, Finding, Severity, find_problems
from stepscope.record.options import RecordOptions
from stepscope.record.recorder import Recorder
from stepscope.record.session import Session
from stepscope.record.source import make_sources
from stepscope.trace.build import empty_trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import Trace

torch = pytest.importorskip("torch")

STEPS = 8


def every_step() -> Any:
    """Return a schedule that records and marks all steps but a first one."""
    return schedule(wait=0, warmup=1, active=STEPS, repeat=1)


def steps_of(step: Callable[[int], object]) -> Trace:
    """Record some steps of a program."""
    with profile(schedule=every_step()) as profiler:
        profiler.step()
        for number in range(STEPS):
            step(number)
            profiler.step()
    trace = profiler.trace
    assert trace is not None
    return on_event_clock(trace)


def finding_of(trace: Trace, problem: str) -> Finding | None:
    """Return the finding of a kind."""
    (finding,) = [item for item in find_problems(trace) if item.id == problem] or [None]
    return finding


def busy(rounds: int) -> None:
    """Take time that is long against everything else in a step."""
    matrix = torch.ones(64, 64)  # small: one thread does it, whatever else the machine does
    for _ in range(rounds):
        matrix @ matrix


def shown(finding: Finding, trace: Trace) -> str:
    """Return the name of what the evidence shows: exactly one slice begins and ends there."""
    slices, where = trace.slices, finding.evidence
    assert where["page"] == "timeline"
    rows = (slices.start_ns == where["from"]) & (slices.end_ns == where["to"])
    names = {trace.name_of(int(row)) for row in rows.nonzero()[0]}
    (name,) = names
    return name


class Items(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> Any:
        busy(self.rounds)
        return torch.ones(4)


def loading(item_rounds: int, step_rounds: int) -> Trace:
    loader = iter(torch.utils.data.DataLoader(Items(item_rounds)))

    def step(_: int) -> None:
        next(loader)
        busy(step_rounds)

    return steps_of(step)


def test_data_loading_that_dominates() -> None:
    trace = loading(item_rounds=400, step_rounds=20)
    finding = finding_of(trace, "data-loading")
    assert finding is not None
    assert finding.severity is Severity.HIGH
    assert finding.share > 0.5
    assert shown(finding, trace).startswith("enumerate(DataLoader)#_SingleProcess")
    assert "num_workers" in finding.fix


def test_data_loading_that_does_not() -> None:
    assert finding_of(loading(item_rounds=0, step_rounds=1000), "data-loading") is None


def training(optimizer: Any, parameters: list[Any], rounds: int, **zero: bool) -> Trace:
    def step(_: int) -> None:
        busy(rounds)
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        optimizer.zero_grad(**zero)

    return steps_of(step)


def parameters(count: int) -> list[Any]:
    return [torch.nn.Parameter(torch.ones(8)) for _ in range(count)]


def test_gradients_that_are_filled() -> None:
    own = parameters(100)
    trace = training(torch.optim.SGD(own, foreach=False), own, rounds=1, set_to_none=False)
    finding = finding_of(trace, "gradients-filled")
    assert finding is not None
    assert "100 tensors per call" in finding.text
    assert shown(finding, trace) == "Optimizer.zero_grad#SGD.zero_grad"


def test_gradients_that_are_dropped() -> None:
    own = parameters(100)
    trace = training(torch.optim.SGD(own, foreach=False), own, rounds=1)
    assert finding_of(trace, "gradients-filled") is None


def test_an_optimizer_of_many_small_operators() -> None:
    own = parameters(100)
    trace = training(torch.optim.Adam(own, foreach=False), own, rounds=1)
    finding = finding_of(trace, "unfused-optimizer")
    assert finding is not None
    assert "torch.optim.Adam(..., fused=True)" in finding.fix
    assert shown(finding, trace) == "Optimizer.step#Adam.step"


def test_an_optimizer_that_is_fused() -> None:
    own = parameters(100)
    trace = training(torch.optim.Adam(own, fused=True), own, rounds=1)
    assert finding_of(trace, "unfused-optimizer") is None


@pytest.mark.slow
def test_an_optimizer_that_takes_little_of_the_step() -> None:
    own = parameters(20)
    trace = training(torch.optim.SGD(own, foreach=False), own, rounds=3000)
    assert finding_of(trace, "unfused-optimizer") is None


def test_a_step_that_stands_out_without_a_line_is_no_finding() -> None:
    trace = steps_of(lambda number: busy(4000 if number == 5 else 100))
    assert finding_of(trace, "work-in-some-steps") is None


def compiled(breaks: bool, sizes: list[int]) -> Trace:
    torch._dynamo.reset()

    @torch.compile(backend="eager", dynamic=False)  # type: ignore[untyped-decorator]
    def function(x: Any) -> Any:
        y = x.sin()
        if breaks:
            print(end="")
        return y.cos()

    trace = steps_of(lambda number: function(torch.ones(sizes[number % len(sizes)])))
    torch._dynamo.reset()
    return trace


def test_a_function_that_is_compiled_again_and_again() -> None:
    trace = compiled(breaks=False, sizes=[2, 3, 4, 5])
    finding = finding_of(trace, "recompilations")
    assert finding is not None
    assert finding.title == "torch.compile recompiled 3 times"
    assert "function (test_findings.py:" in finding.text
    assert shown(finding, trace).startswith("torch.compile 0/")
    assert finding_of(trace, "graph-breaks") is None


def test_a_graph_that_breaks() -> None:
    finding = finding_of(compiled(breaks=True, sizes=[2]), "graph-breaks")
    assert finding is not None
    assert "test_findings.py:" in finding.text
    assert finding.severity is Severity.LOW


def test_a_function_that_is_compiled_once_and_whole() -> None:
    trace = compiled(breaks=False, sizes=[2])
    assert finding_of(trace, "recompilations") is None
    assert finding_of(trace, "graph-breaks") is None


def collecting(in_steps: bool) -> Trace:
    """Record what `stepscope run` does: there, pauses for the collector are recorded, too."""
    remaining = [[i] for i in range(200_000)]  # a collection looks at each of these
    sources = make_sources(RecordOptions(gc_pauses=True))
    session = Session(Recorder(sources), schedule=every_step())
    gc.disable()
    try:
        session.start()
        session.step()
        for _ in range(STEPS):
            busy(40)
            if in_steps:
                gc.collect()
            session.step()
        session.stop()
    finally:
        gc.enable()
    assert remaining
    assert session.trace is not None
    return on_event_clock(session.trace, {"Python garbage collection": 5_000_000})


@pytest.mark.slow
def test_pauses_for_the_garbage_collector() -> None:
    trace = collecting(in_steps=True)
    finding = finding_of(trace, "garbage-collection")
    assert finding is not None
    assert shown(finding, trace) == "Python garbage collection"
    assert "gc.freeze()" in finding.fix


def test_a_program_without_pauses() -> None:
    assert finding_of(collecting(in_steps=False), "garbage-collection") is None


def test_a_healthy_program_has_no_finding() -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), fused=True, lr=0.1)
    batch = torch.ones(256, 256)

    def step(_: int) -> None:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    assert find_problems(steps_of(step)) == []


def test_of_nothing_there_is_nothing_to_find() -> None:
    assert find_problems(empty_trace()) == []


def test_the_worst_comes_first_and_each_kind_at_most_once() -> None:
    own = parameters(100)
    trace = training(torch.optim.SGD(own, foreach=False), own, rounds=1, set_to_none=False)
    findings = find_problems(trace)
    assert len(findings) >= 2
    ranks = [(list(Severity).index(finding.severity), -finding.share) for finding in findings]
    assert ranks == sorted(ranks)
    assert len({item.id for item in findings}) == len(findings) <= len(DETECTORS)
