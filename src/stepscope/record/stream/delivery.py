"""What sources kept in memory, as a file for the process that reads it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.schema import Captured

DELIVERY = ".delivery"
"""The suffix of such files."""

_MOST_BYTES = 1 << 34


class Delivery(NamedTuple):
    """The events that a source kept in memory, and how many it lost."""

    captured: Captured
    lost: int

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        from dataclasses import fields

        from stepscope.trace.plain import packed

        strings = self.captured.strings
        parts = {field.name: getattr(self.captured, field.name) for field in fields(self.captured)}
        parts["strings"] = (strings.blob, strings.offsets)
        part = path.with_suffix(".part")
        with contextlib.suppress(FileNotFoundError):  # the reader waits no longer
            part.write_bytes(packed((parts, self.lost)))
            part.replace(path)

    @classmethod
    def load(cls, path: Path) -> Delivery:
        """Read a file that ``save`` wrote; PlainError for any other content, or OSError."""
        from stepscope.trace.plain import unpacked
        from stepscope.trace.regular_file import read_regular
        from stepscope.trace.schema import TABLES, Captured, Track
        from stepscope.trace.strings import Strings
        from stepscope.trace.table import Args, IntColumn

        data = read_regular(path, _MOST_BYTES, follow_links=False)
        parts, lost = unpacked(data, (*TABLES.values(), Track, Args, IntColumn))
        return cls(Captured(**{**parts, "strings": Strings(*parts["strings"])}), lost)
