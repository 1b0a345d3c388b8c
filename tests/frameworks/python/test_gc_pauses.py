"""Pauses for Python's garbage collector are ranges of the recording."""

from __future__ import annotations

import gc

from recording import trace_of
from stepscope import record_function
from stepscope.frameworks.python.gc_pauses import GcPauses
from stepscope.record.recorder import Recorder
from stepscope.record.session import Session
from stepscope.trace.model import SliceKind, Trace
from stepscope.trace.names import COLLECTION


def recorded(source: GcPauses) -> Trace:
    session = Session(Recorder([source]))
    session.start()
    with record_function("outer"):
        for generation in range(3):
            gc.collect(generation)
    session.stop()
    return trace_of(session)


def generations(trace: Trace) -> list[int]:
    """Return those of the pauses."""
    rows = [row for row, name in enumerate(trace.names()) if name == COLLECTION]
    return [trace.slices.args.of_row(row, trace.strings)["Generation"] for row in rows]


def test_a_pause_is_a_range_that_says_its_generation_and_the_youngest_is_none() -> None:
    trace = recorded(GcPauses(min_pause_ns=1))
    assert generations(trace) == [1, 2]
    row = next(row for row, name in enumerate(trace.names()) if name == COLLECTION)
    assert trace.slices.kind[row] == SliceKind.RANGE
    assert trace.name_of(int(trace.slices.parent[row])) == "outer"


def test_short_collections_are_no_pauses() -> None:
    an_hour_ns = 3_600 * 10**9
    assert generations(recorded(GcPauses(min_pause_ns=an_hour_ns))) == []


def test_a_source_starts_anew_each_time() -> None:
    source = GcPauses(min_pause_ns=1)
    assert generations(recorded(source)) == generations(recorded(source)) == [1, 2]


def test_python_is_left_as_it_was() -> None:
    before = list(gc.callbacks)
    source = GcPauses()
    source.start()
    source.start()  # again: nothing happens twice
    assert len(gc.callbacks) == len(before) + 1
    source.stop()
    source.stop()
    assert gc.callbacks == before


def test_a_collection_under_way_when_recording_starts_is_not_kept() -> None:
    source = GcPauses(min_pause_ns=1)
    source.callback("stop", {"generation": 2})
    assert source.collect() is None
