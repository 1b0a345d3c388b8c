"""The state of one conversion, shared by all its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscope.migrate.edits import Edits
from stepscope.migrate.mapping import Dialect, Direction

if TYPE_CHECKING:
    from libcst import CSTNode as Node

    from stepscope.migrate.parsed import Parsed


@dataclass(frozen=True, eq=False)
class Conversion:
    """A program, the two dialects, the mapping between them, and the edits to the text."""

    parsed: Parsed
    edits: Edits
    source: Dialect
    target: Dialect
    way: Direction

    def missing(self, node: Node, name: str) -> None:
        """Remark at the end of the line that a name has no counterpart."""
        if name in self.way.approximations:
            self.approximate(node, name)
            return
        self.edits.remark_missing(self.parsed.end(node), name, self.target.module)

    def approximate(self, node: Node, what: str) -> None:
        """Remark that the counterpart differs slightly, if it does."""
        text = self.way.approximations.get(what)
        if text:
            self.edits.remark(self.parsed.end(node), text.format(self.target.module))
