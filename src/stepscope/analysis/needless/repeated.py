"""Operators that compute what was computed before, of the same values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.needless.uses import NO_MAKER, ValueUses
from stepscope.trace.model import Bool, Int64


@dataclass(frozen=True, slots=True)
class Repeated:
    """Operators, by number, whose results could have been kept, and what that takes."""

    needless: Bool  # the result is used for something new
    idle: Bool  # the result is only looked at, as in a benchmark of one batch
    kept_bytes: int  # of the results to keep


def repeated(uses: ValueUses) -> Repeated:
    """Return the repeated operators.

    A result that is changed later in a new way cannot be kept: whoever changes it reads it.
    """
    is_repeat = _repeats(uses)
    makes_something = uses.counts(uses.writes) > 0
    edges = np.flatnonzero((uses.maker != NO_MAKER) & is_repeat[uses.maker])
    edges = edges[uses.maker[edges] != uses.operator[edges]]
    can_keep, is_useful = is_repeat.copy(), np.zeros(len(uses), np.bool_)
    changes = uses.changes
    size_of: dict[int, int] = {}  # by value, of what must be remembered
    # The readers of a result have higher numbers than its maker.
    for edge in edges[::-1].tolist():
        reader, maker = uses.operator[edge], uses.maker[edge]
        if changes[edge] and not can_keep[reader]:
            can_keep[maker] = False
        if can_keep[reader]:
            is_useful[maker] |= is_useful[reader]
        elif makes_something[reader]:
            is_useful[maker] = True
            if not changes[edge]:
                size_of[int(uses.value[edge])] = int(uses.size[edge])
    needless = can_keep & is_useful
    return Repeated(needless, can_keep & ~is_useful, sum(size_of.values()))


def _repeats(uses: ValueUses) -> Bool:
    """Return which operators are repeats: they made only values that had been made before."""
    writes = np.flatnonzero(uses.writes)
    _, first = np.unique(uses.value[writes], return_index=True)
    is_new = np.ones(len(writes), np.bool_)
    is_new[:] = False
    is_new[first] = True
    new = np.bincount(uses.operator[writes[is_new]], minlength=len(uses))
    repeats: Bool = (uses.counts(uses.writes) > 0) & (new == 0)
    return repeats


def times_computed(uses: ValueUses, needless: Bool) -> float:
    """Return how often each value that some operators computed was computed, on average."""
    writes = uses.writes
    distinct = np.unique(uses.value[writes & needless[uses.operator]])
    again = np.isin(uses.value[writes], distinct)
    count: Int64 = np.unique(uses.value[writes][again], return_counts=True)[1]
    return float(count.mean()) if len(count) else 0.0
