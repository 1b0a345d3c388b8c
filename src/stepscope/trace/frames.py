"""The Trace as data frames: ids spelled out, one row per slice.

Texts are Polars categoricals made from the trace's codes, so that a million rows need no Python
object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import IntEnum, IntFlag
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stepscope import _native
from stepscope.trace.schema import Captured
from stepscope.trace.strings import Strings
from stepscope.trace.table import Column, Role, Table


def slices_frame(
    trace: Captured, args: Iterable[str] = (), only: Collection[str] | None = None
) -> pl.DataFrame:
    """Return one row per slice, in the trace's order; ``docs/trace.md`` explains the columns.

    Ids are spelled out: ``pid``, ``tid``, ``process`` and ``thread`` replace the track, and each
    flag is a column of its own. Where a column has no value it is null. Each key of ``args`` adds a
    column with that integer argument. ``only`` names the columns that are needed.
    """
    frame = table_frame(trace, trace.slices, only)
    return frame.with_columns(**{key: _integer_arg(trace, key) for key in args})


def table_frame(trace: Captured, table: Table, only: Collection[str] | None = None) -> pl.DataFrame:
    """Return the rows of any table of a trace, with ids spelled out as in ``slices_frame``."""
    columns: dict[str, pl.Series] = {}
    for column, spec in type(table).columns().items():
        if spec.in_frame and spec.dtype is not None and not spec.transient:
            for name, make in _spelled(trace, column, spec, getattr(table, column)):
                if only is None or name in only:
                    columns[name] = make()
    return pl.DataFrame(columns)


def frame_columns(table: type[Table]) -> dict[str, str]:
    """Return the columns of a table's frame, and the meaning of each with its unit."""
    columns: dict[str, str] = {}
    for name, spec in table.columns().items():
        if spec.role is Role.TRACK:
            columns |= {shown: meaning for shown, (_, meaning) in _OF_TRACKS.items()}
        elif spec.words is not None and issubclass(spec.words, IntFlag):
            columns |= _FLAG_MEANINGS
        elif spec.in_frame and spec.dtype is not None and not spec.transient:
            words = ", ".join(word.name.lower() for word in spec.words or ())
            null = "null if none" if spec.may_be_absent else ""
            columns[name] = "; ".join(filter(None, (spec.unit, spec.meaning, words, null)))
    return columns


def text_series(texts: Sequence[str], codes: NDArray[np.integer[Any]]) -> pl.Series:
    """Return a column of texts, given by number for each row."""
    return _by_code(texts, codes.astype(np.uint32, copy=False))


def _spelled(
    trace: Captured, name: str, spec: Column, values: NDArray[Any]
) -> Iterator[tuple[str, Callable[[], pl.Series]]]:
    tracks = trace.tracks
    if spec.role is Role.TRACK:
        for shown, (of_track, _) in _OF_TRACKS.items():
            texts = [getattr(track, of_track) for track in tracks]
            yield shown, partial(_by_code, texts, values)
    elif spec.words is not None and issubclass(spec.words, IntFlag):
        for flag in spec.words:
            yield str(flag.name).lower(), partial(_flag_series, values, int(flag))
    elif spec.may_be_absent:
        yield name, partial(_or_null, values, spec.absent)
    else:
        yield name, partial(stored_series, trace.strings, spec, values)


# The fields of a track, by the names of their columns, and what these mean.
_OF_TRACKS = {
    "pid": ("pid", "the process, as the recording tool numbered it"),
    "tid": ("tid", "the thread, or the stream's track"),
    "process": ("process_name", "the process's name"),
    "thread": ("thread_name", "the thread's name"),
}
_FLAG_MEANINGS = {
    "unfinished": "whether the recording ended before it did",
    "async": "whether its thread did other things meanwhile",
    "backward": "whether it belongs to the backward pass",
}


def _flag_series(values: NDArray[Any], flag: int) -> pl.Series:
    return pl.Series((values & flag) != 0)


def _or_null(values: NDArray[Any], absent: Any) -> pl.Series:
    series = pl.Series(values)
    return series.set(series == absent, None)


def stored_series(strings: Strings, spec: Column, values: NDArray[np.generic]) -> pl.Series:
    """Return a column as in the files of a saved trace, with texts and words spelled out."""
    if spec.role is Role.TEXT:
        return _categorical(strings, values.astype(np.uint32, copy=False))
    if spec.words is not None and issubclass(spec.words, IntEnum):
        return words_series(spec).gather(values.astype(np.uint32))
    if spec.letters:
        letters = pl.Series([chr(code) for code in range(256)], dtype=pl.Categorical)
        return letters.gather(values.astype(np.uint32))
    return pl.Series(values)


def words_series(spec: Column) -> pl.Series:
    """Return the words for a column's numbers."""
    assert spec.words is not None
    words = [word.name.lower() for word in spec.words]
    return pl.Series(words, dtype=pl.Enum(words))


def valid_text(text: str) -> str:
    """Replace lone surrogates, which UTF-8 and so Arrow cannot hold."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _categorical(strings: Strings, ids: NDArray[np.uint32]) -> pl.Series:
    """Return the texts of ids, looked up in a table with an entry for every id.

    With millions of rows, another pass over the ids would take as long as a query.
    """
    distinct = _native.present(np.ascontiguousarray(ids))
    words: list[str | None] = [None] * (int(distinct.max(initial=0)) + 1)
    for text_id in distinct.tolist():
        words[text_id] = valid_text(strings[text_id])
    return pl.Series(words, dtype=pl.Categorical).gather(ids)


def _by_code(texts: Sequence[str], codes: NDArray[np.uint32]) -> pl.Series:
    words = pl.Series([valid_text(text) for text in texts], dtype=pl.Categorical)
    return words.gather(codes)


def _integer_arg(trace: Captured, key: str) -> pl.Series:
    column = trace.slices.args.integers.get(key)
    series = pl.repeat(None, len(trace.slices), dtype=pl.Int64, eager=True)
    return series if column is None else series.scatter(column.rows, column.values)
