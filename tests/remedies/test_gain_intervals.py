"""Intervals cover what is true, and say nothing where little was seen."""

from __future__ import annotations

import math
import random

import pytest

from stepscope.remedies.intervals import gain, steady_from


def test_a_program_twice_as_fast() -> None:
    before = [2.0, 2.2, 1.9, 2.1, 2.0, 2.3, 1.8, 2.0]
    shown = gain(before, [x / 2 for x in before])
    assert shown.ratio == pytest.approx(2.0)
    assert shown.low == pytest.approx(2.0)
    assert shown.high == pytest.approx(2.0)


def test_two_windows_in_which_another_program_ran_change_little() -> None:
    before, after = [1.0] * 20, [0.5] * 20
    after[3], before[11] = 9.0, 8.0
    shown = gain(before, after)
    assert shown.ratio == pytest.approx(2.0)
    assert shown.low > 1.9
    assert shown.high < 2.1


@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_few_windows_exclude_nothing(count: int) -> None:
    shown = gain([2.0] * count, [1.0] * count)
    assert (shown.low, shown.high) == (0.0, math.inf)
    assert shown.to_json()["high"] is None


def test_the_interval_of_equal_programs_excludes_1_as_often_as_it_says() -> None:
    draw = random.Random(0)
    misses = 0
    for _ in range(500):
        before = [draw.lognormvariate(0, 0.3) for _ in range(16)]
        after = [draw.lognormvariate(0, 0.3) for _ in range(16)]
        shown = gain(before, after)
        misses += not shown.low <= 1.0 <= shown.high
    assert misses <= 40  # 25 are expected


def test_slow_first_windows_are_warm_up() -> None:
    before = [1.0] * 20
    after = [3.0, 2.0, 1.5] + [0.5] * 17
    assert steady_from(before, after) == 3
    assert steady_from(before, [1.0, 1.01, 0.99, 1.0] * 5) == 0
