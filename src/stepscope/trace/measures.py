"""Measures: what tables count, time or weigh, each stated once.

A column of an analysis is a measure where the line of its field says so. Its heading, unit and
meaning on the report's pages, in the terminal and in JSON come from that line. ``add_measure`` adds
a measure of slices from outside the package: a column of the trace, and of all tables that sum
slices up. ``docs/trace.md`` says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from stepscope.registry import Registry
from stepscope.trace.schema import Slices
from stepscope.trace.table import Column, Int64, add_column, remove_column
from stepscope.units import UNITS, Unit


class Sums(Enum):
    """What becomes of the values of several slices or rows."""

    NOT = "not summed"  # texts, extremes
    ADDED = "added up"
    CALLS = "added up along calls"  # what a call has includes that of the calls inside
    WEIGHTED = "mean, weighted by time"


class Shown(Enum):
    """Which tables have a column where it has values; data frames, SQL and JSON have all."""

    EVERYWHERE = "pages, and all tables of the terminal"
    DETAILS = "pages, and tables of the terminal that were asked for"
    PAGES = "pages"
    DATA = "data frames, SQL and JSON"


@dataclass(frozen=True, slots=True)
class Measure:
    """What the values of a column are."""

    name: str
    title: str  # the heading of its column
    unit: Unit
    meaning: str = ""
    sums: Sums = Sums.ADDED
    shown: Shown = Shown.EVERYWHERE

    @property
    def absent(self) -> int:
        """Return what stands for no value: of sums 0, which adds nothing."""
        return -1 if self.sums is Sums.WEIGHTED else 0

    def to_json(self) -> dict[str, Any]:
        """Return it as the report's pages need it, with the rules of a unit that is not ours."""
        unit = self.unit.name if self.unit in UNITS else self.unit._asdict()
        return {"key": self.name, "title": self.title, "unit": unit, "hint": self.meaning}


_KEY = "measure"
_Function = TypeVar("_Function", bound=Callable[..., Any])
_PROPERTIES: dict[Callable[..., Any], tuple[str, Measure]] = {}  # by what returns their values


def measure(
    title: str,
    unit: Unit,
    meaning: str = "",
    sums: Sums = Sums.NOT,
    shown: Shown = Shown.EVERYWHERE,
    *,
    default: Any = MISSING,
) -> Any:
    """Declare a column of a table, whose name is that of the field."""
    return field(default=default, metadata={_KEY: Measure("", title, unit, meaning, sums, shown)})


def states(
    title: str, unit: Unit, meaning: str = "", *, after: str, shown: Shown = Shown.EVERYWHERE
) -> Callable[[_Function], _Function]:
    """Say what a property of a table is: a column that follows the one of a field."""

    def note(function: _Function) -> _Function:
        of = Measure(function.__name__, title, unit, meaning, Sums.NOT, shown)
        _PROPERTIES[function] = after, of
        return function

    return note


def measures_of(table: type) -> dict[str, Measure]:
    """Return the measures that the fields and properties of a table declare, by name."""
    following: dict[str, list[Measure]] = {}
    for member in vars(table).values():
        if isinstance(member, property) and member.fget in _PROPERTIES:
            after, of = _PROPERTIES[member.fget]
            following.setdefault(after, []).append(of)
    stated: list[Measure] = []
    for member in fields(table):
        if _KEY in member.metadata:
            stated.append(replace(member.metadata[_KEY], name=member.name))
        stated += following.get(member.name, [])
    return {of.name: of for of in stated}


# Measures of slices from outside the package: register them with ``add_measure``.
MEASURES: Registry[Measure] = Registry()


def add_measure(added: Measure) -> None:
    """Add a measure of slices from outside the package, as a column that sources and readers fill.

    It is ADDED or WEIGHTED. Its values are integers; no value is 0, and -1 for a WEIGHTED one.
    """
    if added.sums not in {Sums.ADDED, Sums.WEIGHTED}:
        raise ValueError(f"the measure {added.name!r} is {added.sums}: use ADDED or WEIGHTED")
    spec = Column(added.meaning, np.int64, unit=added.unit.one, absent=added.absent)
    add_column(Slices, added.name, spec)
    MEASURES.register(added)


def remove_measure(added: Measure) -> None:
    """Undo ``add_measure``."""
    MEASURES.unregister(added)
    remove_column(Slices, added.name)


def measured(slices: Slices) -> Iterator[tuple[Measure, Int64]]:
    """Yield the added measures that a trace has values of, and these by slice."""
    for added in MEASURES:
        values = getattr(slices, added.name)
        if (values != added.absent).any():
            yield added, values


def measures_of_calls() -> dict[str, Measure]:
    """Return the added measures as calls have them: their own, and with the calls inside."""
    both: dict[str, Measure] = {}
    for added in MEASURES:
        if added.sums is Sums.ADDED:
            title, name = f"Self {added.title.lower()}", f"self_{added.name}"
            hint = f"{added.meaning}, with the calls inside"
            both[name] = replace(added, name=name, title=title)
            both[added.name] = replace(added, meaning=hint, sums=Sums.CALLS)
    return both
