"""The detectors: one small function for each problem that a trace can show.

Adding a module of detectors takes one line here; other packages use ``DETECTORS.register``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stepscope.analysis.findings import (  # noqa: F401  importing them registers what they find
    allocations,
    communication,
    compilation,
    device,
    gradients,
    growth,
    kernels,
    loading,
    memory,
    optimizer,
    pauses,
    python_work,
    queued,
    resources,
    started,
    tensors,
    throttling,
    tiny,
    transfers,
    trends,
    waiting,
)
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import DETECTORS, Detector, Finding, Severity
from stepscope.analysis.findings.spots import line_words, place_words

if TYPE_CHECKING:
    from stepscope.analysis.host.own_lines import Place
    from stepscope.trace.model import Trace

CHANGES_RESULTS = 0.75
"""What a saving counts that somebody has to check the accuracy for."""

_SMALLER_TYPES = frozenset({"float32-products"})

__all__ = ["DETECTORS", "Detector", "Facts", "Finding", "Severity", "find_problems"]


def find_problems(trace: Trace) -> list[Finding]:
    """Return the problems of the recorded program, the worst first.

    Of those that are as bad, one with a line to look at goes before one without, and one that
    would change the numbers of a result (a smaller type) saves CHANGES_RESULTS of what it says.
    """
    facts = Facts(trace)
    found = [finding for detect in DETECTORS if (finding := detect(facts)) is not None]
    severities = list(Severity)

    def rank(each: Finding) -> tuple[int, bool, float]:
        weight = CHANGES_RESULTS if each.id in _SMALLER_TYPES else 1.0
        return severities.index(each.severity), not each.places, -each.share * weight

    told: set[tuple[str, Place | None]] = set()
    kept = []
    for each in sorted(found, key=rank):
        what = (each.id, each.places[0] if each.places else None)
        if what not in told:  # by two detectors
            kept.append(_with_line(each))
        told.add(what)
    return kept


def _with_line(finding: Finding) -> Finding:
    """Have the title name the guilty line: many read no further."""
    if not finding.places or line_words(finding.places[0]) in finding.title:
        return finding
    place = place_words(finding.places[0])
    between = ", at " if ": " in finding.title else ": "
    return replace(finding, title=f"{finding.title}{between}{place}")
