"""The stacks of several traces or sources as one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.trace.schema import Stacks

if TYPE_CHECKING:
    from numpy.typing import NDArray


class StackTree:
    """Collects distinct stacks."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], int] = {(0, 0): 0}  # by parent and frame

    def add(self, stacks: Stacks, text: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the new row of each row of ``stacks``."""
        row_of = np.zeros(len(stacks), np.uint32)
        for row in range(1, len(stacks)):
            key = (int(row_of[stacks.parent[row]]), int(text[stacks.frame[row]]))
            row_of[row] = self._rows.setdefault(key, len(self._rows))
        return row_of

    def table(self) -> Stacks:
        pairs = np.array(list(self._rows), np.uint32)
        return Stacks(pairs[:, 0], pairs[:, 1])
