"""The same program recorded by torch.profiler and by us at once: the same story."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch.profiler import record_function as torch_range

from stepscope import profile
from torch_steps import MODELS, training_step

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

STEPS = 15
CLOCKS_APART_NS = 50_000


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


def test_times_interleave(recorded: Recorded) -> None:
    """However busy the machine is: between two readings of one recorder lies one of the other.

    Both observers run on the thread that they observe, one after the other at every begin and end.
    So neither can be a whole reading ahead, but for what mapping the two clocks to each other may
    be off. How close the times are is for ``benchmarks/equal_times.py``.
    """
    slices, raw = recorded.trace.slices, recorded.raw
    threads = np.array([event.start_thread_id() for event in raw])
    start_ns = np.array([event.start_ns() for event in raw])
    end_ns = np.array([event.end_ns() for event in raw])
    between_clocks_ns = int(np.median(start_ns - slices.start_ns))
    for thread in np.unique(threads):
        rows = threads == thread
        theirs = np.sort(np.concatenate((start_ns[rows], end_ns[rows]))) - between_clocks_ns
        ours = np.sort(np.concatenate((slices.start_ns[rows], slices.end_ns[rows])))
        assert (theirs[:-1] <= ours[1:] + CLOCKS_APART_NS).all()
        assert (ours[:-1] <= theirs[1:] + CLOCKS_APART_NS).all()
