"""Sums and searches along a tree of slices."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.sums import around, inside

PARENT = np.array([-1, 0, 1, 0, -1, 4], np.int32)
WANTED = np.array([True, False, True, False, False, True])
ROWS = np.array([2, 1, 0, 5, -1], np.int64)


def test_the_nearest_wanted_row_around_others() -> None:
    assert around(PARENT, ROWS, WANTED).tolist() == [0, 0, -1, -1, -1]
    assert around(PARENT, ROWS, WANTED, itself=True).tolist() == [2, 0, 0, 5, -1]
    assert inside(PARENT, WANTED).tolist() == [False, True, True, True, False, False]


def test_no_row_is_in_none_of_no_rows() -> None:
    nothing = np.zeros(0, np.int32)
    assert around(nothing, np.array([-1]), nothing > 0, itself=True).tolist() == [-1]
