"""Tables of columns: frozen dataclasses that convert to data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.labels import Labels
from stepscope.trace.measures import MEASURES, Measure, Shown, measures_of, measures_of_calls
from stepscope.units import TEXT

if TYPE_CHECKING:
    import polars

Columns = dict[str, Sequence[Any] | NDArray[Any]]


class Table:
    """A base for frozen dataclasses whose fields are columns of one length.

    A column of texts is a tuple, or Labels where there are many rows; all others are arrays. A
    field that is a mapping has columns by name.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: NDArray[Any]) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(**{name: _taken(getattr(self, name), rows) for name in names})

    def replaced(self, columns: Mapping[str, Any]) -> Self:
        """Return the rows with other columns; those that are no fields become ``added``."""
        names = {field.name for field in fields(self)}
        own = {name: column for name, column in columns.items() if name in names}
        added = {name: column for name, column in columns.items() if name not in names}
        return replace(self, added=added, **own)

    def to_columns(self) -> Columns:
        columns: Columns = {}
        for field in fields(self):
            values = getattr(self, field.name)
            columns |= values if isinstance(values, Mapping) else {field.name: values}
        return columns | {measure.name: values for measure, values in self.stated().items()}

    def stated(self) -> dict[Measure, Sequence[str] | NDArray[Any]]:
        """Return the columns that are measures, in the order in which they are shown."""
        columns = {
            measure: getattr(self, name) for name, measure in measures_of(type(self)).items()
        }
        added = getattr(self, "added", {})
        of_added = (*measures_of_calls().values(), *MEASURES)
        return columns | {
            measure: added[measure.name] for measure in of_added if measure.name in added
        }

    def on_pages(self) -> dict[Measure, Sequence[str] | NDArray[Any]]:
        """Return the columns that the report's pages show."""
        return {
            measure: values
            for measure, values in self.stated().items()
            if measure.shown is not Shown.DATA
        }

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a Polars DataFrame; times in ns, sizes in bytes."""
        import polars as pl

        return pl.DataFrame([_series(name, column) for name, column in self.to_columns().items()])


def columns_of(rows: Sequence[object], kind: type) -> dict[Measure, list[str] | NDArray[Any]]:
    """Return the measures of some objects as columns, those that are None as NaN."""
    columns: dict[Measure, list[str] | NDArray[Any]] = {}
    for name, measure in measures_of(kind).items():
        values = [getattr(row, name) for row in rows]
        is_text = measure.unit == TEXT
        numbers = [np.nan if value is None else value for value in values]
        columns[measure] = values if is_text else np.array(numbers)
    return columns


def _taken(column: Any, rows: NDArray[Any]) -> Any:
    if column is None:
        return None
    if isinstance(column, Mapping):
        return {name: _taken(values, rows) for name, values in column.items()}
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
