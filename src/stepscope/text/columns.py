"""Columns of numbers and words for the tables of the device analyses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.device.kernels import UNKNOWN
from stepscope.text.layout import Column, printable, rows_left_out, text_lines
from stepscope.trace.model import Int64
from stepscope.units import duration_text, percent_text, rate_text, scaled_text, size_text

OPERATOR_WIDTH = 32
_NAME_WIDTH = 52


def table_text(
    rows: Sequence[object] | NDArray[np.int64], limit: int, columns: list[Column]
) -> str:
    """Return some columns as lines, with a last one that says how many rows are left out."""
    count = len(rows)
    if not count:
        return ""
    shown = count if limit < 0 else min(limit, count)
    cut = [Column(c.header, c.cells[:shown], c.is_text) for c in columns]
    lines = [*text_lines(cut, _NAME_WIDTH), *rows_left_out(count - shown)]
    return "\n".join(lines) + "\n"


def words(header: str, cells: Sequence[str]) -> Column:
    """Return a column of words."""
    return Column(header, list(cells), is_text=True)


def numbers(header: str, values: Int64, show: Callable[[int], str]) -> Column:
    """Return a column of numbers."""
    return Column(header, [show(value) for value in values.tolist()])


def optional(
    header: str, values: Int64, show: Callable[[int], str], nothing: int = 0
) -> list[Column]:
    """Return a column of numbers, if any of them is more than nothing."""
    return [numbers(header, values, show)] if (values != nothing).any() else []


def shares(header: str, part: Int64, whole: Int64) -> Column:
    """Return a column of shares of a whole."""
    found = part / np.maximum(whole, 1)
    return Column(header, [percent_text(share) for share in found.tolist()])


def time_text(ns: int) -> str:
    """Return a time; a dash for none."""
    return duration_text(ns) if ns else "-"


def number_text(count: int) -> str:
    """Return a number with thousands set apart."""
    return f"{count:,}"


def known(value: int) -> str:
    """Return a number, nothing where it is unknown."""
    return "" if value == UNKNOWN else str(value)


def known_bytes(value: int) -> str:
    """Return a size, nothing where it is unknown."""
    return "" if value == UNKNOWN else size_text(value) if value else "-"


def rate_or_dash(bytes_per_second: float) -> str:
    """Return a rate, a dash where it is unknown."""
    return rate_text(bytes_per_second) if bytes_per_second else "-"


def amount_text(count: float, unit: str) -> str:
    """Return an amount of operations, a dash where it is unknown."""
    return scaled_text(count, unit) if count else "-"


def cut_middle(text: str, width: int = _NAME_WIDTH) -> str:
    """Leave out the middle: long names differ at their ends."""
    text = printable(text)
    tail = width // 4
    return text if len(text) <= width else f"{text[: width - tail - 3]}...{text[-tail:]}"
