"""Tables of columns: how a column is declared, and the row operations for every table.

A table is a frozen dataclass whose fields are made by ``column`` and ``arguments``. Everything that
must know the columns (building, joining, storing, data frames, the report's page, the docs) asks
``Table.columns`` and the roles there, so that a new column is one line.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from stepscope.trace.fragments import pairs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.trace.strings import Strings

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
UInt32 = NDArray[np.uint32]
UInt8 = NDArray[np.uint8]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]


class Role(Enum):
    """What the numbers of a column refer to, and so how they change when rows move."""

    VALUE = "value"  # they refer to nothing, and stay
    TIME = "time"  # ns on the trace's clock
    TEXT = "string id"
    TRACK = "row of tracks"
    STACK = "row of stacks"
    SLICE = "row of slices"
    LINK = "number"  # links events of one process


@dataclass(frozen=True, slots=True)
class Column:
    """The properties of a column, besides its name."""

    meaning: str
    dtype: type[np.generic] | None = None  # None: key-value pairs, see Args
    role: Role = Role.VALUE
    unit: str = ""
    absent: int = 0  # stands for "no value" if ``may_be_absent``
    may_be_absent: bool = False
    derived: bool = False  # computed when the trace is built: sources and readers leave it out
    transient: bool = False  # None after the trace is built
    words: type[Enum] | None = None  # names of its numbers
    letters: bool = False  # its numbers are character codes
    links: tuple[str, ...] = ()  # the keys of integers that are LINKs
    least: int | None = None  # no value is below it
    ascending: bool = False  # values never decrease
    earlier: bool = False  # it refers to an earlier row of its own table
    in_frame: bool = True  # whether data frames show it
    page: str = ""  # its name in the report's page, if it is there
    page_less: str = ""  # the column that the page stores it relative to


_KEY = "column"


def column(  # the signature is Column's, so that a table reads as a list of columns
    meaning: str,
    dtype: type[np.generic],
    role: Role = Role.VALUE,
    *,
    absent: int | None = None,
    **more: Any,
) -> Any:
    """Declare a column of a table; ``absent`` is the number for "no value", if there is one."""
    spec = Column(meaning, dtype, role, **more)
    if absent is not None:
        spec = replace(spec, absent=absent, may_be_absent=True)
    if spec.transient:
        return field(default=None, metadata={_KEY: spec})
    return field(metadata={_KEY: spec})


def added_columns() -> Any:
    """Declare the field for columns registered from outside; every table ends with it."""
    return field(default_factory=dict, kw_only=True, repr=False)


def arguments(meaning: str, *, links: tuple[str, ...] = ()) -> Any:
    """Declare the key-value pairs of a table's rows."""
    return field(default_factory=Args, metadata={_KEY: Column(meaning, links=links)})


@dataclass(frozen=True, slots=True)
class IntColumn:
    """A sparse integer column: ``values[i]`` belongs to row ``rows[i]``; rows ascend."""

    rows: UInt32
    values: Int64

    @classmethod
    def where(cls, chosen: Bool, values: Int64) -> Self:
        """Return the column of the chosen rows; both arguments have a value per row."""
        rows = np.flatnonzero(chosen)
        return cls(rows.astype(np.uint32), values[rows])


@dataclass(frozen=True, slots=True)
class Args:
    """The key-value pairs of a table's rows.

    Integers are sparse columns by key. Everything else of a row is one JSON fragment without its
    braces (``"Input Dims": [[2, 3]], "grid": [1, 1, 1]``), interned: ``rest`` holds its string id,
    0 (the empty string) when there is none. An empty ``rest`` array stands for all zeros.
    """

    integers: Mapping[str, IntColumn] = field(default_factory=dict)
    rest: UInt32 = field(default_factory=lambda: np.zeros(0, np.uint32))

    def dense(self, key: str, rows: int, default: int) -> Int64:
        """Return one integer column with a value for each of ``rows`` rows."""
        column = np.full(rows, default, np.int64)
        if key in self.integers:
            sparse = self.integers[key]
            column[sparse.rows] = sparse.values
        return column

    def of_row(self, row: int, strings: Strings) -> dict[str, Any]:
        """Return all pairs of one row; slow, for showing a single event."""
        pairs: dict[str, Any] = {}
        for key, column in self.integers.items():
            at = int(np.searchsorted(column.rows, row))
            if at < len(column.rows) and column.rows[at] == row:
                pairs[key] = int(column.values[at])
        if len(self.rest) and self.rest[row]:
            pairs.update(pairs_of(strings[int(self.rest[row])]))
        return pairs

    def take(self, rows: NDArray[np.integer], length: int) -> Args:
        """Return the pairs of some rows of a table with ``length`` rows, in their order."""
        new_row = np.full(length, -1, np.int64)
        new_row[rows] = np.arange(len(rows))

        def moved(column: IntColumn) -> IntColumn:
            place, values = new_row[column.rows], column.values
            stays = place >= 0
            if not stays.all():
                place, values = place[stays], values[stays]
            if (place[1:] < place[:-1]).any():
                order = np.argsort(place, kind="stable")
                place, values = place[order], values[order]
            return IntColumn(place.astype(np.uint32), values)

        integers = {key: moved(column) for key, column in self.integers.items()}
        return Args(integers, self.rest[rows] if len(self.rest) else self.rest)

    @staticmethod
    def concat(parts: Sequence[Args], lengths: Sequence[int]) -> Args:
        """Concatenate the pairs of tables with these numbers of rows."""
        parts_of_key: dict[str, list[IntColumn]] = {}
        for part, first in zip(parts, accumulate([0, *lengths]), strict=False):
            for key, column in part.integers.items():
                moved = column.rows + np.uint32(first) if first else column.rows
                parts_of_key.setdefault(key, []).append(IntColumn(moved, column.values))
        integers = {
            key: columns[0]
            if len(columns) == 1
            else IntColumn(
                np.concatenate([column.rows for column in columns]),
                np.concatenate([column.values for column in columns]),
            )
            for key, columns in parts_of_key.items()
        }
        if not any(part.rest.any() for part in parts):
            return Args(integers)
        rest = [
            part.rest if len(part.rest) else np.zeros(length, np.uint32)
            for part, length in zip(parts, lengths, strict=True)
        ]
        return Args(integers, np.concatenate(rest))

    def remap(self, new: Remap, links: tuple[str, ...]) -> Args:
        """Return the pairs with new numbers for strings and links."""
        integers = dict(self.integers)
        for key in integers.keys() & set(links):
            old = integers[key]
            integers[key] = IntColumn(old.rows, new.linked(old.values, 0))
        return Args(integers, new.text[self.rest] if new.text is not None else self.rest)


@dataclass(frozen=True, slots=True)
class Remap:
    """New numbers for what rows refer to; None means unchanged."""

    text: UInt32 | None = None  # of each string id
    track: UInt32 | None = None  # of each row of tracks
    stack: UInt32 | None = None  # of each row of stacks
    slice: NDArray[np.integer] | None = None  # of each row of slices; negative if it was removed
    link_offset: int = 0

    def column(self, spec: Column, values: NDArray[Any]) -> NDArray[Any]:
        """Return a column with its new numbers."""
        match spec.role:
            case Role.LINK:
                return self.linked(values, spec.absent)
            case Role.SLICE if self.slice is not None:
                there = values != spec.absent
                moved = values.copy()
                moved[there] = self.slice[values[there]]
                return moved
        table = {Role.TEXT: self.text, Role.TRACK: self.track, Role.STACK: self.stack}.get(
            spec.role
        )
        return values if table is None or not len(values) else table[values]

    def linked(self, values: NDArray[Any], absent: int) -> NDArray[Any]:
        """Return links that no other process has."""
        if not self.link_offset:
            return values
        return np.where(values == absent, absent, values + self.link_offset)


class Table:
    """Rows as columns of equal length. The operations on rows are here, for every table.

    ``added`` holds the columns that were registered with ``add_column``; they are read like all
    others (``slices.energy``), and are absent where nobody filled them.
    """

    __slots__ = ()

    added: Mapping[str, NDArray[Any]]

    @classmethod
    def columns(cls) -> Mapping[str, Column]:
        """Return the properties of each column by name, in order."""
        return {**_stated(cls), **_ADDED.get(cls, {})}

    @classmethod
    def made_of(cls, columns: Mapping[str, Any]) -> Self:
        """Return a table of columns by their names."""
        stated = _stated(cls)
        own = {name: values for name, values in columns.items() if name in stated}
        added = {name: values for name, values in columns.items() if name in _ADDED.get(cls, {})}
        if unknown := columns.keys() - own.keys() - added.keys():
            names = ", ".join(cls.columns())
            raise TypeError(f"{cls.__name__} has no column {min(unknown)!r}: it has {names}")
        return cls(**own, added=added)  # type: ignore[call-arg]

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Return a table with some columns; the others have no value in any row."""
        rows = max(
            len(values)
            for values in given.values()
            if values is not None and not isinstance(values, Args)
        )
        for name, spec in _stated(cls).items():
            if given.get(name) is None and spec.dtype is not None and not spec.transient:
                given[name] = _absent(spec, rows)
        return cls.made_of({name: value for name, value in given.items() if value is not None})

    @classmethod
    def empty(cls) -> Self:
        columns = cls.columns().items()
        return cls.made_of({n: np.zeros(0, c.dtype) for n, c in columns if c.dtype is not None})

    @classmethod
    def concat(cls, tables: Sequence[Self]) -> Self:
        lengths = [len(table) for table in tables]

        def joined(name: str, spec: Column) -> Any:
            parts = [getattr(table, name) for table in tables]
            if spec.dtype is None:
                return Args.concat(parts, lengths)
            if all(part is None for part in parts):
                return None
            if all(part is not None and _is_absent(spec, part) for part in parts):
                return _absent(spec, sum(lengths))
            return np.concatenate(
                [
                    _absent(spec, length) if part is None else part
                    for part, length in zip(parts, lengths, strict=True)
                ]
            )

        return cls.made_of({name: joined(name, spec) for name, spec in cls.columns().items()})

    def __len__(self) -> int:
        return len(getattr(self, next(iter(_stated(type(self))))))

    def __getattr__(self, name: str) -> NDArray[Any]:
        """Return a column that was registered with ``add_column``."""
        spec = _ADDED.get(type(self), {}).get(name)
        if spec is None:
            raise AttributeError(f"{type(self).__name__} has no column {name!r}")
        return self.added[name] if name in self.added else _absent(spec, len(self))

    @property
    def times_ns(self) -> Int64 | None:
        """Return the time or start of each row; None for a table without times."""
        for name, spec in self.columns().items():
            if spec.role is Role.TIME:
                times_ns: Int64 = getattr(self, name)
                return times_ns
        return None

    def take(self, rows: NDArray[Any]) -> Self:
        """Return rows by a mask, or by number in that order, each at most once."""
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)

        def taken(spec: Column, values: Any) -> Any:
            if isinstance(values, Args):
                return values.take(rows, len(self))
            return _absent(spec, len(rows)) if _is_absent(spec, values) else values[rows]

        return self._changed(taken)

    def remap(self, new: Remap) -> Self:
        """Return the same rows with new numbers for what they refer to."""

        def moved(spec: Column, values: Any) -> Any:
            if isinstance(values, Args):
                return values.remap(new, spec.links)
            return values if _is_absent(spec, values) else new.column(spec, values)

        return self._changed(moved)

    def largest_link(self) -> int:
        """Return the largest link between events, 0 without any."""
        links: list[NDArray[Any]] = []
        for name, spec in self.columns().items():
            values = getattr(self, name)
            if isinstance(values, Args):
                integers = values.integers
                links += [integers[key].values for key in spec.links if key in integers]
            elif spec.role is Role.LINK:
                links.append(values)
        return max((int(values.max(initial=0)) for values in links), default=0)

    def solid(self) -> Self:
        """Return the table with real memory for every column that ``of`` left out."""
        return self._changed(
            lambda _, values: values if isinstance(values, Args) else np.ascontiguousarray(values)
        )

    def _changed(self, change: Callable[[Column, Any], Any]) -> Self:
        return self.made_of(
            {
                name: None if (values := getattr(self, name)) is None else change(spec, values)
                for name, spec in self.columns().items()
            }
        )


_ADDED: dict[type[Table], dict[str, Column]] = {}


def add_column(table: type[Table], name: str, spec: Column) -> None:
    """Add a column to a table from outside the package.

    From then on it is built, joined, saved, loaded and shown in data frames like all others.
    """
    if spec.dtype is None:
        raise TypeError(f"the column {name!r} needs a dtype, such as numpy.int64")
    if name in table.columns() or not name.isidentifier():
        raise ValueError(f"{table.__name__} cannot have a new column {name!r}: choose another name")
    _ADDED.setdefault(table, {})[name] = replace(spec, may_be_absent=True)


def remove_column(table: type[Table], name: str) -> None:
    """Undo ``add_column``."""
    del _ADDED[table][name]


def _absent(spec: Column, rows: int) -> NDArray[Any]:
    """Return a column without values; it takes no memory."""
    assert spec.dtype is not None
    return np.broadcast_to(spec.dtype(spec.absent), rows)


def _is_absent(spec: Column, values: NDArray[Any]) -> bool:
    """Tell whether ``_absent`` made the column."""
    return len(values) > 0 and values.strides == (0,) and bool(values[0] == spec.absent)


_STATED: dict[type[Table], dict[str, Column]] = {}


def _stated(table: Any) -> dict[str, Column]:
    """Return the columns of a table's class, without the added ones."""
    if table not in _STATED:
        columns = ((member.name, member.metadata.get(_KEY)) for member in fields(table))
        _STATED[table] = {name: spec for name, spec in columns if spec is not None}
    return _STATED[table]
