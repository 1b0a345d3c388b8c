"""Sums by group and along a tree of slices: linear passes in native code, exact to the unit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope import _native
from stepscope.trace.model import Bool, Int32, Int64

_PLACES = (np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.uint32))


def summed(group: NDArray[Any], values: NDArray[Any], groups: int) -> Int64:
    """Return the sum of the values of each group, not through floating point; -1 is no group."""
    place = group if group.dtype in _PLACES else group.astype(np.int64)
    return _native.summed_at(place, np.asarray(values, np.int64), groups)


def with_children(parent: Int32, own: Int64) -> Int64:
    """Add to each row's own value those of all rows in it; they stand behind it."""
    return _native.summed_up(parent, own) if own.any() else own


def nearest(parent: Int32, marked: Bool) -> Int32:
    """Return for every row itself or the nearest marked one around it, -1 without."""
    own = np.where(marked, np.arange(len(marked), dtype=np.int32), np.int32(-1))
    return _native.handed_down(parent, own)


def around(parent: Int32, rows: Int64 | Int32, wanted: Bool, *, itself: bool = False) -> Int64:
    """Return the nearest wanted row around each of some rows, -1 without and for -1.

    With ``itself``, a row that is wanted is its own.
    """
    found = np.append(nearest(parent, wanted), np.int32(-1))  # the last for no row
    return found[rows if itself else np.append(parent, np.int32(-1))[rows]].astype(np.int64)


def inside(parent: Int32, marked: Bool) -> Bool:
    """Tell which rows lie in a marked one, at any depth."""
    found: Bool = np.append(nearest(parent, marked), np.int32(-1))[parent] != -1
    return found
