"""Tables of columns: frozen dataclasses that convert to data frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.labels import Labels

if TYPE_CHECKING:
    import polars

Columns = dict[str, Sequence[Any] | NDArray[Any]]


class Table:
    """A base for frozen dataclasses whose fields are columns of one length.

    A column of texts is a tuple, or Labels where there are many rows; all others are arrays.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: NDArray[Any]) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(**{name: _taken(getattr(self, name), rows) for name in names})

    def to_columns(self) -> Columns:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a Polars DataFrame; times in ns, sizes in bytes."""
        import polars as pl

        return pl.DataFrame([_series(name, column) for name, column in self.to_columns().items()])


def _taken(column: Any, rows: NDArray[Any]) -> Any:
    if column is None:
        return None
    if isinstance(column, tuple):
        return tuple(column[i] for i in np.arange(len(column))[rows].tolist())
    return column.take(rows) if isinstance(column, Labels) else column[rows]


def _series(name: str, column: Sequence[Any] | NDArray[Any]) -> polars.Series:
    import polars as pl

    if isinstance(column, np.ndarray):
        return pl.Series(name, column)
    if isinstance(column, Labels):
        return _series(name, tuple(column.texts)).gather(column.codes)
    texts = [text.encode("utf-8", "replace").decode() for text in column]
    return pl.Series(name, texts, dtype=pl.String)
