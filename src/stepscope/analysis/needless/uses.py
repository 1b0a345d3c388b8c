"""Which operator made what another one reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.landmarks import Names
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.tree import ids_where
from stepscope.trace.kinds import UseRole
from stepscope.trace.model import NO_SLICE, Bool, Int64, Trace

NO_MAKER = -1
_WRITTEN = (UseRole.MADE, UseRole.CHANGED)


@dataclass(frozen=True, slots=True)
class ValueUses:
    """The uses of data by operators, in the order of operators, which are numbered by time."""

    rows: Int64  # the slice of each operator
    operator: Int64  # of each use
    role: Int64
    value: Int64
    storage: Int64
    size: Int64
    position: Int64
    is_row: Bool  # the tensor is read, and has a single row
    maker: Int64  # the operator that last made or changed the data before; NO_MAKER if unknown
    released: Int64  # storages that were released
    escaped: Int64  # storages whose data escaped
    escape_ns: Int64  # when each of them did
    end_ns: int  # when the last use was

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def reads(self) -> Bool:
        return ~self.writes

    @property
    def makes(self) -> Bool:
        made: Bool = self.role == UseRole.MADE
        return made

    @property
    def changes(self) -> Bool:
        changed: Bool = self.role == UseRole.CHANGED
        return changed

    @property
    def writes(self) -> Bool:
        return self.makes | self.changes

    def of_names(self, trace: Trace, names: Names) -> Bool:
        """Tell which operators have one of some names."""
        ids = trace.slices.name[self.rows]
        return np.isin(ids, ids_where(ids, trace.strings, names.__contains__))

    def sums(self, which: Bool) -> Int64:
        """Return how many bytes each operator has in the given uses."""
        sums: Int64 = np.bincount(
            self.operator[which], self.size[which], minlength=len(self)
        ).astype(np.int64)
        return sums

    def counts(self, which: Bool) -> Int64:
        counts: Int64 = np.bincount(self.operator[which], minlength=len(self))
        return counts


@shared
def value_uses(trace: Trace) -> ValueUses:
    uses = trace.uses
    read_or_written = np.isin(uses.role, [*_WRITTEN, UseRole.READ, UseRole.READ_ROW])
    is_operators = read_or_written & (uses.slice != NO_SLICE)
    mine = np.flatnonzero(is_operators)
    mine = mine[np.argsort(uses.slice[mine], kind="stable")]  # threads may overlap
    rows, operator = np.unique(uses.slice[mine], return_inverse=True)
    escaped = uses.role == UseRole.ESCAPED
    storage, role = uses.storage[mine], uses.role[mine].astype(np.int64)
    return ValueUses(
        rows=rows.astype(np.int64),
        operator=operator.reshape(-1).astype(np.int64),
        role=role,
        value=uses.value[mine],
        storage=storage,
        size=uses.size[mine],
        position=uses.position[mine].astype(np.int64),
        is_row=uses.role[mine] == UseRole.READ_ROW,
        maker=_makers(storage, role, operator.reshape(-1).astype(np.int64)),
        released=np.unique(uses.storage[uses.role == UseRole.RELEASED]),
        escaped=uses.storage[escaped],
        escape_ns=uses.time_ns[escaped],
        end_ns=int(uses.time_ns.max(initial=0)),
    )


def _makers(storage: Int64, role: Int64, operator: Int64) -> Int64:
    """Return who last wrote the storage of each use before it."""
    order = np.lexsort((operator, storage))  # stable: an operator's reads precede its results
    writer = np.where(np.isin(role[order], _WRITTEN), np.arange(len(order)), -1)
    last = np.maximum.accumulate(np.concatenate([[-1], writer]))[:-1] if len(order) else writer
    is_same = (last >= 0) & (storage[order[last]] == storage[order])
    maker = np.full(len(order), NO_MAKER, np.int64)
    maker[order] = np.where(is_same, operator[order[last]], NO_MAKER)
    return maker
