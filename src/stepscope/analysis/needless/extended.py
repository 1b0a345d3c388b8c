"""Results that are copied as a whole to be made a little longer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.needless.uses import ValueUses
from stepscope.trace.model import Bool, Float64, Int64, Trace

MIN_COPIED = 0.5  # share of a result that was part of the former one


@dataclass(frozen=True, slots=True)
class Extended:
    """Operators, by number, that join their own former result with something new."""

    which: Bool
    copied: Float64  # share of the result that was copied
    copied_bytes: int
    new_bytes: int
    value: Int64  # of the result


def extended(trace: Trace, uses: ValueUses) -> Extended:
    """Return the joins of a former result, or of nearly the same tensors as at the last call."""
    joins = uses.of_names(trace, landmarks().joins)
    stacks = trace.slices.stack[uses.rows]
    makes = np.flatnonzero(uses.makes & joins[uses.operator])
    made_of = dict(zip(uses.operator[makes].tolist(), uses.storage[makes].tolist(), strict=True))
    size_of = dict(zip(uses.operator[makes].tolist(), uses.size[makes].tolist(), strict=True))
    value = np.zeros(len(uses), np.int64)
    value[uses.operator[makes]] = uses.value[makes]
    reads = np.flatnonzero(uses.reads & joins[uses.operator])
    copied = np.zeros(len(uses))
    results: dict[int, set[int]] = {}  # the storages that a line has made
    lists: dict[int, set[int]] = {}  # and those that it has joined at its last call
    begins = np.flatnonzero(np.diff(uses.operator[reads], prepend=-1))
    for begin, end in pairwise([*begins.tolist(), len(reads)]):
        mine = reads[begin:end]
        operator = int(uses.operator[mine[0]])
        if operator not in made_of:
            continue
        stack = int(stacks[operator])
        size_by_storage = dict(
            zip(uses.storage[mine].tolist(), uses.size[mine].tolist(), strict=True)
        )
        before = results.setdefault(stack, set())
        joined = lists.get(stack, set())
        if joined < size_by_storage.keys() and len(joined) > 1:  # a list that has grown
            before = before | joined
        again = sum(size for storage, size in size_by_storage.items() if storage in before)
        if 0 < again < size_of[operator]:
            copied[operator] = again / size_of[operator]
        results[stack].add(made_of[operator])  # each layer of a model has one of its own
        lists[stack] = set(size_by_storage)
    which = copied >= MIN_COPIED
    made_bytes = uses.sums(uses.makes)
    copied_bytes = int((made_bytes * copied)[which].sum())
    return Extended(which, copied, copied_bytes, int(made_bytes[which].sum()) - copied_bytes, value)
