"""The Trace as data frames: ids spelled out, one row per slice.

Texts are Polars categoricals made from the codes that the trace holds, so that a million rows cost
no Python object.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from stepscope.trace.schema import Slices
from stepscope.trace.table import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepscope.trace.schema import Captured
    from stepscope.trace.strings import Strings
    from stepscope.trace.table import Column


def slices_frame(trace: Captured, args: Iterable[str] = ()) -> pl.DataFrame:
    """Return one row per slice, in the trace's order; ``docs/trace.md`` explains the columns.

    Ids are spelled out: ``pid``, ``tid``, ``process`` and ``thread`` replace the track, and each
    flag is a column of its own. Where a column has no value it is null. Each key of ``args`` adds a
    column with that integer argument.
    """
    columns = {
        name: series
        for column, known in Slices.columns().items()
        if known.in_frame and known.dtype is not None and not known.transient
        for name, series in _spelled(trace, column, known)
    }
    for key in args:
        columns[key] = _integer_arg(trace, key)
    return pl.DataFrame(columns)


def _spelled(trace: Captured, name: str, known: Column) -> Iterator[tuple[str, pl.Series]]:
    values, tracks = getattr(trace.slices, name), trace.tracks
    if known.role is Role.TRACK:
        yield "pid", _by_code([track.pid for track in tracks], values)
        yield "tid", _by_code([track.tid for track in tracks], values)
        yield "process", _by_code([track.process_name for track in tracks], values)
        yield "thread", _by_code([track.thread_name for track in tracks], values)
    elif known.words is not None and issubclass(known.words, IntFlag):
        for flag in known.words:
            yield str(flag.name).lower(), pl.Series((values & flag) != 0)
    elif known.may_be_absent:
        series = pl.Series(values)
        yield name, series.set(series == known.absent, None)
    else:
        yield name, stored_series(trace.strings, known, values)


def stored_series(strings: Strings, known: Column, values: NDArray[np.generic]) -> pl.Series:
    """Return a column as the files of a saved trace have it: texts and words spelled out."""
    if known.role is Role.TEXT:
        return _categorical(strings, values.astype(np.uint32, copy=False))
    if known.words is not None and issubclass(known.words, IntEnum):
        return words_series(known).gather(values.astype(np.uint32))
    if known.letters:
        letters = pl.Series([chr(code) for code in range(256)], dtype=pl.Categorical)
        return letters.gather(values.astype(np.uint32))
    return pl.Series(values)


def words_series(known: Column) -> pl.Series:
    """Return the words for a column's numbers, in their order."""
    assert known.words is not None
    words = [each.name.lower() for each in known.words]
    return pl.Series(words, dtype=pl.Enum(words))


def valid_text(text: str) -> str:
    """Replace lone surrogates, which UTF-8 and so Arrow cannot hold."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _categorical(strings: Strings, ids: NDArray[np.uint32]) -> pl.Series:
    used = np.zeros(len(strings), bool)
    used[ids] = True
    distinct = np.flatnonzero(used)
    code_of_id = np.zeros(len(strings), np.uint32)
    code_of_id[distinct] = np.arange(len(distinct), dtype=np.uint32)
    return _by_code([strings[int(i)] for i in distinct], code_of_id[ids])


def _by_code(texts: Sequence[str], codes: NDArray[np.uint32]) -> pl.Series:
    words = pl.Series([valid_text(text) for text in texts], dtype=pl.Categorical)
    return words.gather(codes)


def _integer_arg(trace: Captured, key: str) -> pl.Series:
    column = trace.slices.args.integers.get(key)
    series = pl.repeat(None, len(trace.slices), dtype=pl.Int64, eager=True)
    return series if column is None else series.scatter(column.rows, column.values)
