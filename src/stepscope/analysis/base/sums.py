"""Distinct values, sums by group, and sums along a tree of slices: linear passes, exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope import _native
from stepscope.trace.model import Bool, Int32, Int64

_NATIVE = (np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.uint32))
_ROOM = 4  # times the rows: a table that large is still cheaper than sorting


def summed(group: NDArray[Any], values: NDArray[Any], groups: int) -> Int64:
    """Return the exact sum of each group's values; -1 is no group."""
    place = group if group.dtype in _NATIVE else group.astype(np.int64)
    return _native.summed_at(place, np.asarray(values, np.int64), groups)


def weighted_mean(
    group: NDArray[Any], values: Int64, weight: Int64, groups: int, unknown: int = -1
) -> Int64:
    """Return the mean of each group's known values, weighted; ``unknown`` where there is none."""
    known_rows = np.flatnonzero(values != unknown)
    place, weight = group[known_rows], weight[known_rows]
    total = summed(place, weight, groups)
    weighted = summed(place, values[known_rows] * weight, groups)
    return np.where(total > 0, weighted // np.maximum(total, 1), unknown)


def with_children(parent: Int32, own: Int64) -> Int64:
    """Add the values of all rows inside each row, which follow it."""
    return _native.summed_up(parent, own) if own.any() else own


def nearest(parent: Int32, marked: Bool) -> Int32:
    """Return for every row the nearest marked row that is it or around it, -1 if none."""
    own = np.where(marked, np.arange(len(marked), dtype=np.int32), np.int32(-1))
    return _native.handed_down(parent, own)


def around(parent: Int32, rows: Int64 | Int32, wanted: Bool, *, itself: bool = False) -> Int64:
    """Return the nearest wanted row around each given row, -1 if none and for -1.

    With ``itself``, a row that is wanted is its own.
    """
    nearest_row = np.append(nearest(parent, wanted), np.int32(-1))  # the last for no row
    return nearest_row[rows if itself else np.append(parent, np.int32(-1))[rows]].astype(np.int64)


def inside(parent: Int32, marked: Bool) -> Bool:
    """Tell which rows lie in a marked one, at any depth."""
    is_inside: Bool = np.append(nearest(parent, marked), np.int32(-1))[parent] != -1
    return is_inside


def distinct(values: NDArray[Any]) -> tuple[NDArray[Any], Int64]:
    """Return the distinct integers, ascending, and each row's index among them."""
    if not len(values):
        return values[:0], np.zeros(0, np.int64)
    least, most = int(values.min()), int(values.max())
    if most - least > _ROOM * len(values) + 1024:
        present, codes = np.unique(values, return_inverse=True)
        return present, codes.astype(np.int64, copy=False)
    column = values if values.dtype in _NATIVE else values.astype(np.int64)
    present, codes = _native.distinct(column, least, most)
    return present.astype(values.dtype, copy=False), codes


def distinct_rows(columns: Sequence[NDArray[Any]]) -> tuple[Int64, Int64]:
    """Return the first row of each distinct set of values, the sets sorted, and each row's set."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, of_column = distinct(column)
        code = distinct(code * max(len(values), 1) + of_column)[1]
    first = np.zeros(int(code.max()) + 1 if len(code) else 0, np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    return first, code


def distinct_pairs(
    first: NDArray[Any], second: NDArray[Any]
) -> tuple[tuple[NDArray[Any], NDArray[Any]], Int64]:
    """Return the distinct pairs of two columns, sorted, and each row's index among them.

    ``numpy.unique`` on whole rows takes ten times as long.
    """
    firsts, first_code = distinct(first)
    seconds, second_code = distinct(second)
    codes, code = distinct(first_code * max(len(seconds), 1) + second_code)
    width = max(len(seconds), 1)
    return (firsts[codes // width], seconds[codes % width]), code
