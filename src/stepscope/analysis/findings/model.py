"""What a finding is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from stepscope.analysis.code.own_lines import Place
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
    saves_ns: float = 0.0  # how much shorter a step would be without it; 0: not known
    of_ns: float = 0.0  # how long a step is now
    unit: str = "step"  # or "request", or "run" where there are no steps
    places: tuple[Place, ...] = ()  # lines of the program: the guilty one first, then its callers

    def __post_init__(self) -> None:
        # A gain is never larger than what is there.
        if self.of_ns:
            object.__setattr__(self, "saves_ns", min(self.saves_ns, self.of_ns))

    def to_json(self) -> dict[str, Any]:
        place = self.places[0] if self.places else Place("", 0, "")
        return asdict(self) | {
            "severity": self.severity.value,
            "evidence": dict(self.evidence),
            "saves_ns": round(self.saves_ns),
            "of_ns": round(self.of_ns),
            "places": [line._asdict() for line in self.places],
            **place._asdict(),
        }


Detector = Callable[[Facts], Finding | None]

# The functions that find problems; ``@DETECTORS.register`` adds one from any package.
DETECTORS: Registry[Detector] = Registry()
