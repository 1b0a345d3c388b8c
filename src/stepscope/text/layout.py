"""Plain tables of text: columns as wide as what they hold, up to a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and a text a row; words stand on the left of their column, numbers on the right."""

    header: str
    cells: list[str]
    is_text: bool = False

    def lines(self, max_width: int) -> list[str]:
        """Return heading, rule and cells, all of one width."""
        width = min(max(len(cell) for cell in (self.header, *self.cells)), max_width)
        cut = [cell if len(cell) <= width else cell[: width - 3] + "..." for cell in self.cells]
        lines = [self.header, "-" * width, *cut]
        return [line.ljust(width) if self.is_text else line.rjust(width) for line in lines]


def text_lines(columns: Sequence[Column], max_width: int) -> list[str]:
    """Lay columns out beside each other, no column wider than ``max_width``."""
    rows = zip(*(column.lines(max_width) for column in columns), strict=True)
    return [_GAP.join(row).rstrip() for row in rows]
