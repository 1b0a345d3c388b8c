"""A trace's string table with texts that a writer adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stepscope.trace.strings import Strings
    from stepscope.trace.table import Int64


class AddedTexts:
    """A trace's string table, and texts that an export adds."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._added: list[bytes] = []

    def add(self, text: str) -> int:
        self._added.append(text.encode("utf-8", "replace"))
        return len(self._strings) + len(self._added) - 1

    def table(self) -> tuple[bytes, Int64]:
        """Return the bytes, and the offset of each text."""
        blob, offsets = self._strings.blob, self._strings.offsets
        if not self._added:
            return blob, offsets
        end = int(offsets[-1])
        ends = end + np.cumsum([len(text) for text in self._added])
        return blob[:end] + b"".join(self._added), np.concatenate((offsets, ends))
