"""Checks that tables match the schema, once, when a stored trace is opened.

Later code relies on it: referenced rows exist, parents come before their children, times are
ordered and can be added. Large columns are checked in blocks that fit the processor's cache, so
that ten million rows take a tenth of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import _native
from stepscope.arguments import shown
from stepscope.trace.schema import NO_PARENT, Slices
from stepscope.trace.table import Args, IntColumn, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.trace.schema import Captured
    from stepscope.trace.strings import Strings
    from stepscope.trace.table import Column, Table

    Block = slice
    Mask = Any  # an array of booleans
    Bad = Callable[[Block], Mask]  # which rows of a block break a rule
    Rule = tuple[str, Bad, str]  # the column, its rows, and what is wrong with one

# Times and ends of spans lie within this many ns of zero, 146 years: their differences fit 64 bits.
LATEST_NS = 1 << 62
_BLOCK = 1 << 15
_TREE = ("start_ns", "duration_ns", "self_ns", "parent", "depth")  # see _native.is_sound


class Damage(Exception):  # noqa: N818 - what it is; the store makes an error of it
    """A table breaks the schema."""

    def __init__(self, table: str, column: str, row: int | None, reason: str) -> None:
        place = "" if row is None else f", row {row:,}"
        super().__init__(f"{table}.arrow, column {column!r}{place}: {reason}")


def check(
    captured: Captured, fragments: Mapping[tuple[str, str], Sequence[int]], *, is_built: bool = True
) -> None:
    """Raise ``Damage`` for the first rule of the schema that a table breaks.

    ``fragments`` has the string ids of each column of key-value pairs, by table and column. Tables
    of which a trace is still to be built have no order yet.
    """
    ends = {
        Role.TRACK: (len(captured.tracks), "tracks"),
        Role.STACK: (len(captured.stacks), "stacks"),
        Role.SLICE: (len(captured.slices), "slices"),
    }
    for name, table in captured.tables().items():
        if name == "stacks" and not len(table):
            raise Damage(name, "parent", None, "row 0, the empty stack, is missing")
        is_sound = isinstance(table, Slices) and _is_sound(table)
        for column, spec in table.columns().items():
            if is_sound and column in _TREE:
                continue
            values = getattr(table, column)
            if isinstance(values, Args):
                for key, sparse in values.integers.items():
                    _check_sparse(f"{name}.{column}", key, sparse, len(table))
                ids = fragments.get((name, column), ())
                _check_fragments(name, column, values, ids, captured.strings)
            elif not spec.transient and len(values):
                place = _Place(name, column, values)
                if spec.ascending and is_built:
                    place.refuse(_descending(values), "{} is less than in the row before")
                _check_bounds(place, spec, ends)
        for column, bad, reason in () if is_sound else _rules(table):
            if is_built or column == "duration_ns":
                _Place(name, column, getattr(table, column)).refuse(bad, reason)


def _is_sound(slices: Slices) -> bool:
    """Tell in one pass whether a tree keeps all rules of its columns: nearly all do."""
    columns = {column: np.ascontiguousarray(getattr(slices, column)) for column in _TREE}
    return _native.is_sound(**columns, latest_ns=LATEST_NS)


class _Place:
    """A column that rules are checked for."""

    def __init__(self, table: str, column: str, values: NDArray[Any]) -> None:
        self.values = values
        self._table = table
        self._column = column

    def refuse(self, bad: Bad, reason: str) -> None:
        """Raise ``Damage`` for the first row in ``bad``."""
        rows = len(self.values)
        for start in range(0, rows, _BLOCK):
            mask = bad(slice(start, min(start + _BLOCK, rows)))
            if mask.any():
                row = start + int(mask.argmax())
                raise Damage(self._table, self._column, row, reason.format(self.values[row]))

    def at_least(self, least: int, reason: str) -> None:
        """Refuse lower values: a minimum is computed faster than the first bad row."""
        if self.values.min() < least:
            self.refuse(lambda at: self.values[at] < least, reason)

    def at_most(self, most: int, reason: str) -> None:
        """Refuse higher values."""
        if self.values.max() > most:
            self.refuse(lambda at: self.values[at] > most, reason)


def _check_bounds(place: _Place, spec: Column, ends: Mapping[Role, tuple[int, str]]) -> None:
    """Check a column's values independently of other columns."""
    values = place.values
    if spec.role is Role.TIME:
        reason = "{} ns is more than 146 years away"
        place.at_least(-LATEST_NS, reason)
        place.at_most(LATEST_NS, reason)
    if spec.least is not None:
        place.at_least(spec.least, f"{{}} is less than {spec.least}")
    if spec.earlier:
        place.refuse(_not_earlier(values, spec), "{} is not an earlier row")
    elif spec.role in ends:
        end, what = ends[spec.role]
        reason = f"{{}} is not one of {end:,} {what}"
        place.at_most(end - 1, reason)
        if spec.absent < 0:
            place.at_least(spec.absent, reason)


def _not_earlier(values: NDArray[Any], spec: Column) -> Bad:
    """Check that rows refer to earlier rows only.

    Where a column has no number for "none", row 0 stands for that, and refers to itself.
    """
    count = np.arange(_BLOCK, dtype=np.int64)

    def bad(at: Block) -> Mask:
        rows = count[: at.stop - at.start] + at.start
        if spec.may_be_absent:
            return (values[at] >= rows) | (values[at] < spec.absent)
        return values[at] >= np.maximum(rows, 1)

    return bad


def _descending(values: NDArray[Any]) -> Bad:
    def bad(at: Block) -> Mask:
        first = max(at.start, 1)
        less = values[first : at.stop] < values[first - 1 : at.stop - 1]
        return less if at.start else np.concatenate([[False], less])

    return bad


def _rules(table: Table) -> Iterator[Rule]:
    """Yield the rules between the columns of a row, or of several rows."""
    if "duration_ns" in table.columns():
        yield "duration_ns", _ends_late(table), "it ends {} ns later, more than 146 years away"
    if isinstance(table, Slices):
        yield "self_ns", _more_than_whole(table), "{} is more than its duration_ns"
        yield "depth", _wrong_depth(table), "{} is not how many slices are around it"


def _ends_late(table: Any) -> Bad:
    start, duration = table.times_ns, table.duration_ns

    def bad(at: Block) -> Mask:
        end = start[at] + duration[at]  # an overflowing sum is less than the start
        return (end < start[at]) | (end > LATEST_NS)

    return bad


def _more_than_whole(slices: Slices) -> Bad:
    return lambda at: slices.self_ns[at] > slices.duration_ns[at]


def _wrong_depth(slices: Slices) -> Bad:
    depth, parents = slices.depth, slices.parent

    def bad(at: Block) -> Mask:
        parent = parents[at]
        around = depth.take(parent, mode="wrap")  # without a parent, the last row's
        around[parent == NO_PARENT] = -1
        return depth[at] != around + 1

    return bad


def _check_fragments(
    table: str, column: str, args: Args, ids: Sequence[int], strings: Strings
) -> None:
    """Check that other arguments are pairs of JSON, which exports write unchanged."""
    distinct = np.array(ids, np.uint32)
    bad = _native.first_bad_fragment(strings.blob, strings.offsets, distinct)
    if bad >= 0:
        row = int((args.rest == bad).argmax())
        raise Damage(
            table, column, row, f"{shown(strings[bad])} is not the inside of a JSON object"
        )


def _check_sparse(table: str, key: str, sparse: IntColumn, rows: int) -> None:
    """Check that the rows of a sparse column ascend and exist."""
    last = len(sparse.rows) - 1
    if last < 0:
        return

    def bad(at: Block) -> Mask:
        behind = sparse.rows[at.start + 1 : at.stop + 1]
        return behind <= sparse.rows[at.start : at.start + len(behind)]

    for start in range(0, last, _BLOCK):
        mask = bad(slice(start, min(start + _BLOCK, last)))
        if mask.any():
            raise _not_ascending(table, key, sparse, start + int(mask.argmax()) + 1, rows)
    if sparse.rows[last] >= rows:
        raise _not_ascending(table, key, sparse, last, rows)


def _not_ascending(table: str, key: str, sparse: IntColumn, at: int, rows: int) -> Damage:
    before = f" after row {sparse.rows[at - 1]:,}" if at else ""
    where = f"entry {at:,} of {key[:40]!r} in {table} is for row {sparse.rows[at]:,}{before}"
    return Damage("integers", "row_step", None, f"{where}, of {rows:,} rows")
