"""Something that is counted, who has how much of it, and how that is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.units import Unit


@dataclass(frozen=True, slots=True)
class Share:
    """An operator, kernel or line, and its part of a quantity."""

    name: str
    total: float
    places: tuple[tuple[str, float], ...] = ()  # its lines if known, the largest first

    @property
    def place(self) -> str:
        """Return the line that has the largest part of the quantity; empty if no line is known."""
        return self.places[0][0] if self.places else ""

    @property
    def words(self) -> str:
        return f"{self.name} at {self.place}" if self.place else self.name

    def new_place(self, before: Share | None) -> str:
        """Return the line whose amount grew; lines may have moved since."""
        places = list(self.places)
        for former in before.places if before is not None else ():
            same = [place for place in places if place == former] or [
                place for place in places if place[1] == former[1]
            ]
            if same:
                places.remove(same[0])
        return places[0][0] if places else self.place


@dataclass(frozen=True, slots=True)
class Quantity:
    name: str
    words: str
    unit: Unit
    total: float | None  # None if unknown
    by_step: tuple[float, ...] = ()  # empty if it is not counted by step, or without steps
    rows: tuple[Share, ...] = ()  # the largest first
    why_not: str = ""

    @property
    def later_steps(self) -> tuple[float, ...]:
        """Return all steps but the first, which may include one-time work."""
        return self.by_step[1:] if len(self.by_step) > 2 else self.by_step

    @property
    def a_step(self) -> float | None:
        """Return the usual amount in a step; None if it is not counted by step."""
        return float(np.median(self.later_steps)) if self.by_step else None

    def text(self, value: float) -> str:
        return self.unit.text(value)

    def to_json(self) -> dict[str, Any]:
        rows = [{"name": row.name, "total": row.total} for row in self.rows]
        amounts = {"total": self.total, "a_step": self.a_step, "unit": self.unit.one}
        return {"name": self.name, **amounts, "rows": rows}
