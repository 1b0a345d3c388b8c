"""Stacks, memory, shapes and tables beside torch.profiler's own, for the same recorded run."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch
from test_torch_results import assert_same_line
from torch._C._profiler import _ExperimentalConfig

from stepscope import read_trace
from stepscope.frameworks.torch.dialect.event_lists import EventList
from torch_steps import MODELS

if TYPE_CHECKING:
    from pathlib import Path

EXACT = (
    "name", "input_shapes", "input_dtypes", "concrete_inputs", "structured_input_shapes",
    "structured_input_strides", "is_python_function", "sequence_nr", "fwd_thread", "scope",
    "is_user_annotation",
)  # fmt: skip
MEMORY = ("cpu_memory_usage", "self_cpu_memory_usage")


@dataclass(frozen=True)
class Pair:
    """One run: torch.profiler's results, and ours of the file that it wrote."""

    ours: EventList
    theirs: Any  # torch.profiler.profile


def recorded(model_name: str, folder: Path, *, with_stack: bool) -> Pair:
    """Record two steps.

    With stacks, without the optimizer: its step is a range that begins in one Python function and
    ends in another, for which torch shows negative times.
    """
    torch.manual_seed(0)
    model, data = MODELS[model_name]()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        loss = model(data).sum()
        loss.backward()
        if not with_stack:
            optimizer.step()
            optimizer.zero_grad()

    step()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        record_shapes=True,
        profile_memory=True,
        with_stack=with_stack,
        experimental_config=_ExperimentalConfig(verbose=True),
    ) as theirs:
        step()
        step()
    path = folder / "trace.json"
    theirs.export_chrome_trace(str(path))
    return Pair(EventList(read_trace(path)), theirs)


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return recorded(request.param, tmp_path_factory.mktemp("torch"), with_stack=True)


@pytest.fixture(scope="module", params=MODELS)
def without_stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return recorded(request.param, tmp_path_factory.mktemp("torch"), with_stack=False)


def test_events_are_torchs(pair: Pair) -> None:
    """On a thread that waits meanwhile, torch counts the memory of the one that works."""
    assert len(pair.ours) == len(pair.theirs.events())
    (working,) = {event.thread for event in pair.ours if event.name.startswith("aten::")}
    for mine, other in zip(pair.ours, pair.theirs.events(), strict=True):
        names = EXACT + MEMORY if mine.thread == working else EXACT
        assert [getattr(mine, name) for name in names] == [getattr(other, name) for name in names]
        assert mine.self_cpu_time_total == pytest.approx(other.self_cpu_time_total, abs=1e-6)


def test_memory_outside_of_operators_is_torchs(without_stack: Pair) -> None:
    """With stacks, nothing is: some Python function is always around."""
    ours = [e for e in without_stack.ours if e.name == "[memory]"]
    theirs = [e for e in without_stack.theirs.events() if e.name == "[memory]"]
    assert len(ours) == len(theirs) > 0
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.cpu_memory_usage == other.cpu_memory_usage
        assert mine.input_shapes == other.input_shapes == []


def inside_backward(event: Any) -> bool:
    while event is not None and event.scope != 1:
        event = event.cpu_parent
    return event is not None


def test_stacks_of_the_forward_pass_are_torchs(pair: Pair) -> None:
    compared = 0
    for mine, other in zip(pair.ours, pair.theirs.events(), strict=True):
        if not inside_backward(mine):
            assert mine.stack == other.stack
            compared += bool(mine.stack)
    assert compared > 100


def test_backward_functions_have_the_stack_of_who_made_them(pair: Pair) -> None:
    """torch takes the first operator with the number, which need not have made the node."""
    events = list(zip(pair.ours, pair.theirs.events(), strict=True))
    makers = {}
    for mine, _ in events:
        if mine.sequence_nr >= 0 and not mine.fwd_thread and not inside_backward(mine):
            makers[mine.sequence_nr] = mine.stack
    backward = [(m, o) for m, o in events if m.scope == 1]
    assert len(backward) > 5
    assert all(m.stack == makers.get(m.sequence_nr, []) for m, _ in backward)
    assert sum(m.stack == o.stack for m, o in backward) / len(backward) > 0.8


@pytest.mark.parametrize(
    "options",
    [{}, {"max_src_column_width": 40, "row_limit": -1}, {"sort_by": "count", "row_limit": 9}],
    ids=str,
)
@pytest.mark.parametrize("frames", [1, 5])
def test_tables_with_sources_are_torchs_to_the_character(
    tmp_path: Path, options: dict[str, Any], frames: int
) -> None:
    """In this model, torch finds the right operator for every backward function."""
    pair = recorded("mlp", tmp_path, with_stack=True)
    ours = pair.ours.key_averages(group_by_stack_n=frames, include_python_functions=True)
    averages: Any = pair.theirs.key_averages
    chosen = {}  # up to 2.14 they are always among them
    if "include_python_functions" in inspect.signature(averages).parameters:
        chosen = {"include_python_functions": True}
    lines = zip(
        ours.table(**options).split("\n"),
        averages(group_by_stack_n=frames, **chosen).table(**options).split("\n"),
        strict=True,
    )
    for mine, other in lines:
        assert_same_line(mine, other)


def test_tables_with_memory_are_torchs_to_the_character(without_stack: Pair) -> None:
    ours, theirs = without_stack.ours, without_stack.theirs
    for options in ({}, {"sort_by": "count"}, {"row_limit": 3}):
        lines = zip(
            ours.key_averages().table(**options).split("\n"),
            theirs.key_averages().table(**options).split("\n"),
            strict=True,
        )
        for mine, other in lines:
            assert_same_line(mine, other)
    assert "[memory]" in ours.key_averages().table(row_limit=-1)


@pytest.mark.parametrize("sort_by", ["cpu_memory_usage", "self_cpu_memory_usage"])
def test_tables_sorted_by_memory_are_torchs(without_stack: Pair, sort_by: str) -> None:
    lines = zip(
        without_stack.ours.key_averages().table(sort_by).split("\n"),
        without_stack.theirs.key_averages().table(sort_by).split("\n"),
        strict=True,
    )
    for mine, other in lines:
        assert_same_line(mine, other)
