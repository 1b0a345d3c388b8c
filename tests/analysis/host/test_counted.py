"""Totals that add up: a moment of a thread counts once for a name, and only in the window asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from made_trace import Bytes, Call, trace_of_calls
from stepscope.analysis.base.intervals import union
from stepscope.analysis.base.tree import call_tree
from stepscope.analysis.host.averages import averages, grouped, single_events
from stepscope.analysis.host.counted import counted_columns, self_within
from stepscope.analysis.memory.by_event import with_memory

if TYPE_CHECKING:
    from stepscope.analysis.base.intervals import Intervals
    from stepscope.analysis.host.averages import Averages
    from stepscope.trace.model import Trace


def counted(trace: Trace, within: Intervals | None = None) -> Averages:
    tree = with_memory(call_tree(trace))
    item = single_events(tree)
    columns: dict[str, Any] = dict(counted_columns(item, tree, within))
    return grouped(replace(item, **columns))


def totals(rows: Averages, column: str = "cpu_ns") -> dict[str, int]:
    values = getattr(rows, column).tolist()
    return {rows.key[row]: value // 1000 for row, value in enumerate(values)}


RECURSION = (
    Call("outer", 0, 100),
    Call("f", 10, 90, "python_function"),
    Call("g", 15, 80, "python_function"),
    Call("f", 20, 70, "python_function"),
    Call("f", 30, 60, "python_function"),
    Call("f", 200, 250, "python_function"),
)


def test_a_call_inside_one_of_its_own_name_adds_nothing() -> None:
    trace = trace_of_calls(RECURSION)
    assert totals(counted(trace)) == {"outer": 100, "f": 80 + 50, "g": 65}
    # What torch.profiler promises stays: every call adds its time, but an only child's of its name.
    assert totals(averages(trace)) == {"outer": 100, "f": 80 + 50 + 50, "g": 65}


def test_self_times_and_counts_are_as_they_were() -> None:
    trace = trace_of_calls(RECURSION)
    one, other = counted(trace), averages(trace)
    assert one.self_cpu_ns.tolist() == other.self_cpu_ns.tolist()
    assert one.count.tolist() == other.count.tolist()


def test_threads_count_for_themselves() -> None:
    trace = trace_of_calls([Call("f", 0, 100), Call("f", 20, 60, track=1)])
    assert totals(counted(trace)) == {"f": 140}


def test_calls_that_overlap_share_no_moment() -> None:
    trace = trace_of_calls([Call("f", 0, 50), Call("f", 30, 90)])  # as those of two tasks do
    assert totals(counted(trace)) == {"f": 90}


def test_nested_bytes_count_once() -> None:
    calls = [Call("f", 0, 100), Call("g", 5, 95), Call("f", 10, 90)]
    trace = trace_of_calls(calls, [Bytes(20, 512_000)])
    assert totals(counted(trace), "cpu_bytes") == {"f": 512, "g": 512}


def test_a_window_cuts_what_lies_outside_of_it() -> None:
    trace = trace_of_calls(RECURSION)
    window = union(np.array([40_000, 210_000]), np.array([75_000, 220_000]))
    rows = counted(trace, window)
    assert totals(rows) == {"outer": 35, "f": 35 + 10, "g": 35}
    # At 40 to 60 the innermost f runs, then the middle one, then g from 70 on.
    assert totals(rows, "self_cpu_ns") == {"outer": 0, "f": 30 + 10, "g": 5}


def test_own_times_within_all_the_time_are_all_own_times() -> None:
    generator = np.random.default_rng(3)
    calls = []
    for start in range(0, 3_000, 100):
        length = int(generator.integers(20, 100))
        calls.append(Call("a", start, start + length))
        calls.append(Call("b", start + 2, start + 2 + length // 2))
    tree = call_tree(trace_of_calls(calls))
    everything = union(np.array([0]), np.array([10_000_000]))
    assert self_within(tree, everything).tolist() == tree.self_ns.tolist()


def test_some_events_can_be_taken() -> None:
    tree = call_tree(trace_of_calls(RECURSION))
    item = single_events(tree).take(np.array([1, 2]))
    assert list(item.key) == ["f", "g"]
    assert item.cpu_ns.tolist() == [80_000, 65_000]


def test_nothing_is_no_trouble() -> None:
    assert len(counted(trace_of_calls([]))) == 0
