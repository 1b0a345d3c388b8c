"""The layout of text tables: ours, torch.profiler's and Paddle's."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

from stepscope.units import COUNT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import NDArray

    from stepscope.trace.measures import Measure

_GAP = "  "


class Layout(NamedTuple):
    """Columns of given widths, with a gap after each; a wider text overflows."""

    widths: tuple[int, ...]
    is_left: tuple[bool, ...] = ()  # for each column; empty: all are left-aligned

    @property
    def rule(self) -> str:
        return self.line("-" * width for width in self.widths)

    @property
    def length(self) -> int:
        return sum(self.widths) + len(_GAP) * (len(self.widths) - 1)

    def line(self, cells: Iterable[str]) -> str:
        sides = self.is_left or (True,) * len(self.widths)
        places = zip(cells, self.widths, sides, strict=True)
        fitted = (text.ljust(n) if is_left else text.rjust(n) for text, n, is_left in places)
        return "".join(text + _GAP for text in fitted)

    def titled(self, text: str) -> str:
        """Return a line of dashes with a text in its middle."""
        room = self.length - len(text)
        return "-" * (room // 2) + text + "-" * (room - room // 2)


class Column(NamedTuple):
    """A heading and a text per row; words are left-aligned, numbers right-aligned."""

    header: str
    cells: list[str]
    is_text: bool = False


def measured_column(measure: Measure, values: Sequence[str] | NDArray[Any]) -> Column:
    """Return the values of a measure; those that are not known, -1 or NaN, have an empty text."""
    if isinstance(values, Sequence):
        return Column(measure.title, [printable(text) for text in values], is_text=True)

    def text(value: float) -> str:
        if value == -1 or isnan(value):
            return ""
        return measure.unit.text(value) if value or measure.unit is COUNT else "-"

    return Column(measure.title, [text(value) for value in values.tolist()])


def text_lines(columns: Sequence[Column], max_width: int) -> list[str]:
    """Lay columns out as wide as their content, no column wider than ``max_width``."""
    widths = [min(max(map(len, (c.header, *c.cells))), max_width) for c in columns]
    layout = Layout(tuple(widths), tuple(column.is_text for column in columns))
    rows = zip(*(column.cells for column in columns), strict=True)
    cut_rows = ([cut(text, n) for text, n in zip(row, widths, strict=True)] for row in rows)
    lines = [[column.header for column in columns], ["-" * width for width in widths], *cut_rows]
    return [layout.line(cells).rstrip() for cells in lines]


def rows_left_out(count: int) -> list[str]:
    """Return a line that tells how many rows are not shown, if any."""
    return [f"({count:,} more rows)"] if count else []


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def printable(text: str) -> str:
    """Escape what would break the line or the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def markdown(text: str) -> str:
    """Escape a text for Markdown."""
    plain = printable(text)
    for sign in "\\|`*_<>[]":
        plain = plain.replace(sign, f"\\{sign}")
    return plain
