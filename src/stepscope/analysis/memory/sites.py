"""Who asked for each block of memory: the operator, the module, the Python stack and line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.sums import around, distinct_pairs
from stepscope.analysis.base.tree import distinct_ids, ids_where
from stepscope.analysis.calls.module_calls import module_of_slices
from stepscope.analysis.code.own_lines import is_own_file, place_of
from stepscope.analysis.code.stacks import stack_of_slices
from stepscope.trace.kinds import CALL_KINDS
from stepscope.trace.model import NO_SLICE, NO_STACK, Int32, Int64, SliceKind, Stacks, Trace, UInt32
from stepscope.trace.strings import Strings

_NO_TEXT = 0


@dataclass(frozen=True, slots=True)
class Sites:
    """The distinct places that allocated memory, as ids of the trace's strings, 0 for none."""

    operator: UInt32  # string id
    module: UInt32  # string id: the module's name
    line: UInt32  # string id: the innermost frame in a file of the user's
    stack: UInt32  # row of ``stacks``
    stacks: Stacks  # the stacks in use, and their callers
    of_slice: Int64  # a row of this table for every requested slice, in order

    def __len__(self) -> int:
        return len(self.operator)


def sites_of(trace: Trace, rows: Int32, stated: UInt32 | None = None) -> Sites:
    """Return the place of each of some slices, NO_SLICE among them.

    ``stated`` are the stacks that the trace states for some rows, NO_STACK for the others.
    """
    slices, strings = trace.slices, trace.strings
    names = np.append(slices.name, np.uint32(_NO_TEXT))  # NO_SLICE picks the empty name
    operator = names[_asking(trace, rows)]
    modules = np.append(module_of_slices(trace), NO_SLICE)[rows]
    known_stacks = stack_of_slices(trace)
    table, stack = Stacks.empty(), np.zeros(len(rows), np.uint32)
    if known_stacks is not None:
        table, stack = known_stacks.table, np.append(known_stacks.rows, np.uint32(NO_STACK))[rows]
    if stated is not None and stated.any():
        table, stack = _with_stated(table, stack, trace.stacks, stated)
    table, stack = _in_use(table, stack)
    (operators, modules_of), pair = distinct_pairs(operator, names[modules])
    (pairs, stacks), of_slice = distinct_pairs(pair, stack)
    return Sites(
        operator=operators[pairs],
        module=modules_of[pairs],
        line=_own_frames(table, strings)[stacks],
        stack=stacks,
        stacks=table,
        of_slice=of_slice,
    )


def asker_of(trace: Trace, row: int) -> str:
    """Return the operator that allocated memory in a slice, "" for NO_SLICE."""
    if row == NO_SLICE:
        return ""
    asking = int(_asking(trace, np.array([row], np.int32))[0])
    return trace.name_of(row if asking == NO_SLICE else asking)


def _asking(trace: Trace, rows: Int32) -> Int64:
    """Skip Python frames, modules and operators that only allocate for their callers."""
    slices = trace.slices
    begins = landmarks().allocations
    is_allocating = np.isin(
        slices.name,
        ids_where(slices.name, trace.strings, lambda name: name.startswith(begins)),
    )
    parent_is_operator = slices.kind.take(slices.parent, mode="clip") == SliceKind.OPERATOR
    leave = ~np.isin(slices.kind, CALL_KINDS)
    leave |= is_allocating & parent_is_operator & (slices.parent != NO_SLICE)
    return around(slices.parent, rows, ~leave, itself=True)


def _with_stated(
    table: Stacks, stack: UInt32, own: Stacks, stated: UInt32
) -> tuple[Stacks, UInt32]:
    """Join both tables of stacks; stated stacks replace those of slices."""
    first = np.uint32(len(table) - 1)  # both have the empty stack in row 0
    parent = np.where(own.parent == NO_STACK, np.uint32(NO_STACK), own.parent + first)[1:]
    both = table.extended(parent, own.frame[1:])
    return both, np.where(stated == NO_STACK, stack, stated + first)


def _in_use(table: Stacks, rows: UInt32) -> tuple[Stacks, UInt32]:
    """Drop unused stacks; also return the rows in the new table."""
    used = table.with_callers(distinct_ids(rows))
    used[NO_STACK] = True
    row_of = np.cumsum(used, dtype=np.uint32) - np.uint32(1)
    return Stacks(row_of[table.parent[used]], table.frame[used]), row_of[rows]


def _own_frames(table: Stacks, strings: Strings) -> UInt32:
    """Return each stack's innermost frame in a file of the user's, 0 if none."""
    own = np.zeros(len(strings) + 1, bool)
    for frame in np.unique(table.frame[1:]).tolist():
        place = place_of(strings[frame])
        own[frame] = place is not None and is_own_file(place.file)
    frames = np.zeros(len(table), np.uint32)
    for row in range(1, len(table)):  # callers come first
        frame = table.frame[row]
        frames[row] = frame if own[frame] else frames[table.parent[row]]
    return frames
