"""Irregular delays: garbage collection, and steps much slower than the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.findings.facts import moment
from stepscope.analysis.findings.model import DETECTORS, Finding, Severity
from stepscope.analysis.steps.parts import Part
from stepscope.analysis.steps.phases import without_compilation
from stepscope.units import count_text, duration_text

if TYPE_CHECKING:
    from stepscope.analysis.findings.facts import Facts

MIN_PAUSE_SHARE = 0.01
"""A training step creates little garbage: a hundredth of its time is much for collecting it."""

MIN_STEPS = 5
"""With fewer steps there is no telling which duration is usual."""

SLOW_FACTOR = 2.0
"""Steps vary by ten percent or so on a busy machine; one that takes twice as long has a cause."""

_COLLECTION = "Python garbage collection"


@DETECTORS.register
def garbage_collection(facts: Facts) -> Finding | None:
    """Find steps that stop for Python's garbage collector."""
    rows = facts.in_steps(facts.named(lambda name: name.startswith(_COLLECTION)))
    base_ns = facts.step_time.total_ns
    if not len(rows) or not base_ns:
        return None
    spent_ns = facts.covered_ns(rows)
    share = spent_ns / base_ns
    if share < MIN_PAUSE_SHARE:
        return None
    row = facts.longest(rows)
    longest_ns = int(facts.trace.slices.duration_ns[row])
    return Finding(
        id="garbage-collection",
        title=f"Python's garbage collector takes {share:.1%} of the steps",
        text=f"{count_text(len(rows), 'collection')} within {count_text(facts.steps, 'step')} took "
        f"{duration_text(spent_ns)}; the longest stopped the program for "
        f"{duration_text(longest_ns)}.",
        share=share,
        evidence=facts.on_timeline(row, _COLLECTION),
        fix="Call gc.collect() and gc.freeze() before the loop, so that existing objects are not "
        "scanned again; or gc.disable(), and gc.collect() every few hundred steps.",
        severity=Severity.of_share(share),
    )


@DETECTORS.register
def slow_step(facts: Facts) -> Finding | None:
    """Find steps far longer than the median; the first, which warms up, is exempt."""
    found = facts.breakdown
    if len(found) < MIN_STEPS:
        return None
    time_ns = without_compilation(facts.trace, found.start_ns, found.duration_ns)
    usual_ns = float(np.median(time_ns[1:]))
    slow = np.flatnonzero(time_ns[1:] >= SLOW_FACTOR * usual_ns) + 1
    if not len(slow) or not usual_ns:
        return None
    worst = int(slow[time_ns[slow].argmax()])
    usual_parts = np.median(found.parts_ns[1:], axis=0)
    grown_ns = found.parts_ns[worst] - usual_parts
    part = Part(int(grown_ns.argmax()))
    share = float((time_ns[slow] - usual_ns).sum() / found.duration_ns[1:].sum())
    start_ns = int(found.start_ns[worst])
    others = f" {len(slow) - 1:,} more stood out as well." if len(slow) > 1 else ""
    return Finding(
        id="slow-step",
        title=f"Step {found.step[worst]} takes {time_ns[worst] / usual_ns:.1f} times as long as "
        "usual",
        text=f"It took {duration_text(int(time_ns[worst]))}; the median step takes "
        f"{duration_text(usual_ns)}. The part that grew most is {part.words}, by "
        f"{duration_text(float(grown_ns[part]))}.{others}",
        share=share,
        evidence=moment(start_ns, start_ns + int(found.duration_ns[worst])),
        fix="Look at that step on the timeline. Usual causes: a checkpoint, an evaluation, a slow "
        "batch, or another program on the machine.",
        severity=Severity.of_share(share),
    )
