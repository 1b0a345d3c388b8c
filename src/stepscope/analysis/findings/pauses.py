"""Irregular delays: garbage collection, and steps much slower than the others."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.findings.facts import Facts, moment
from stepscope.analysis.findings.model import DETECTORS, MEDIUM_SHARE, Finding, Severity
from stepscope.analysis.findings.spots import Spot, hot_spot
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.phases import without_compilation
from stepscope.analysis.steps.steps import StepsBy, step_table
from stepscope.trace.model import Int64
from stepscope.trace.names import COLLECTION
from stepscope.units import count_text, duration_text

# A training step creates little garbage: a hundredth of its time is much for collecting it.
MIN_PAUSE_SHARE = 0.01
MIN_STEPS = 5  # fewer steps do not show which duration is usual
# Steps vary by ten percent or so on a busy machine; one that takes twice as long has a cause.
SLOW_FACTOR = 2.0
MIN_EXTRA = 0.5  # what slow steps do besides must explain this share of the time that they lose
MIN_REPORTED = 0.05  # what takes more of a step has a finding of its own, with the same line

_EXTRA = (
    *(Cause.CHECKPOINT, Cause.LOGGING, Cause.PYTHON, Cause.NATIVE, Cause.DATA_LOADING),
    *(Cause.SLEEP, Cause.LOCK, Cause.QUEUE, Cause.FILE, Cause.SOCKET, Cause.PROCESS),
    *(Cause.LIBRARY, Cause.TENSOR_TEXT, Cause.COLLECTION),
)
_NOW_AND_THEN = (Cause.CHECKPOINT, Cause.LOGGING)  # other findings report them if in every step
_COLLECTS = ("gc.collect", "collect")


@DETECTORS.register
def garbage_collection(facts: Facts) -> Finding | None:
    rows = facts.in_steps(facts.named(lambda name: name.startswith(COLLECTION)))
    base_ns = facts.step_time.total_ns
    if not len(rows) or not base_ns:
        return None
    spent_ns = facts.covered_ns(rows)
    share = spent_ns / base_ns
    if share < MIN_PAUSE_SHARE:
        return None
    row = facts.longest(rows)
    longest_ns = int(facts.trace.slices.duration_ns[row])
    spot = hot_spot(facts.ledger, facts.ledger.spent_on(Cause.COLLECTION))
    # Automatic collections are no line's fault, but one with most of them may make the garbage.
    where = f": {spot.words}" if spot and share >= MEDIUM_SHARE else ""
    return Finding(
        id="garbage-collection",
        title=f"Python's garbage collector takes {share:.1%} of the steps{where}",
        text=f"{count_text(len(rows), 'collection')} within {count_text(facts.steps, 'step')} took "
        f"{duration_text(spent_ns)}; the longest stopped the program for "
        f"{duration_text(longest_ns)}.",
        share=share,
        evidence=facts.on_timeline(row, COLLECTION),
        fix=_fix_of_collections(facts, spot),
        # What came once may not come again.
        severity=Severity.of_share(share) if len(rows) > 1 else Severity.LOW,
        saves_ns=spent_ns / facts.steps,
        of_ns=base_ns / facts.steps,
        places=spot.places if spot else (),
    )


def _fix_of_collections(facts: Facts, spot: Spot | None) -> str:
    if spot is not None:
        rows = np.unique(facts.ledger.stack[spot.which & (facts.ledger.stack >= 0)]).tolist()
        if any(facts.ledger.stacks[row].callee.endswith(_COLLECTS) for row in rows):
            return (
                "Leave out gc.collect(), or call it every few hundred steps; gc.freeze() before "
                "the loop keeps it from scanning objects that stay alive for the whole run."
            )
    return (
        "Call gc.collect() and gc.freeze() before the loop, so that existing objects are not "
        "scanned again; or gc.disable(), and gc.collect() every few hundred steps."
    )


@DETECTORS.register
def slow_step(facts: Facts) -> Finding | None:
    """Find steps that take far longer than the median, and what they do in that time.

    A step that does nothing else than the others was held up by the machine.
    """
    breakdown, counted = facts.breakdown, facts.counted
    if counted.sum() < MIN_STEPS or step_table(facts.trace).by is StepsBy.REQUEST:
        return None
    time_ns = without_compilation(facts.trace, breakdown.start_ns, breakdown.duration_ns)
    usual_ns = float(np.median(time_ns[counted]))
    slow = np.flatnonzero(counted & (time_ns >= SLOW_FACTOR * usual_ns))
    if not len(slow) or not usual_ns:
        return None
    worst = int(slow[time_ns[slow].argmax()])
    lost_ns = float((time_ns[slow] - usual_ns).sum())
    share = lost_ns / float(time_ns[counted].sum())
    start_ns = int(breakdown.start_ns[worst])
    others = f" {len(slow) - 1:,} more stood out as well." if len(slow) > 1 else ""
    cause, spot = _extra_work(facts, slow, lost_ns)
    if cause is not None and _is_reported(facts, cause):
        return None
    why = f"What they do in addition: {spot.words}." if spot else _no_cause(facts, worst)
    return Finding(
        id="slow-step",
        title=f"Step {breakdown.step[worst]} takes {time_ns[worst] / usual_ns:.1f} times as long "
        "as usual",
        text=f"It took {duration_text(int(time_ns[worst]))}; the median step takes "
        f"{duration_text(usual_ns)}.{others} {why}",
        share=share,
        evidence=moment(start_ns, start_ns + int(breakdown.duration_ns[worst])),
        fix="Look at that step on the timeline. Usual causes: a checkpoint, an evaluation, a slow "
        "batch."
        if spot
        else "Look at that step on the timeline, and run the program on a quiet machine.",
        severity=Severity.of_share(share) if spot else Severity.LOW,
        saves_ns=lost_ns / facts.steps,
        of_ns=float(time_ns[counted].mean()),
        places=spot.places if spot else (),
    )


def _is_reported(facts: Facts, cause: Cause) -> bool:
    """Tell whether another finding reports that cause."""
    if cause in (Cause.COLLECTION, Cause.DATA_LOADING):
        return True
    ledger = facts.ledger
    often = ledger.each_ns(ledger.spent_on(cause)) >= MIN_REPORTED * ledger.unit_ns
    return often and cause not in _NOW_AND_THEN


def _extra_work(facts: Facts, slow: Int64, lost_ns: float) -> tuple[Cause | None, Spot | None]:
    """Return what slow steps do in addition, and where; None if nothing."""
    ledger = facts.ledger
    is_slow = np.isin(ledger.step, slow)
    slow_ns = float(ledger.weight_ns[is_slow].sum())
    usual_ns = max(float(ledger.weight_ns[~is_slow].sum()), 1.0)
    extra = {}
    for cause in _EXTRA:
        mine = ledger.spent_on(cause)
        # A machine that is busy makes everything slower alike.
        expected = float(ledger.weight_ns[mine & ~is_slow].sum()) / usual_ns * slow_ns
        extra[cause] = float(ledger.weight_ns[mine & is_slow].sum()) - expected
    cause = max(extra, key=lambda candidate: extra[candidate])
    if extra[cause] < MIN_EXTRA * lost_ns:
        return None, None
    return cause, hot_spot(ledger, is_slow & ledger.spent_on(cause))


def _no_cause(facts: Facts, worst: int) -> str:
    if not len(facts.trace.samples):
        breakdown = facts.breakdown
        grown_ns = breakdown.parts_ns[worst] - np.median(breakdown.parts_ns[facts.counted], axis=0)
        part = Part(int(grown_ns.argmax()))
        grown = duration_text(float(grown_ns[part]))
        return f"The part that grew most is {part.words}, by {grown}."
    return (
        "The program did nothing in that time that it does not do in other steps: another program "
        "on the machine is the likely cause."
    )
