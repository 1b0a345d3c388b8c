"""The data of a page: named columns and JSON values in one compressed block.

The block is ``length of the header (4 bytes) | header (JSON) | columns``, all little-endian, each
column at a multiple of 8 bytes. ``static/decode.js`` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.labels import Labels
from stepscope.report.base.detail import Detail
from stepscope.trace.build import empty_trace
from stepscope.trace.measures import Measure

_ALIGNMENT = 8
_UNSIGNED = (np.uint8, np.uint16, np.uint32)

Columns = Mapping[str, Sequence[str] | NDArray[Any]]


class Payload:
    """Collects columns and values; ``packed`` is what the page decodes."""

    def __init__(
        self,
        detail: Detail | None = None,
        *,
        with_code: bool = True,
        code_from: Sequence[Path] | None = None,
    ) -> None:
        """With ``with_code``, sections add the text of the user's files.

        ``code_from`` limits these to files in some folders.
        """
        self.with_code = with_code
        self.code_from = code_from
        self._detail = detail
        self._header: dict[str, Any] = {"columns": {}, "values": {}}
        self._parts: list[bytes] = []
        self._size = 0

    def add_value(self, name: str, value: Any) -> None:
        self._header["values"][name] = value

    def add_column(self, name: str, values: NDArray[Any], *, ascending: bool = False) -> None:
        """Add a column of numbers in the narrowest type that holds them.

        Integers above 32 bits become float64, exact up to 2**53. An ``ascending`` column is stored
        as differences, which compress better.
        """
        stored, codec = np.asarray(values), "plain"
        if ascending and len(stored):
            if stored.dtype.kind == "u":  # unsigned differences would wrap around
                stored = stored.astype(np.int64)
            stored, codec = np.diff(stored, prepend=stored[:1] * 0), "sums"
        stored = _narrowest(stored)
        columns = self._header["columns"]
        columns[name] = {
            "type": stored.dtype.name,
            "length": len(stored),
            "offset": self._size,
            "codec": codec,
        }
        # Bytes of equal significance are adjacent: high bytes are alike and compress well.
        planes = stored.view(np.uint8).reshape(len(stored), -1).T if len(stored) else stored
        self._add(np.ascontiguousarray(planes).tobytes())

    def drop_slices(self) -> None:
        """Free the page's slices, once no section needs them any more."""
        if self._detail is not None and self._detail.row_in_page is not None:
            self._detail = replace(self._detail, trace=empty_trace())

    def page_rows(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the page's rows of some slices of the trace.

        A slice that the page leaves out has the row of its parent, or NO_SLICE.
        """
        return rows if self._detail is None else self._detail.page_rows(rows)

    def packed(self) -> bytes:
        header = json.dumps(self._header, allow_nan=False, separators=(",", ":")).encode()
        padding = -(len(header) + 4) % _ALIGNMENT
        header += b" " * padding
        return b"".join([len(header).to_bytes(4, "little"), header, *self._parts])

    def _add(self, data: bytes) -> None:
        padding = -len(data) % _ALIGNMENT
        self._parts.append(data + b"\0" * padding)
        self._size += len(data) + padding


def _narrowest(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind == "f":
        return values.astype("<f8" if values.dtype.itemsize > 4 else "<f4")
    if values.dtype.kind == "b":
        return values.astype(np.uint8)
    if not len(values):
        return values.astype(np.uint8)
    least, most = int(values.min()), int(values.max())
    if least >= 0:
        for kind in _UNSIGNED:
            if most <= np.iinfo(kind).max:
                return values.astype(kind)
    elif least >= np.iinfo(np.int32).min and most <= np.iinfo(np.int32).max:
        return values.astype("<i4")
    return values.astype("<f8")


def add_table(payload: Payload, name: str, columns: Columns) -> None:
    """Add a table: its columns are ``name.key``, texts are codes of ``name.key``'s own texts.

    A sequence that is no array has texts, and so have Labels. Unknown numbers are NaN.
    """
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise ValueError(f"table {name!r} has columns of {sorted(lengths)} rows; they must match")
    payload.add_value(f"{name}.rows", lengths.pop())
    for key, column in columns.items():
        if isinstance(column, np.ndarray):
            payload.add_column(f"{name}.{key}", column)
        else:
            labels = column if isinstance(column, Labels) else _labels(column)
            used, codes = np.unique(labels.codes, return_inverse=True)
            payload.add_column(f"{name}.{key}", codes)
            add_texts(payload, f"{name}.{key}", [labels.texts[int(code)] for code in used])


def add_headings(payload: Payload, name: str, measures: Iterable[Measure]) -> None:
    """Add ``name.headings``: what the page shows of tables, as far as they have these columns."""
    payload.add_value(f"{name}.headings", [measure.to_json() for measure in measures])


def add_texts(payload: Payload, name: str, texts: Sequence[str]) -> None:
    """Add texts as ``name.texts``, their bytes, and ``name.ends``, where each of them ends."""
    # A lone surrogate, which a JSON escape may spell, cannot be encoded.
    encoded = [text.encode("utf-8", "replace") for text in texts]
    payload.add_column(f"{name}.texts", np.frombuffer(b"".join(encoded), np.uint8))
    payload.add_column(f"{name}.ends", np.cumsum([len(text) for text in encoded] or [0]))


def known_or_nan(column: NDArray[Any], unknown: int = -1) -> NDArray[Any]:
    """Return the column with NaN for unknown values."""
    missing = column == unknown
    return np.where(missing, np.nan, column) if missing.any() else column


def _labels(texts: Sequence[str]) -> Labels[str]:
    code_of: dict[str, int] = {}
    codes = [code_of.setdefault(text, len(code_of)) for text in texts]
    return Labels(np.array(codes, np.uint32), tuple(code_of))
