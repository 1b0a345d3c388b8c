"""The inputs of a few operators, drawn by lot: they are those that all would have."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from recording import trace_of
from stepscope.analysis.flops.count import flops_of
from stepscope.record.options import RecordOptions
from stepscope.record.session import Session
from stepscope.record.source import make_sources

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import Trace

ROUNDS = 400  # of some hundred operators: that none of them is drawn does not happen


def recorded(run: Callable[[], object], **options: Any) -> Trace:
    session = Session(make_sources(RecordOptions(**options)))
    session.start()
    try:
        run()
    finally:
        session.stop()
    return trace_of(session)


def inputs_of(trace: Trace, dims: str, types: str) -> list[tuple[str, str]]:
    """Return the operators that have inputs, with them."""
    collected = []
    for row in range(len(trace)):
        args = trace.slices.args.of_row(row, trace.strings)
        if dims in args:
            collected.append((trace.name_of(row), str((args[dims], args[types]))))
    return collected


def training() -> Callable[[], None]:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).double()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    x = torch.randn(4, 8, dtype=torch.double)

    def run() -> None:
        for _ in range(ROUNDS):
            optimizer.zero_grad()
            model(x).sum().backward()
            with torch.autograd.profiler.record_function("a range"):
                optimizer.step()

    return run


def test_a_few_operators_have_the_inputs_that_all_would_have() -> None:
    run = training()
    run()  # optimizers begin otherwise than they go on
    all_of_them = set(inputs_of(recorded(run, shapes=True), "Input Dims", "Input type"))
    trace = recorded(run, sampled_inputs=True)
    drawn = inputs_of(trace, "Sampled dims", "Sampled types")
    assert set(drawn) <= all_of_them
    assert 0 < len(drawn) < len(trace) / 10
    assert any("double" in types for _, types in drawn)
    forward = {"aten::linear", "aten::addmm", "aten::relu", "aten::t", "aten::sum"}
    assert {name for name, _ in drawn} - forward  # those of backward and optimizer, too


def test_they_are_not_taken_for_the_inputs_of_all() -> None:
    trace = recorded(training(), sampled_inputs=True)
    assert not inputs_of(trace, "Input Dims", "Input type")
    assert not flops_of(trace).any()


def test_with_shapes_all_operators_have_theirs_and_none_is_drawn() -> None:
    trace = recorded(lambda: torch.ones(3).sum(), shapes=True, sampled_inputs=True)
    assert not inputs_of(trace, "Sampled dims", "Sampled types")
    assert ("aten::sum", "([[3], []], ['float', ''])") in inputs_of(
        trace, "Input Dims", "Input type"
    )


def test_every_thread_is_drawn_from() -> None:
    def run() -> None:
        for _ in range(40 * ROUNDS):
            torch.add(one, one)

    one = torch.ones(2, 3)
    threads = [threading.Thread(target=run, name=f"t{i}") for i in range(3)]

    def all_of_them() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    trace = recorded(all_of_them, sampled_inputs=True)
    of_threads = {
        trace.tracks[trace.slices.track[row]].thread_name
        for row in range(len(trace))
        if "Sampled dims" in trace.slices.args.of_row(row, trace.strings)
    }
    assert of_threads == {"t0", "t1", "t2"}


def test_nothing_of_it_is_left_in_torch() -> None:
    recorded(training(), sampled_inputs=True)
    trace = recorded(training())
    assert not inputs_of(trace, "Sampled dims", "Sampled types")


def test_inside_tasks_of_asyncio_they_are_drawn_as_well() -> None:
    import asyncio

    one = torch.ones(2, 3)

    async def run() -> None:
        for _ in range(40 * ROUNDS):
            torch.add(one, one)

    trace = recorded(lambda: asyncio.run(run()), sampled_inputs=True, requests=True)
    drawn = inputs_of(trace, "Sampled dims", "Sampled types")
    assert {name for name, _ in drawn} == {"aten::add"}
