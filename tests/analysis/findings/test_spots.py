"""The line to look at: where most of some moments are spent, and who called it."""

from __future__ import annotations

import numpy as np

from made_trace import Sample, trace_of_calls
from stepscope.analysis.findings.spots import Spot, hot_spot
from stepscope.analysis.steps.ledger import ledger

LOOP = "train.py(20): <module>"


def spot_of(*stacks: tuple[int, tuple[str, ...]]) -> Spot:
    """Return the spot of stacks that take some ms each."""
    samples, at = [], 0
    for ms, stack in stacks:
        samples.append(Sample(at, at + ms * 1000, stack))
        at += ms * 1000
    trace = trace_of_calls([], samples=samples, end_ns=at * 1000, pid=20)
    rows_of_ledger = ledger(trace)
    spot = hot_spot(rows_of_ledger, np.ones(len(rows_of_ledger), np.bool_))
    assert spot is not None
    return spot


def test_the_line_inside_the_function_that_the_loop_calls() -> None:
    spot = spot_of(
        (80, ("train.py(5): prepare", LOOP)),
        (10, ("train.py(6): prepare", LOOP)),
        (10, ("train.py(21): <module>",)),
    )
    assert spot.words == "prepare (train.py:5)"
    assert [place.line for place in spot.places] == [5, 20]
    assert spot.called_from == ", called from train.py:20"
    assert spot.each_ns == 90e6  # without the function, none of its lines costs anything


def test_a_function_whose_work_is_all_over_it_counts_as_a_whole() -> None:
    lines = [(20, (f"train.py({line}): prepare", LOOP)) for line in range(5, 10)]
    spot = spot_of(*lines, (20, ("train.py(30): <module>",)))
    assert spot.place.function == "prepare"
    assert spot.each_ns == 100e6


def test_of_the_function_that_holds_the_loop_only_the_line_counts() -> None:
    lines = [(20 + line, (f"train.py({line}): main", LOOP)) for line in range(5)]
    spot = spot_of(*lines)
    assert (spot.words, spot.each_ns) == ("main (train.py:4)", 24e6)


def test_a_line_that_calls_several_functions_is_named_itself() -> None:
    callees = [(25, (f"train.py({line}): f{line}", LOOP)) for line in range(1, 5)]
    spot = spot_of(*callees)
    assert (spot.place.line, spot.each_ns) == (20, 100e6)


def test_libraries_are_part_of_the_line_that_calls_them() -> None:
    spot = spot_of((90, ("numpy/linalg.py(5): svd", "train.py(5): prepare", LOOP)), (10, (LOOP,)))
    assert spot.words == "prepare (train.py:5)"


def test_a_function_that_several_lines_call_is_named_itself() -> None:
    """And who calls it counts as a whole: without the function it would cost nothing."""
    callers = [("train.py(5): walk", LOOP), ("train.py(9): walk", LOOP)]
    spot = spot_of(
        (45, ("maze.py(3): distance", *callers[0])),
        (40, ("maze.py(3): distance", *callers[1])),
        (15, ("train.py(21): <module>",)),
    )
    assert spot.words == "distance (maze.py:3)"
    assert spot.each_ns == 85e6
