"""Tables for other engines: Parquet, one file per table, and the slices as CSV."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import polars as pl

from stepscope.formats.base.files import ExportError, output_file
from stepscope.formats.base.registry import Progress
from stepscope.trace.frames import slices_frame
from stepscope.trace.model import Trace
from stepscope.trace.placing import make_private, move_new, staging_folder
from stepscope.trace.tables import tables_of

_INTEGERS = "integers"
_OTHERS = "args"
_ROWS_AT_A_TIME = 1 << 16


def export_parquet(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    target = Path(os.path.realpath(path))
    if target.exists():
        raise ExportError(f"{os.fspath(path)} exists; choose another name, or remove it")
    if not target.parent.is_dir():
        raise ExportError(
            f"{os.fspath(path)}: the folder {target.parent} does not exist; create it"
        )
    tables = tables_of(trace)
    tables[_INTEGERS] = _plain_integers(tables[_INTEGERS])
    try:
        with staging_folder(target.parent) as beside:
            written = beside / "tables"
            written.mkdir()
            for number, (name, table) in enumerate(tables.items(), 1):
                table.write_parquet(written / f"{name}.parquet", compression="zstd")
                if progress is not None:
                    progress(number, len(tables))
            make_private(written)
            move_new(written, target)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ExportError(f"{os.fspath(path)}: {error}") from error


def _plain_integers(stored: pl.DataFrame) -> pl.DataFrame:
    """Return integer arguments as rows and values: a stored trace has their differences."""
    group = ["table", "key"]
    return stored.select(
        *group,
        pl.col("row_step").cast(pl.Int64).cum_sum().over(group).alias("row"),
        pl.col("value_step").cast(pl.Int64).cum_sum().over(group).alias("value"),
    )


def export_csv(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    """Write a line for each slice, compressed when ``path`` ends in ``.gz``.

    The columns are those of ``Trace.to_polars()``, one for each integer argument, and ``args``, the
    other arguments as JSON.
    """
    standard = slices_frame(trace).columns
    keys = [key for key in trace.slices.args.integers if key not in {*standard, _OTHERS}]
    table = slices_frame(trace, keys).with_columns(_other_arguments(trace))
    header = True
    with output_file(path) as sink:
        for rows in table.iter_slices(_ROWS_AT_A_TIME) if len(table) else [table]:
            text = io.BytesIO()
            rows.write_csv(text, include_header=header)
            sink.write(text.getvalue())
            header = False
    if progress is not None:
        progress(len(trace), len(trace))


def _other_arguments(trace: Trace) -> pl.Series:
    """Return the non-integer arguments as JSON; null for a slice without any."""
    rest, strings = trace.slices.args.rest, trace.strings
    if not len(rest):
        return pl.Series(_OTHERS, [None] * len(trace), dtype=pl.String)
    distinct, which = np.unique(rest, return_inverse=True)
    texts = [f"{{{strings[text]}}}" if text else None for text in distinct.tolist()]
    return pl.Series(_OTHERS, texts, dtype=pl.String).gather(which.astype(np.uint32))
