"""Unions of intervals: what busy time, overlaps and gaps are made of."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analysis.base.intervals import Intervals, union

Pairs = list[tuple[int, int]]

pairs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


def of(some: Pairs) -> Intervals:
    starts, ends = np.array(some, np.int64).reshape(-1, 2).T
    return union(starts, ends)


def moments(some: Pairs) -> set[int]:
    """Return every ns that one of the intervals covers."""
    return {at for start, end in some for at in range(start, end)}


def covered(intervals: Intervals) -> set[int]:
    return moments(list(zip(intervals.start_ns.tolist(), intervals.end_ns.tolist(), strict=True)))


def test_what_overlaps_or_touches_is_one_and_counts_once() -> None:
    result = of([(10, 20), (15, 30), (30, 31), (40, 50), (42, 44), (7, 7)])
    assert result.start_ns.tolist() == [10, 40]
    assert result.end_ns.tolist() == [31, 50]
    assert result.total_ns == 31


@given(pairs)
def test_a_union_covers_each_moment_and_is_apart(some: Pairs) -> None:
    result = of(some)
    assert covered(result) == moments(some)
    assert result.total_ns == len(moments(some))
    assert (result.start_ns[1:] > result.end_ns[:-1]).all()


@given(pairs, pairs)
def test_what_two_unions_share(one: Pairs, other: Pairs) -> None:
    result = of(one).shared_with(of(other))
    assert covered(result) == moments(one) & moments(other)
    assert (result.start_ns < result.end_ns).all()


@given(pairs, st.integers(0, 60), st.integers(0, 60))
def test_gaps_and_cover_of_a_window(some: Pairs, one: int, other: int) -> None:
    first, last = sorted((one, other))
    window = set(range(first, last))
    result = of(some)
    assert covered(result.gaps(first, last)) == window - moments(some)
    part = result.covered(np.array([first]), np.array([last]))
    assert part.tolist() == [len(window & moments(some))]


@given(pairs, st.integers(-1, 61))
def test_a_moment_lies_in_a_stretch_or_not(some: Pairs, at: int) -> None:
    assert of(some).contain(np.array([at])).tolist() == [at in moments(some)]
