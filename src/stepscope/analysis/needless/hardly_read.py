"""Operators that make much more than is ever read."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.landmarks import Names, landmarks
from stepscope.analysis.needless.uses import NO_MAKER, ValueUses
from stepscope.trace.model import Bool, Float64, Trace

MIN_BYTES = 1 << 14  # smaller results cost no more than their operator's call


def read_shares(trace: Trace, uses: ValueUses) -> Float64:
    """Return which share of its results is needed by each operator, as far as it is known.

    It is 1 where something else may have read them: code that torch does not see, or operators
    after the last use that was recorded. What a reader reads in vain does not count, if it computes
    row by row.
    """
    marks = landmarks()
    is_by_rows = uses.of_names(trace, with_in_place(marks.row_by_row))
    is_gather = uses.of_names(trace, marks.gathers)
    made_bytes = uses.sums(uses.writes).astype(np.float64)
    is_open = _is_open(uses)
    read_bytes = np.zeros(len(uses))
    share = np.ones(len(uses))
    edges = np.flatnonzero(uses.reads & (uses.maker != NO_MAKER))
    sizes = uses.size[edges].astype(np.float64)
    first = is_gather[uses.operator[edges]] & (uses.position[edges] == 0)
    sizes[first] = np.minimum(sizes[first], made_bytes[uses.operator[edges[first]]])
    readers, makers = uses.operator[edges].tolist(), uses.maker[edges].tolist()
    positions = uses.position[edges].tolist()
    last = len(uses)
    for i in range(len(edges) - 1, -1, -1):
        reader = readers[i]
        while last > reader:  # all that read the result of a later operator are done
            last -= 1
            if made_bytes[last] >= MIN_BYTES and not is_open[last]:
                share[last] = min(read_bytes[last] / made_bytes[last], 1.0)
        is_part = is_by_rows[reader] and positions[i] == 0
        read_bytes[makers[i]] += sizes[i] * (share[reader] if is_part else 1.0)
    for operator in range(last):
        if made_bytes[operator] >= MIN_BYTES and not is_open[operator]:
            share[operator] = min(read_bytes[operator] / made_bytes[operator], 1.0)
    return share


def with_in_place(names: Names) -> Names:
    """Return names of operators, and of those that write their result over their first input."""
    return names | {f"{name}_" for name in names}


def _is_open(uses: ValueUses) -> Bool:
    """Tell whose results may have been read by others, or were changed in part later."""
    makes, changes = np.flatnonzero(uses.makes), np.flatnonzero(uses.changes)
    order = makes[np.argsort(uses.storage[makes], kind="stable")]
    stored = uses.storage[order]
    at = np.minimum(np.searchsorted(stored, uses.storage[changes]), max(len(order) - 1, 0))
    whole = np.zeros(len(changes), np.bool_)
    if len(order):
        whole = (stored[at] == uses.storage[changes]) & (uses.size[order[at]] == uses.size[changes])
    is_ours = np.isin(uses.storage, uses.released) & ~np.isin(uses.storage, uses.escaped)
    is_ours &= ~np.isin(uses.storage, uses.storage[changes[~whole]])
    is_open: Bool = (uses.counts(uses.writes & ~is_ours) > 0) | (uses.counts(uses.writes) == 0)
    return is_open
