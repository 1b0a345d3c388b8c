"""What a finding is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from stepscope.analysis.findings.facts import Facts
from stepscope.registry import Registry

# The share of the time, or of the memory, from which on a finding has that severity: what costs a
# third should be fixed first, what costs less than a tenth can wait.
HIGH_SHARE, MEDIUM_SHARE = 0.30, 0.10


class Severity(Enum):
    """How much a problem costs."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @staticmethod
    def of_share(share: float) -> Severity:
        """Return the severity of losing that share."""
        if share >= HIGH_SHARE:
            return Severity.HIGH
        return Severity.MEDIUM if share >= MEDIUM_SHARE else Severity.LOW


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem in the recorded program: what it is, what it costs, where to see it, how to fix it.

    ``evidence`` names a page of the report and the state to open it in: ``{"page": "timeline",
    "from": ns, "to": ns, "q": name}``, times on the trace's clock.
    """

    id: str  # the kind of problem: "data-loading"
    title: str
    text: str  # a sentence or two with the numbers
    share: float  # of the time, or of the memory, that the problem concerns: 0 to 1
    evidence: Mapping[str, Any]
    fix: str
    severity: Severity

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-compatible values."""
        return asdict(self) | {"severity": self.severity.value, "evidence": dict(self.evidence)}


Detector = Callable[[Facts], Finding | None]

DETECTORS: Registry[Detector] = Registry()
"""The functions that find problems; ``@DETECTORS.register`` adds one from any package."""
