"""What a remedy is: facts about a program in, changes of its source out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from stepscope.registry import Registry
from stepscope.remedies.edits import Edit, NoPlaceError, Sources

COMPILED = "compiled"  # the proof of a change that takes long to take effect

THREADS = "threads"  # the proof of a change that depends on what else the machine does


class Change(NamedTuple):
    """A change of the source that may make the program faster."""

    title: str
    place: str  # file:line, as users read it
    edits: tuple[Edit, ...]
    promise: float  # the share of a step's time that it may save, at most; only an order
    proof: str  # the part of the program's state that is another where the change took effect


class Facts(NamedTuple):
    """What the survey of a program has told, and its files."""

    survey: Mapping[str, Any]
    sources: Sources
    unit: str

    @property
    def seconds(self) -> float:
        return float(self.survey["seconds"]) or 1.0

    def constructed(self, kind: str) -> Iterator[Mapping[str, Any]]:
        return (facts for facts in self.survey["constructed"] if facts["kind"] == kind)

    def calls(self, *names: str) -> Iterator[Mapping[str, Any]]:
        return (facts for facts in self.survey["calls"] if facts["name"] in names)

    @property
    def model(self) -> Mapping[str, Any] | None:
        """The module whose outermost calls take longest."""
        return max(self.survey["models"], key=lambda facts: float(facts["seconds"]), default=None)

    def loop(self) -> tuple[str, ast.For | ast.While] | None:
        """Return the file and the outermost loop that makes the steps."""
        for place in self.survey["loops"].get(self.unit, ()):
            try:
                loop = self.sources[place[0]].loop_around(place[1])
            except NoPlaceError:
                continue
            if loop is not None:
                return place[0], loop
        return None

    @property
    def main(self) -> str:
        """The file whose module-level code makes the steps."""
        places = self.survey["loops"].get(self.unit) or ()
        return str(places[-1][0]) if places else str(self.survey["main"])

    def inserted_on_top(self, module: str, *lines: str) -> Edit:
        """Insert lines that need a module into the program's main file."""
        source = self.sources[self.main]
        imports = () if source.imports(module) else (f"import {module}",)
        return source.insert_after_imports(*imports, "", *lines)


class Remedy(Protocol):
    """A way to make a program faster."""

    def changes(self, facts: Facts) -> Iterator[Change]:
        """Yield a change for facts place where the remedy applies."""


REMEDIES: Registry[type[Remedy]] = Registry(early=True)


def place_text(path: str, line: int) -> str:
    return f"{Path(path).name}:{line}"


def all_changes(facts: Facts) -> list[Change]:
    """Return the changes that apply, those that promise most first."""
    changes: list[Change] = []
    for remedy in REMEDIES:
        made = remedy().changes(facts)
        while True:
            try:
                changes.append(next(made))
            except StopIteration:
                break
            except NoPlaceError:
                break
    return sorted(changes, key=lambda change: -change.promise)
