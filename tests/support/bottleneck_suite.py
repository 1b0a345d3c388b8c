"""Reads what the programs of ``tests/bottlenecks`` say about themselves.

A program's docstring has lines ``Problem:``, ``Needs:``, ``Files:`` and ``Gain:``, and its guilty
lines end with ``# guilty`` (see ``tests/bottlenecks/README.md``).
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITE = Path(__file__).parents[1] / "bottlenecks"
ON_DEVICE = SUITE / "device"  # programs for a machine with a GPU
FIELDS = ("Problem", "Needs", "Files", "Gain")
NOTHING = "nothing"  # what a program needs that needs no package

_FIELD = re.compile(rf"^({'|'.join(FIELDS)}): (.+)$", re.MULTILINE)
_STEPS = re.compile(r'environ\.get\("STEPS", "(\d+)"\)')
_GUILTY = re.compile(r"# guilty$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """One program of the suite."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def facts(self) -> dict[str, str]:
        """What its docstring states."""
        return dict(_FIELD.findall(ast.get_docstring(ast.parse(self.text)) or ""))

    @property
    def is_healthy(self) -> bool:
        return self.facts["Problem"] == "none"

    @property
    def problems(self) -> tuple[str, ...]:
        """The findings that name its problem, the best one first."""
        return () if self.is_healthy else _words(self.facts["Problem"])

    @property
    def needs(self) -> tuple[str, ...]:
        """The packages that it imports."""
        return tuple(word for word in _words(self.facts["Needs"]) if word != NOTHING)

    @property
    def has_gain(self) -> bool:
        """Whether it gets faster when the problem is taken out."""
        return not self.is_healthy and "Gain" not in self.facts

    @property
    def steps(self) -> int:
        """How many steps it takes unless it is told otherwise."""
        match = _STEPS.search(self.text)
        return int(match[1]) if match else 0

    @cached_property
    def guilty(self) -> set[tuple[str, int]]:
        """The lines that may be named, each with the name of its file."""
        files = (self.path.name, *_words(self.facts.get("Files", "")))
        return {
            (Path(file).name, line)
            for file in files
            for line in guilty_lines((self.path.parent / file).read_text(encoding="utf-8"))
        }


def programs(suite: Path = SUITE) -> list[Program]:
    """Return the programs of a suite: those with a problem, then the healthy ones."""
    return [
        Program(path)
        for folder in ("planted", "healthy")
        for path in sorted((suite / folder).glob("*.py"))
    ]


def guilty_lines(text: str) -> set[int]:
    """Return the marked lines; of a statement of several lines all, whichever is marked.

    Python says of a call over several lines now that it is on the first, now on the last.
    """
    marked = {text.count("\n", 0, item.start()) + 1 for item in _GUILTY.finditer(text)}
    lines = set(marked)
    for first, last in _statements(ast.parse(text)):
        if not marked.isdisjoint(range(first, last + 1)):
            lines.update(range(first, last + 1))
    return lines


def _statements(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield the lines of every statement, from the first to the last: of a block, of its head."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno
            yield node.lineno, max(node.lineno, last or node.lineno)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[,\s]+", text) if word)
