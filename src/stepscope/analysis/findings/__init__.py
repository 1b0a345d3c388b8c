"""Problems of a program that its trace shows: one small function a problem.

A module of findings is one line here; ``DETECTORS.register`` takes one from outside of the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.findings import (  # noqa: F401  importing them registers what they find
    compilation,
    device,
    loading,
    memory,
    optimizer,
    pauses,
)
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import DETECTORS, Detector, Finding, Severity

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

__all__ = ["DETECTORS", "Detector", "Facts", "Finding", "Severity", "find_problems"]


def find_problems(trace: Trace) -> list[Finding]:
    """Return what is wrong with the program that was recorded, the worst first."""
    facts = Facts(trace)
    found = [finding for detect in DETECTORS if (finding := detect(facts)) is not None]
    severities = list(Severity)
    return sorted(found, key=lambda each: (severities.index(each.severity), -each.share))
