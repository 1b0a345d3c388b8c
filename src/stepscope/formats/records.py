"""Tables as CSV and JSON: any columns of equal length, with any text in them."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.formats.base.files import output_file

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]

_ROWS_A_WRITE = 4096


def write_csv(columns: Columns, path: str | os.PathLike[str]) -> None:
    """Write columns as CSV with a header, compressed when ``path`` ends in ``.gz``.

    Lists, such as the frames of a stack, are written as JSON. Texts are quoted where they must be
    and are read back as they were, line ends and all, by a reader that does not translate them.
    """
    with output_file(path) as sink:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        for number, row in enumerate(_rows(columns), 1):
            writer.writerow([_cell(value) for value in row])
            if number % _ROWS_A_WRITE == 0:
                sink.write(text.getvalue().encode())
                text.seek(0)
                text.truncate()
        sink.write(text.getvalue().encode())


def write_json(columns: Columns, path: str | os.PathLike[str]) -> None:
    """Write columns as a JSON array with one object per row; ``.gz`` compresses."""
    keys = list(columns)
    with output_file(path) as sink:
        sink.write(b"[")
        before = "\n"
        for row in _rows(columns):
            pairs = {key: _finite(value) for key, value in zip(keys, row, strict=True)}
            sink.write(f"{before}{json.dumps(pairs, allow_nan=False)}".encode())
            before = ",\n"
        sink.write(b"\n]\n")


def _rows(columns: Columns) -> Iterator[tuple[Any, ...]]:
    plain = (c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values())
    return zip(*plain, strict=True)


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False)
    if value is None or value is True or value is False:
        return json.dumps(value) if value is not None else ""
    return value


def _finite(value: Any) -> Any:
    """Replace NaN and infinities, which JSON lacks, by null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
