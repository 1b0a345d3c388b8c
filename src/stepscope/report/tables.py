"""Tables in a payload: columns of numbers and of texts, which the page decodes when it needs them.

``static/lib/columns.js`` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.labels import Labels
from stepscope.report.payload import Payload

Columns = Mapping[str, Sequence[str] | NDArray[Any]]


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
