"""A judgement: every rule and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from stepscope.analysis.compare.model import Diff


class Outcome(Enum):
    """The result of a rule."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"  # the recording lacks the data
    BETTER = "better"


@dataclass(frozen=True, slots=True)
class Check:
    """A rule and its result."""

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
        values = {name: getattr(self, name) for name in self.__slots__ if name != "outcome"}
        return {**values, "outcome": self.outcome.value}


@dataclass(frozen=True, slots=True)
class Judgement:
    """All checks, and notes about the comparison."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    diff: Diff | None = field(default=None, repr=False)  # where the step time was compared

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.outcome is Outcome.FAILED)

    @property
    def ok(self) -> bool:
        return not self.failed

    def to_json(self) -> dict[str, Any]:
        checks = [check.to_json() for check in self.checks]
        return {"ok": self.ok, "checks": checks, "notes": list(self.notes)}
