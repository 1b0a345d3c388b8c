"""The Trace as the tables of its files, and back, without loss.

Texts stand in the tables themselves, dictionary-coded, so that each file can be read on its own.
What is derived (nesting, self time, steps) is stored too: it costs 2 % of the JSON's size, and
whoever reads the files without Stepscope needs it.
"""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl

from stepscope.trace.frames import KIND_WORDS, categorical, kind_series, valid_text
from stepscope.trace.model import (
    Args,
    IntColumn,
    Marks,
    Memory,
    Owners,
    Slices,
    Stacks,
    Trace,
    Track,
    column_names,
)
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.trace.model import TraceInfo, UInt8, UInt32

_Integer = TypeVar("_Integer", np.uint32, np.int64)
_Table = TypeVar("_Table", "Stacks", "Memory", "Owners")

TABLES = ("slices", "marks", "integers", "tracks", "stacks", "memory", "owners")

_SLICE_TEXTS = ("category", "name", "overload", "args", "fields")
_MARK_TEXTS = ("category", "name", "args", "fields")
_TRACK_NUMBERS = ("process_sort", "thread_sort", "logical_id")


def tables_of(trace: Trace) -> dict[str, pl.DataFrame]:
    """Return the tables that hold everything of a trace but its info."""
    return {
        "slices": _slices_table(trace),
        "marks": _marks_table(trace),
        "integers": _integers_table(trace),
        "tracks": _tracks_table(trace),
        "stacks": _columns_table(trace.stacks, {"frame": trace.strings}),
        "memory": _columns_table(trace.memory, {"device": trace.strings}),
        "owners": _columns_table(trace.owners, {"device": trace.strings}),
    }


def trace_of(tables: Mapping[str, pl.DataFrame], info: TraceInfo) -> Trace:
    """Return the trace that ``tables_of`` took apart."""
    texts = _Texts()
    integers = _integer_columns(tables["integers"])

    def args(table: str, part: str) -> Args:
        rest = texts.ids(tables[table][part])
        return Args(integers.get(f"{table}.{part}", {}), rest if rest.any() else rest[:0])

    def slice_column(name: str) -> Any:
        column = tables["slices"][name]
        if name in _SLICE_TEXTS:
            return texts.ids(column)
        return _kinds(column) if name == "kind" else column.to_numpy()

    marks = tables["marks"]
    return Trace(
        Slices(
            **{name: slice_column(name) for name in column_names()},
            args=args("slices", "args"),
            fields=args("slices", "fields"),
        ),
        tuple(Track(**row) for row in tables["tracks"].iter_rows(named=True)),
        marks=Marks(
            phase=_phases(marks["phase"]),
            category=texts.ids(marks["category"]),
            name=texts.ids(marks["name"]),
            time_ns=marks["time_ns"].to_numpy(),
            track=marks["track"].to_numpy(),
            args=args("marks", "args"),
            fields=args("marks", "fields"),
        ),
        stacks=_columns(Stacks, tables["stacks"], texts),
        memory=_columns(Memory, tables["memory"], texts),
        owners=_columns(Owners, tables["owners"], texts),
        strings=texts.strings(),  # after the columns, which fill it
        info=info,
    )


def _slices_table(trace: Trace) -> pl.DataFrame:
    columns = {name: pl.Series(getattr(trace.slices, name)) for name in column_names()}
    columns["kind"] = kind_series(trace.slices.kind)
    return pl.DataFrame(columns | _texts(trace, trace.slices, _SLICE_TEXTS))


def _columns_table(table: Stacks | Memory | Owners, texts: Mapping[str, Strings]) -> pl.DataFrame:
    """Return a table of plain columns; those that ``texts`` names hold string ids."""
    columns = {f.name: getattr(table, f.name) for f in fields(table)}
    return pl.DataFrame(
        {
            name: categorical(texts[name], column) if name in texts else pl.Series(column)
            for name, column in columns.items()
        }
    )


def _columns(kind: type[_Table], table: pl.DataFrame, texts: _Texts) -> _Table:
    columns: dict[str, Any] = {
        column.name: texts.ids(column) if column.dtype == pl.Categorical else column.to_numpy()
        for column in table
    }
    return kind(**columns)


def _marks_table(trace: Trace) -> pl.DataFrame:
    marks = trace.marks
    letters = pl.Series([chr(code) for code in range(256)], dtype=pl.Categorical)
    columns = {
        "phase": letters.gather(marks.phase.astype(np.uint32)),
        "time_ns": pl.Series(marks.time_ns),
        "track": pl.Series(marks.track),
    }
    return pl.DataFrame(columns | _texts(trace, marks, _MARK_TEXTS))


def _texts(trace: Trace, table: Slices | Marks, names: tuple[str, ...]) -> dict[str, pl.Series]:
    def ids(column: UInt32 | Args) -> UInt32:
        if not isinstance(column, Args):
            return column
        return column.rest if len(column.rest) else np.zeros(len(table), np.uint32)

    return {name: categorical(trace.strings, ids(getattr(table, name))) for name in names}


def _integers_table(trace: Trace) -> pl.DataFrame:
    """Return the sparse integer columns in long form, one after the other.

    Rows and values are stored as differences from the one before, within each table and key: ids
    that count upwards then cost next to nothing. A cumulative sum over the group restores them.
    """
    columns = [
        (f"{table}.{part}", valid_text(key), column)
        for table, part in (
            ("slices", "args"),
            ("slices", "fields"),
            ("marks", "args"),
            ("marks", "fields"),
        )
        for key, column in getattr(getattr(trace, table), part).integers.items()
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


def _tracks_table(trace: Trace) -> pl.DataFrame:
    def clean(value: str | int | None) -> str | int | None:
        return valid_text(value) if isinstance(value, str) else value

    schema = {f.name: pl.Int64 if f.name in _TRACK_NUMBERS else pl.String for f in fields(Track)}
    rows = [tuple(clean(value) for value in astuple(track)) for track in trace.tracks]
    return pl.DataFrame(rows, schema=schema, orient="row")


class _Texts:
    """Collects the texts of categorical columns into one string table."""

    def __init__(self) -> None:
        self._ids = {"": 0}

    def ids(self, column: pl.Series) -> UInt32:
        """Return the column's string ids."""
        distinct = column.unique()
        if not len(distinct):
            return np.zeros(0, np.uint32)
        texts = distinct.cast(pl.String).to_list()
        codes = distinct.to_physical().to_numpy()
        lowest = codes.min()
        id_of_code = np.zeros(int(codes.max() - lowest) + 1, np.uint32)
        id_of_code[codes - lowest] = [self._ids.setdefault(t, len(self._ids)) for t in texts]
        ids: UInt32 = id_of_code[column.to_physical().to_numpy() - lowest]
        return ids

    def strings(self) -> Strings:
        """Return all texts met so far."""
        return Strings.of(self._ids)


def _kinds(column: pl.Series) -> UInt8:
    return column.cast(pl.Enum(KIND_WORDS)).to_physical().cast(pl.UInt8).to_numpy()


def _phases(column: pl.Series) -> UInt8:
    letters = _Texts()
    ids = letters.ids(column)
    codes = np.array([ord(text) if text else 0 for text in letters.strings()], np.uint8)
    phases: UInt8 = codes[ids]
    return phases


def _integer_columns(frame: pl.DataFrame) -> dict[str, dict[str, IntColumn]]:
    columns: dict[str, dict[str, IntColumn]] = {}
    for part in frame.partition_by("table", "key", maintain_order=True):
        table, key = str(part["table"][0]), str(part["key"][0])
        rows = np.cumsum(part["row_step"].to_numpy(), dtype=np.uint32)
        values = np.cumsum(part["value_step"].to_numpy(), dtype=np.int64)
        columns.setdefault(table, {})[key] = IntColumn(rows, values)
    return columns
