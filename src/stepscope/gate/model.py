"""A judgement: every rule, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from stepscope.analysis.compare.model import Diff


class Outcome(Enum):
    """What became of a rule."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"  # what was recorded does not tell
    BETTER = "better"


@dataclass(frozen=True, slots=True)
class Check:
    """One rule, and what became of it."""

    rule: str
    words: str
    outcome: Outcome
    before: str = ""
    after: str = ""
    change: str = ""
    allowed: str = ""
    why: str = ""
    guilty: str = ""  # the row that grew most

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-compatible values."""
        told = {name: getattr(self, name) for name in self.__slots__ if name != "outcome"}
        return {**told, "outcome": self.outcome.value}


@dataclass(frozen=True, slots=True)
class Judgement:
    """All rules, and what else is to be said."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    diff: Diff | None = field(default=None, repr=False)  # where the step time was compared

    @property
    def failed(self) -> tuple[Check, ...]:
        """Return the rules that were broken."""
        return tuple(each for each in self.checks if each.outcome is Outcome.FAILED)

    @property
    def ok(self) -> bool:
        """Tell whether no rule was broken."""
        return not self.failed

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-compatible values."""
        checks = [each.to_json() for each in self.checks]
        return {"ok": self.ok, "checks": checks, "notes": list(self.notes)}
