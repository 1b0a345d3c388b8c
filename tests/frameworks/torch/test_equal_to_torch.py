"""The same program recorded by torch.profiler and by us at once: the same story.

Times: torch calls its observers one after the other, in the same order at an operator's begin and
at its end. Both recorders thus see the same stretch, shifted by the other's cost, and both times
hold the costs of both for every operator inside. So durations are compared, call by call, and not
self times, in which those costs would fall apart.
"""

from __future__ import annotations

from collections import Counter
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch
from torch.profiler import record_function as torch_range

from stepscope import profile
from torch_steps import MODELS, training_step

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

STEPS = 15


class Recorded:
    """Training steps seen by both; ``ours`` and ``theirs`` are the events, row by row."""

    def __init__(self, model_name: str) -> None:
        step = training_step(model_name)
        with profile():  # what is done once in a process is done before
            step()
        theirs = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        with theirs, profile() as ours:
            for _ in range(STEPS):
                with torch_range("step"):
                    step()
        self.trace: Trace = ours.trace
        self.raw = [
            event
            for event in theirs.profiler.kineto_results.events()
            if not event.is_hidden_event()
        ]
        self.raw.sort(key=lambda event: (event.start_ns(), -event.end_ns()))
        self.events = theirs.events()
        self.our_events = ours.events()


@pytest.fixture(scope="module", params=MODELS)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    return Recorded(request.param)


def stack_chains(events: list[Any]) -> list[tuple[str, ...]]:
    """Return the names from each event up, found by time alone; one thread, in order."""
    chains: list[tuple[str, ...]] = []
    open_events: list[tuple[int, tuple[str, ...]]] = []
    for event in events:
        while open_events and open_events[-1][0] <= event.start_ns():
            open_events.pop()
        chain = (event.name(), *(open_events[-1][1] if open_events else ()))
        open_events.append((event.end_ns(), chain))
        chains.append(chain)
    return chains


def our_chains(trace: Trace) -> list[tuple[str, ...]]:
    chains: list[tuple[str, ...]] = []
    for name, parent in zip(trace.names(), trace.slices.parent.tolist(), strict=True):
        chains.append((name, *(chains[parent] if parent >= 0 else ())))
    return chains


def test_the_same_names_as_often(recorded: Recorded) -> None:
    assert Counter(recorded.trace.names()) == Counter(event.name() for event in recorded.raw)
    assert len(recorded.trace) > 50 * STEPS


def test_the_same_order_and_nesting(recorded: Recorded) -> None:
    assert our_chains(recorded.trace) == stack_chains(recorded.raw)


def test_the_same_user_annotations(recorded: Recorded) -> None:
    ours = [e.name for e in recorded.our_events if e.is_user_annotation]
    theirs = [e.name for e in recorded.events if e.is_user_annotation]
    assert ours == theirs
    assert ours.count("forward") == STEPS


def test_the_same_events_and_children(recorded: Recorded) -> None:
    """Through the results' API, with its folding and hiding."""
    assert len(recorded.our_events) == len(recorded.events)
    for mine, other in zip(recorded.our_events, recorded.events, strict=True):
        assert mine.name == other.name
        assert [child.name for child in mine.cpu_children] == [
            child.name for child in other.cpu_children
        ]


def test_the_same_ties_from_backward_to_forward(recorded: Recorded) -> None:
    slices = recorded.trace.slices
    assert slices.sequence.tolist() == [event.sequence_nr() for event in recorded.raw]
    assert slices.forward_thread.tolist() == [event.fwd_thread_id() or -1 for event in recorded.raw]
    tracks = recorded.trace.tracks
    assert [tracks[i].logical_id for i in slices.track] == [
        event.start_thread_id() for event in recorded.raw
    ]


def test_the_same_averages(recorded: Recorded) -> None:
    ours, theirs = recorded.our_events.key_averages(), recorded.events.key_averages()
    assert [(a.key, a.count) for a in ours] == [(a.key, a.count) for a in theirs]


def test_the_same_times(recorded: Recorded) -> None:
    """Call by call: 5 % or 2 µs apart at most, in the quieter calls of each name.

    A bias between the two recorders would be in every call; what a busy machine adds is not.
    """
    pairs: dict[str, list[tuple[int, int]]] = {}
    durations = recorded.trace.slices.duration_ns.tolist()
    for name, mine_ns, other in zip(recorded.trace.names(), durations, recorded.raw, strict=True):
        pairs.setdefault(name, []).append((mine_ns, other.duration_ns()))
    apart = {}
    for name, times in pairs.items():
        quieter, _, _ = quantiles((abs(mine - other) for mine, other in times), n=4)
        if quieter > max(0.05 * median(other for _, other in times), 2_000):
            apart[name] = times
    assert apart == {}


def test_nearly_every_single_time_is_the_same(recorded: Recorded) -> None:
    """The rest are calls between whose two readings of the clock something else ran."""
    durations = recorded.trace.slices.duration_ns.tolist()
    close = [
        abs(mine_ns - other.duration_ns()) <= max(0.05 * other.duration_ns(), 2_000)
        for mine_ns, other in zip(durations, recorded.raw, strict=True)
    ]
    assert sum(close) / len(close) > 0.9
