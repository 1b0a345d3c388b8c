"""Ranges that outlive their call: they must not contain what follows it on the thread.

A torch collective is a range from its call to the end of its work, on the thread of the call:
``c10d::allreduce_`` ends, ``gloo:all_reduce`` continues over the next operators. By time alone it
would be the parent of all of them. A file does not mark such ranges, but slices of a thread nest:
of two that cross, one went on elsewhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stepscope import _native
from stepscope.trace.kinds import SliceFlags, SliceKind
from stepscope.trace.names import BACKEND_COLLECTIVE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.trace.schema import Slices
    from stepscope.trace.strings import Strings
    from stepscope.trace.table import Bool, UInt8

    Rows = NDArray[np.uint32]
    Nesting = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], int, tuple[Rows, Rows]]

ROUNDING_NS = 2_000
"""A file in whole µs may show a call that ends this much after its parent."""

MOST_OWN_OPERATORS = 16
"""A collective copies and casts its tensors; one with more operators inside has gone on."""

# The calls that begin or end a range always cross it.
_BEGIN_OR_END = re.compile(r"_record_function_e(nter|xit)|__(enter|exit)__")
_CALLS = (SliceKind.OPERATOR, SliceKind.RUNTIME)
_ON_THREADS = (*_CALLS, SliceKind.RANGE, SliceKind.STEP, SliceKind.MODULE, SliceKind.PYTHON)
_GOES_ON = (SliceKind.RANGE, SliceKind.STEP, SliceKind.MODULE, SliceKind.PYTHON)


def nested(slices: Slices, kind: UInt8, flags: UInt8, strings: Strings) -> tuple[Nesting, UInt8]:
    """Nest slices; return that, and the flags with ASYNC for ranges that outlive their parent.

    Each round removes ranges that cross others, which may uncover more of them.
    """
    collective = _has_name(slices, strings, BACKEND_COLLECTIVE)
    collective &= (kind == SliceKind.RANGE) | (kind == SliceKind.OPERATOR)
    while True:
        nesting = _native.nest(
            slices.start_ns, slices.duration_ns, slices.track, flags, slices.context
        )
        gone = np.zeros(0, np.int64)
        if nesting[3]:
            calls_alone = ~_has_name(slices, strings, _BEGIN_OR_END)
            gone = _crossing(slices, kind, collective, calls_alone, nesting[4])
        if collective.any():
            gone = np.union1d(gone, _holding_others(kind, flags, collective, nesting[0]))
        gone = gone[flags[gone] & SliceFlags.ASYNC == 0]
        if not len(gone):
            return nesting, flags
        flags = flags.copy()
        flags[gone] |= np.uint8(SliceFlags.ASYNC)


def _has_name(slices: Slices, strings: Strings, pattern: re.Pattern[str]) -> Bool:
    """Return which slices have a matching name."""
    table = np.zeros(len(strings), np.bool_)
    for name in _native.present(slices.name).tolist():
        table[name] = pattern.search(strings[name]) is not None
    is_named: Bool = table[slices.name] if table.any() else np.zeros(len(slices), np.bool_)
    return is_named


def _crossing(
    slices: Slices, kind: UInt8, collective: Bool, alone: Bool, pairs: tuple[Rows, Rows]
) -> NDArray[np.int64]:
    """Return the slice of each crossing pair that went on: a collective, or a range over a call.

    ``alone`` are the slices that begin or end no other. If neither of a pair is known to go on,
    both stay, and the later one is not nested in the earlier.
    """
    first, second = (rows.astype(np.int64) for rows in pairs)
    apart = slices.ends_of(second) - slices.ends_of(first) > ROUNDING_NS
    first, second = first[apart], second[apart]
    on_thread = np.isin(kind, _ON_THREADS) & alone & ~collective
    is_range, is_call = kind == SliceKind.RANGE, np.isin(kind, _CALLS) & on_thread

    def goes_on(rows: NDArray[np.int64], others: NDArray[np.int64]) -> Bool:
        result: Bool = collective[rows] & on_thread[others]
        over_call: Bool = is_range[rows] & is_call[others]
        return result | over_call

    crossing = [first[goes_on(first, second)], second[goes_on(second, first)]]
    return np.unique(np.concatenate(crossing))


def _holding_others(
    kind: UInt8, flags: UInt8, collective: Bool, parent: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return the collectives that contain other work than collectives can."""
    rows = np.where(collective, np.arange(len(kind), dtype=np.int32), np.int32(-1))
    holder = np.append(_native.handed_down(parent, rows), np.int32(-1))[parent]
    inside = np.flatnonzero(holder >= 0)
    others = inside[np.isin(kind[inside], _GOES_ON) & ~collective[inside]]
    operators = inside[kind[inside] == SliceKind.OPERATOR]
    count = _native.summed_at(holder[operators], np.ones(len(operators), np.int64), len(kind))
    holders = np.union1d(holder[others], np.flatnonzero(count > MOST_OWN_OPERATORS))
    still: Bool = flags[holders] & SliceFlags.ASYNC == 0
    return holders[still].astype(np.int64)
