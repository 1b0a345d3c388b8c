"""The detectors: one small function for each problem that a trace can show.

Adding a module of detectors takes one line here; other packages use ``DETECTORS.register``.
"""

from __future__ import annotations

from dataclasses import replace

from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.findings import (  # noqa: F401  importing them registers what they find
    communication,
    compilation,
    device,
    gradients,
    growth,
    kernels,
    loading,
    memory,
    needless,
    optimizer,
    pauses,
    python_work,
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
from stepscope.trace.model import Trace

CHANGES_RESULTS = 0.75  # weight of a saving after which somebody has to check the accuracy
EASY = 1.2  # weight of a saving that takes one argument

_WEIGHTS = {"float32-products": CHANGES_RESULTS, "unfused-optimizer": EASY}
_WHAT_IT_CALLS = frozenset(
    {"data-in-loop", "library-call", "python-work", "tiny-operators", "work-without-gradient"}
)
_HOW_IT_IS_DONE = frozenset({"float64", "library-call", "python-work", "redundant-copies"})
# Findings that explain less about the same line than the key does.
_SAYS_LESS = {
    "computed-again": _HOW_IT_IS_DONE,
    "copied-to-extend": _HOW_IT_IS_DONE,
    "hardly-read": _HOW_IT_IS_DONE,
    "slowing-steps": _WHAT_IT_CALLS,
    "graph-kept": _WHAT_IT_CALLS,
    "workers-started": frozenset({"data-loading"}),
}

__all__ = ["DETECTORS", "Detector", "Facts", "Finding", "Severity", "find_problems"]


def find_problems(trace: Trace) -> list[Finding]:
    """Return the problems of the recorded program, the worst first.

    Of two that are equally bad, the one with a line to look at comes first. A finding whose fix
    would change numbers of a result (a smaller type) counts for less than it saves, and one whose
    fix is an argument for more. A finding that explains another one comes before it.
    """
    facts = Facts(trace)
    findings = [finding for detect in DETECTORS if (finding := detect(facts)) is not None]
    severities = list(Severity)

    effects = {
        (less, finding.places[:1])
        for finding in findings
        if finding.places
        for less in _SAYS_LESS.get(finding.id, ())
    }

    def rank(finding: Finding) -> tuple[int, bool, bool, float]:
        weight = _WEIGHTS.get(finding.id, 1.0)
        effect = (finding.id, finding.places[:1]) in effects
        return (
            severities.index(finding.severity),
            effect,
            not finding.places,
            -finding.share * weight,
        )

    seen: set[tuple[str, Place | None]] = set()
    problems = []
    for finding in sorted(findings, key=rank):
        what = (finding.id, finding.places[0] if finding.places else None)
        if what not in seen:  # two detectors may report the same
            problems.append(_with_line(finding))
        seen.add(what)
    return problems


def _with_line(finding: Finding) -> Finding:
    """Name the guilty line in the title, since many read no further."""
    if not finding.places or line_words(finding.places[0]) in finding.title:
        return finding
    place = place_words(finding.places[0])
    between = ", at " if ": " in finding.title else ": "
    return replace(finding, title=f"{finding.title}{between}{place}")
