"""torch's own collector as the source: the same Trace as through the bridge."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from recording import chain_of, parents
from stepscope import (
    MemoryLimit,
    StepscopeError,
    TorchCollector,
    profile,
    record_function,
    schedule,
)
from torch_steps import MODELS

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

one = torch.ones(1)


def kineto_profile(**options: object) -> profile:
    return profile(torch_collector=TorchCollector.KINETO, **options)  # type: ignore[arg-type]


def training_step(model_name: str, collector: TorchCollector) -> Trace:
    torch.manual_seed(0)
    model, data = MODELS[model_name]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        with record_function("ours"):
            loss = model(data).sum()
        with torch.profiler.record_function("torch's"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with profile(torch_collector=collector) as profiler:
        step()
    return profiler.trace


@pytest.fixture(scope="module", params=MODELS)
def both(request: pytest.FixtureRequest) -> tuple[Trace, Trace]:
    return (
        training_step(request.param, TorchCollector.BRIDGE),
        training_step(request.param, TorchCollector.KINETO),
    )


def test_the_same_slices_in_the_same_order_and_nesting(both: tuple[Trace, Trace]) -> None:
    bridge, kineto = both
    assert parents(kineto) == parents(bridge)
    assert kineto.slices.depth.tolist() == bridge.slices.depth.tolist()


@pytest.mark.parametrize("column", ["kind", "flags", "step"])
def test_the_same_columns(both: tuple[Trace, Trace], column: str) -> None:
    bridge, kineto = (getattr(trace.slices, column).tolist() for trace in both)
    assert kineto == bridge


@pytest.mark.parametrize("column", ["category", "overload"])
def test_the_same_words(both: tuple[Trace, Trace], column: str) -> None:
    bridge, kineto = (
        [trace.strings[int(i)] for i in getattr(trace.slices, column)] for trace in both
    )
    assert kineto == bridge


def test_the_same_ties_from_backward_to_forward(both: tuple[Trace, Trace]) -> None:
    """Sequence numbers go on through the life of a process: compared from the first on."""
    ties = []
    for trace in both:
        sequence = trace.slices.sequence.copy()
        has_one = sequence >= 0
        sequence[has_one] -= sequence[has_one].min()
        ties.append((sequence.tolist(), trace.slices.forward_thread.tolist()))
    assert ties[0] == ties[1]


def test_the_same_threads(both: tuple[Trace, Trace]) -> None:
    bridge, kineto = both
    assert kineto.tracks == bridge.tracks


def test_ranges_of_ours_enclose_its_operators() -> None:
    with kineto_profile() as profiler, record_function("outer"):
        one.neg()
        with record_function("inner"):
            one.sign()
    assert parents(profiler.trace) == [
        ("outer", None), ("aten::neg", "outer"), ("inner", "outer"), ("aten::sign", "inner"),
    ]  # fmt: skip


def test_its_clock_is_ours() -> None:
    """Every operator lies in the range around it, on either clock."""
    with kineto_profile() as profiler:
        for _ in range(200):
            with record_function("range"):
                one.neg()
    trace = profiler.trace
    chains = Counter(chain_of(trace, row) for row in range(len(trace)))
    assert chains == {("range",): 200, ("aten::neg", "range"): 200}
    assert (np.diff(trace.slices.start_ns) >= 0).all()


def test_without_a_range_its_thread_has_a_name_too() -> None:
    with kineto_profile() as profiler:
        one.neg()
    (track,) = profiler.trace.tracks
    assert (track.thread_name, track.process_name) == ("MainThread", "python")


def test_it_says_what_it_is_and_why() -> None:
    with kineto_profile() as profiler:
        one.neg()
    description = profiler.trace.info.sources["torch"]
    assert "torch's own collector" in description
    assert "it was requested" in description


def test_a_schedule_drives_it() -> None:
    seen = []
    with kineto_profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda p: seen.append(
            (p.step_num, [e.name for e in p.events()].count("aten::neg"))
        ),
    ) as profiler:
        for _ in range(9):
            one.neg()
            profiler.step()
    assert seen == [(4, 2), (8, 2)]


def test_leaving_during_warmup_leaves_torchs_collector_free() -> None:
    with kineto_profile(schedule=schedule(wait=0, warmup=2, active=1)) as profiler:
        one.neg()
        profiler.step()
    assert len(profiler.events()) == 0
    with torch.profiler.profile() as theirs:
        one.neg()
    assert len(theirs.events()) == 1


def test_where_torchs_profiler_is_active_it_says_so() -> None:
    with torch.profiler.profile() as theirs:
        profiler = kineto_profile()
        with pytest.raises(StepscopeError, match=r"torch\.profiler is active"):
            profiler.start()
        one.neg()
    assert [e.name for e in theirs.events()] == ["aten::neg"]
    with profiler:
        one.sign()
    assert [e.name for e in profiler.events()] == ["aten::sign"]


def test_two_of_them_at_once_are_refused_clearly() -> None:
    with kineto_profile() as first:
        with pytest.raises(StepscopeError, match="one user at a time"):
            kineto_profile().start()
        one.neg()
    assert [e.name for e in first.events()] == ["aten::neg"]


def test_a_second_one_on_another_thread_is_refused_too() -> None:
    refused: list[str] = []

    def second() -> None:
        try:
            kineto_profile().start()
        except StepscopeError as error:
            refused.append(str(error))

    with kineto_profile() as first:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        one.neg()
    assert len(refused) == 1, refused
    assert "another recording is active" in refused[0]
    assert [e.name for e in first.events()] == ["aten::neg"]
    with kineto_profile() as later:
        one.sign()
    assert [e.name for e in later.events()] == ["aten::sign"]


def test_the_bridge_works_beside_it() -> None:
    with kineto_profile(), profile(torch_collector=TorchCollector.BRIDGE) as ours:
        one.neg()
    assert [e.name for e in ours.events()] == ["aten::neg"]


def test_an_exception_inside_frees_torchs_collector() -> None:
    with pytest.raises(KeyError), kineto_profile() as profiler:
        one.neg()
        raise KeyError
    assert [e.name for e in profiler.events()] == ["aten::neg"]


def test_a_bound_on_memory_is_for_our_own_buffers() -> None:
    with kineto_profile(memory_limit=MemoryLimit(64 * 1024)) as profiler:
        for _ in range(100):
            one.neg()
    assert len(profiler.events()) == 100
