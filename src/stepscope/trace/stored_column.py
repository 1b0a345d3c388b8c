"""A column of a stored table, checked for its type and for values that are missing."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stepscope.trace.frames import words_series
from stepscope.trace.shorten import LONGEST_TEXT_BYTES
from stepscope.trace.table import Column, UInt8
from stepscope.trace.validate import Damage
from stepscope.units import size_text

_AS_IN_NUMPY = frozenset(
    (
        *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
        *(pl.Float32, pl.Float64),
    )
)
_NOT_A_WORD = "is not one of the column's allowed words"


class StoredColumn:
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

    def words(self, known: Column) -> NDArray[Any]:
        """Return the numbers of words; flags are stored as numbers."""
        assert known.words is not None
        assert known.dtype is not None
        if self._series.dtype.is_numeric():
            numbers = self.numbers(known.dtype)
            if issubclass(known.words, IntEnum):
                self._check_known(pl.Series(numbers >= len(known.words)), _NOT_A_WORD)
            return numbers
        found = self.text().cast(words_series(known).dtype, strict=False)
        self._check_known(found.is_null(), _NOT_A_WORD)
        return found.to_physical().cast(pl.UInt8).to_numpy()

    def letters(self) -> UInt8:
        text = self.text()
        distinct = self.distinct_text().cast(pl.String)
        if not len(distinct):
            return np.zeros(0, np.uint8)
        code = {each: ord(each) if each else 0 for each in distinct if len(each) <= 1}
        known = {each: number for each, number in code.items() if number < 256}
        spelled = text.cast(pl.String)
        self._check_known(~spelled.is_in(list(known)), "is not a letter")
        return spelled.replace_strict(known, return_dtype=pl.UInt8).to_numpy()

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
