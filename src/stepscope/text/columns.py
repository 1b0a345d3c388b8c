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
    """Return columns as lines; a last one tells how many rows were left out."""
    count = len(rows)
    if not count:
        return ""
    shown = count if limit < 0 else min(limit, count)
    cut = [Column(c.header, c.cells[:shown], c.is_text) for c in columns]
    lines = [*text_lines(cut, _NAME_WIDTH), *rows_left_out(count - shown)]
    return "\n".join(lines) + "\n"


def words(header: str, cells: Sequence[str]) -> Column:
    return Column(header, list(cells), is_text=True)


def numbers(header: str, values: Int64, show: Callable[[int], str]) -> Column:
    return Column(header, [show(value) for value in values.tolist()])


def optional(
    header: str, values: Int64, show: Callable[[int], str], nothing: int = 0
) -> list[Column]:
    """Return a column of numbers, or none if no value is above zero."""
    return [numbers(header, values, show)] if (values != nothing).any() else []


def shares(header: str, part: Int64, whole: Int64) -> Column:
    fractions = part / np.maximum(whole, 1)
    return Column(header, [percent_text(share) for share in fractions.tolist()])


def time_text(ns: int) -> str:
    return duration_text(ns) if ns else "-"


def number_text(count: int) -> str:
    return f"{count:,}"


def number_or_blank(value: int) -> str:
    """Return a number, or an empty text for an unknown one."""
    return "" if value == UNKNOWN else str(value)


def size_or_blank(value: int) -> str:
    """Return a size, or an empty text for an unknown one."""
    return "" if value == UNKNOWN else size_text(value) if value else "-"


def rate_or_dash(bytes_per_second: float) -> str:
    """Return a rate, or a dash for an unknown one."""
    return rate_text(bytes_per_second) if bytes_per_second else "-"


def amount_text(count: float, unit: str) -> str:
    """Return a number of operations, or a dash for an unknown one."""
    return scaled_text(count, unit) if count else "-"


def cut_middle(text: str, width: int = _NAME_WIDTH) -> str:
    """Leave out the middle, since long names differ at their ends."""
    text = printable(text)
    tail = width // 4
    return text if len(text) <= width else f"{text[: width - tail - 3]}...{text[-tail:]}"
