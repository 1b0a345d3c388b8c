"""What a finding is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from stepscope.analysis.findings.facts import Facts
from stepscope.registry import Registry

# From which share of the time, or of the memory, on a finding is that severe: what costs a third
# is the first thing to repair, what costs less than a tenth can wait.
HIGH_SHARE, MEDIUM_SHARE = 0.30, 0.10


class Severity(Enum):
    """How much a problem costs."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @staticmethod
    def of_share(share: float) -> Severity:
        """Return how severe it is to lose that share."""
        if share >= HIGH_SHARE:
            return Severity.HIGH
        return Severity.MEDIUM if share >= MEDIUM_SHARE else Severity.LOW


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of the program that was recorded: what, how much, where to see it, what to do.

    ``evidence`` names a page of the report and the state to open it in: ``{"page": "timeline",
    "from": ns, "to": ns, "q": name}``, times on the trace's clock.
    """

    id: str  # stands for the kind of problem: "data-loading"
    title: str
    text: str  # a sentence or two with the numbers
    share: float  # of the time, or of the memory, that the problem concerns: 0 to 1
    evidence: Mapping[str, Any]
    fix: str
    severity: Severity

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON has."""
        return asdict(self) | {"severity": self.severity.value, "evidence": dict(self.evidence)}


Detector = Callable[[Facts], Finding | None]

DETECTORS: Registry[Detector] = Registry()
"""What finds a problem; ``@DETECTORS.register`` adds one, from wherever."""
