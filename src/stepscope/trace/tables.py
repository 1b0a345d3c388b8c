"""Converts the tables of a Trace to those of its files and back, without loss.

Texts are dictionary-coded in the tables themselves, so that each file can be read on its own.
Derived columns (nesting, self time, steps) are stored too: they cost 2 % of the JSON's size, and
readers of the files without Stepscope need them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, fields
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stepscope.trace.frames import stored_series, valid_text, words_series
from stepscope.trace.schema import TABLES, Captured, Track
from stepscope.trace.shorten import LONGEST_TEXT_BYTES
from stepscope.trace.strings import Strings
from stepscope.trace.table import Args, Column, IntColumn, Role, Table, UInt8, UInt32
from stepscope.trace.validate import Damage, check
from stepscope.units import size_text

_Integer = TypeVar("_Integer", np.uint32, np.int64)

FILES = (*TABLES, "tracks", "integers")

_TEXT = Column("", np.uint32, Role.TEXT)
_TRACK_NUMBERS = ("process_sort", "thread_sort", "logical_id")
_INTEGERS = ("table", "key", "row_step", "value_step")

_AS_IN_NUMPY = frozenset(
    (
        *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
        *(pl.Float32, pl.Float64),
    )
)
_NOT_A_WORD = "is not one of the column's allowed words"


def tables_of(captured: Captured) -> dict[str, pl.DataFrame]:
    """Return the tables that hold everything of a trace but its info."""
    return {
        **{name: _table(table, captured.strings) for name, table in captured.tables().items()},
        "tracks": _tracks_table(captured),
        "integers": _integers_table(captured),
    }


def captured_of(tables: Mapping[str, pl.DataFrame]) -> Captured:
    """Undo ``tables_of``; a missing table or column is absent in the result.

    ``Damage`` names the column and row that breaks the schema.
    """
    texts = _Texts()
    integers = _integer_columns(tables["integers"])
    columns = {
        name: _columns(kind, name, tables[name], texts, integers)
        for name, kind in TABLES.items()
        if name in tables
    }
    tracks = _track_rows(tables["tracks"])
    captured = Captured(**columns, tracks=tracks, strings=texts.strings())
    check(captured, texts.fragments)
    return captured


def _stored(kind: type[Table]) -> Iterator[tuple[str, Column]]:
    return ((name, spec) for name, spec in kind.columns().items() if not spec.transient)


def _table(table: Table, strings: Strings) -> pl.DataFrame:
    def series(name: str, spec: Column) -> pl.Series:
        values = getattr(table, name)
        if not isinstance(values, Args):
            return stored_series(strings, spec, values)
        rest = values.rest if len(values.rest) else np.zeros(len(table), np.uint32)
        return stored_series(strings, _TEXT, rest)

    return pl.DataFrame({name: series(name, spec) for name, spec in _stored(type(table))})


def _columns(
    kind: type[Table],
    table: str,
    frame: pl.DataFrame,
    texts: _Texts,
    integers: Mapping[str, dict[str, IntColumn]],
) -> Any:
    def values(name: str, spec: Column) -> Any:
        series = _StoredColumn(table, name, frame)
        if spec.dtype is None:
            rest = texts.ids(series, fragments_of=(table, name))
            return Args(integers.get(f"{table}.{name}", {}), rest if rest.any() else rest[:0])
        if spec.role is Role.TEXT:
            return texts.ids(series)
        if spec.letters:
            return series.letters()
        return series.words(spec) if spec.words is not None else series.numbers(spec.dtype)

    present = set(frame.columns)
    for name, spec in _stored(kind):
        if name not in present and spec.dtype is not None and not spec.may_be_absent:
            raise Damage(table, name, None, "it is missing")
    return kind.of(**{n: values(n, spec) for n, spec in _stored(kind) if n in present}).solid()


def _integers_table(captured: Captured) -> pl.DataFrame:
    """Return the sparse integer columns in long form.

    Rows and values are stored as differences within each table and key, so that ascending ids take
    almost no space. A cumulative sum over the group restores them.
    """
    columns = [
        (f"{table}.{name}", valid_text(key), column)
        for table, rows in captured.tables().items()
        for name, spec in rows.columns().items()
        if spec.dtype is None
        for key, column in getattr(rows, name).integers.items()
    ]
    lengths = [len(column.rows) for _, _, column in columns]
    repeated = np.repeat(np.arange(len(columns), dtype=np.uint32), lengths)

    def words(texts: list[str]) -> pl.Series:
        return pl.Series(texts, dtype=pl.Categorical).gather(repeated)

    return pl.DataFrame(
        {
            "table": words([table for table, _, _ in columns]),
            "key": words([key for _, key, _ in columns]),
            "row_step": _steps([c.rows for _, _, c in columns], np.uint32),
            "value_step": _steps([c.values for _, _, c in columns], np.int64),
        }
    )


def _steps(columns: list[NDArray[_Integer]], dtype: type[_Integer]) -> NDArray[_Integer]:
    """Return the differences within each column; they wrap around, and so does their sum."""
    steps = [np.zeros(0, dtype)]
    steps.extend(np.diff(column, prepend=dtype(0)) for column in columns)
    return np.concatenate(steps)


def _tracks_table(captured: Captured) -> pl.DataFrame:
    def clean(value: str | int | None) -> str | int | None:
        return valid_text(value) if isinstance(value, str) else value

    schema = {f.name: pl.Int64 if f.name in _TRACK_NUMBERS else pl.String for f in fields(Track)}
    rows = [tuple(clean(value) for value in astuple(track)) for track in captured.tracks]
    return pl.DataFrame(rows, schema=schema, orient="row")


class _Texts:
    """Collects the texts of categorical columns into one string table."""

    def __init__(self) -> None:
        self._ids = {"": 0}
        self.fragments: dict[tuple[str, str], list[int]] = {}  # the ids in key-value columns

    def ids(self, stored: _StoredColumn, fragments_of: tuple[str, str] | None = None) -> UInt32:
        """Return the column's string ids; those of key-value pairs are kept for checking."""
        column, distinct = stored.text(), stored.distinct_text()
        if not len(distinct):
            return np.zeros(0, np.uint32)
        texts = distinct.cast(pl.String).to_list()
        codes = distinct.to_physical().to_numpy()
        lowest = codes.min()
        id_of_code = np.zeros(int(codes.max() - lowest) + 1, np.uint32)
        own_ids = [self._ids.setdefault(t, len(self._ids)) for t in texts]
        if fragments_of is not None:
            self.fragments[fragments_of] = own_ids
        id_of_code[codes - lowest] = own_ids
        ids: UInt32 = id_of_code[column.to_physical().to_numpy() - lowest]
        return ids

    def strings(self) -> Strings:
        return Strings.of(self._ids)


def _integer_columns(frame: pl.DataFrame) -> dict[str, dict[str, IntColumn]]:
    stored = {name: _StoredColumn("integers", name, frame) for name in _INTEGERS}
    words = {name: stored[name].text() for name in ("table", "key")}
    row_step, value_step = (
        stored["row_step"].numbers(np.uint32),
        stored["value_step"].numbers(np.int64),
    )
    columns: dict[str, dict[str, IntColumn]] = {}
    parts = pl.DataFrame({**words, "row_step": row_step, "value_step": value_step})
    for part in parts.partition_by("table", "key", maintain_order=True):
        table, key = str(part["table"][0]), str(part["key"][0])
        rows = np.cumsum(part["row_step"].to_numpy(), dtype=np.uint32)
        values = np.cumsum(part["value_step"].to_numpy(), dtype=np.int64)
        columns.setdefault(table, {})[key] = IntColumn(rows, values)
    return columns


def _track_rows(frame: pl.DataFrame) -> tuple[Track, ...]:
    columns = []
    for track_field in fields(Track):
        stored = _StoredColumn("tracks", track_field.name, frame)
        if track_field.name in _TRACK_NUMBERS:
            columns.append(stored.integers_or_none(may_be_null=track_field.default is None))
        else:
            columns.append(stored.text().cast(pl.String).to_list())
    return tuple(Track(*row) for row in zip(*columns, strict=True))


class _StoredColumn:
    """A column of an Arrow file; every method raises ``Damage`` for unexpected values."""

    def __init__(self, table: str, name: str, frame: pl.DataFrame) -> None:
        self._table = table
        self._name = name
        if name not in frame.columns:
            raise self._damage(None, "it is missing")
        self._series = frame[name]

    def text(self) -> pl.Series:
        if self._series.dtype == pl.String:  # as other tools write them
            self._series = self._series.cast(pl.Categorical)
        if not isinstance(self._series.dtype, pl.Categorical | pl.Enum):
            raise self._wrong_type("text")
        self._check_nulls()
        return self._series

    def distinct_text(self) -> pl.Series:
        """Return each of the texts once."""
        distinct = self.text().unique()
        longest: Any = distinct.cast(pl.String).str.len_bytes().max()
        if (longest or 0) > LONGEST_TEXT_BYTES:
            limit = size_text(LONGEST_TEXT_BYTES)
            raise self._damage(None, f"it holds a text of more than {limit}, the limit")
        return distinct

    def numbers(self, dtype: type[np.generic]) -> NDArray[Any]:
        """Return numbers of exactly this type."""
        if self._series.dtype not in _AS_IN_NUMPY:
            raise self._wrong_type(dtype.__name__)
        self._check_nulls()
        values = self._series.to_numpy()
        if values.dtype != dtype:
            raise self._wrong_type(dtype.__name__)
        return values

    def integers_or_none(self, *, may_be_null: bool) -> list[int | None]:
        """Return integers, some of which may be missing."""
        if self._series.dtype != pl.Int64:
            raise self._wrong_type("int64")
        if not may_be_null:
            self._check_nulls()
        return self._series.to_list()

    def words(self, spec: Column) -> NDArray[Any]:
        """Return the numbers of words; flags are stored as numbers."""
        assert spec.words is not None
        assert spec.dtype is not None
        if self._series.dtype.is_numeric():
            numbers = self.numbers(spec.dtype)
            if issubclass(spec.words, IntEnum):
                self._check_known(pl.Series(numbers >= len(spec.words)), _NOT_A_WORD)
            return numbers
        codes = self.text().cast(words_series(spec).dtype, strict=False)
        self._check_known(codes.is_null(), _NOT_A_WORD)
        return codes.to_physical().cast(pl.UInt8).to_numpy()

    def letters(self) -> UInt8:
        text = self.text()
        distinct = self.distinct_text().cast(pl.String)
        if not len(distinct):
            return np.zeros(0, np.uint8)
        code = {letter: ord(letter) if letter else 0 for letter in distinct if len(letter) <= 1}
        code_of = {letter: number for letter, number in code.items() if number < 256}
        spelled = text.cast(pl.String)
        self._check_known(~spelled.is_in(list(code_of)), "is not a letter")
        return spelled.replace_strict(code_of, return_dtype=pl.UInt8).to_numpy()

    def _check_nulls(self) -> None:
        if self._series.null_count():
            raise self._damage(self._series.is_null().arg_max(), "it has no value")

    def _check_known(self, unknown: pl.Series, reason: str) -> None:
        if unknown.any():
            row = int(unknown.arg_max() or 0)
            raise self._damage(row, f"{str(self._series[row])[:40]!r} {reason}")

    def _wrong_type(self, wanted: str) -> Damage:
        return self._damage(None, f"it has the type {self._series.dtype}, not {wanted}")

    def _damage(self, row: int | None, reason: str) -> Damage:
        return Damage(self._table, self._name, row, reason)
