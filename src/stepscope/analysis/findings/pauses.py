"""Irregular delays: garbage collection, and work that only some steps do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.findings.facts import Facts, moment
from stepscope.analysis.findings.model import DETECTORS, MEDIUM_SHARE, Finding, Severity
from stepscope.analysis.findings.spots import Spot, hot_spot
from stepscope.analysis.steps.causes import PHASES, WAITS, Cause
from stepscope.analysis.steps.cores import ready_in_steps
from stepscope.analysis.steps.ledger import Ledger
from stepscope.analysis.steps.phases import without_compilation
from stepscope.analysis.steps.steps import StepsBy, step_table
from stepscope.trace.model import Bool, Int64
from stepscope.trace.names import COLLECTION
from stepscope.units import count_text, duration_text

# A training step creates little garbage: a hundredth of its time is much for collecting it.
MIN_PAUSE_SHARE = 0.01
MIN_STEPS = 5  # fewer steps do not show which duration is usual
# Steps vary by ten percent or so on a busy machine; one that takes twice as long has a cause.
SLOW_FACTOR = 2.0
MIN_SLOW = 2  # what happens once is no habit of the program
MIN_REGULAR = 3  # fewer do not show a distance
MIN_EXTRA = 0.5  # what slow steps do besides must explain this share of the time that they lose
# Samples come late where all cores are busy: some of a line's are counted to the next step.
MOST_STRAY = 0.05
MIN_REPORTED = 0.05  # what takes more of a step has a finding of its own, with the same line

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


@dataclass(frozen=True, slots=True)
class SomeSteps:
    """The steps that also do what the others do not: an evaluation, a checkpoint, a log."""

    words: str  # "Every 10th step spends 38 ms in evaluate (train.py:23)"
    steps: Int64
    each_ns: float  # of that work, in each of these steps
    usual_ns: float  # how long the median step takes
    spot: Spot
    cause: Cause

    def to_json(self) -> dict[str, Any]:
        place = self.spot.place._asdict()
        return {"what": self.words, "steps": len(self.steps), "ns": round(self.each_ns), **place}


def some_steps(facts: Facts) -> SomeSteps | None:
    """Find work that makes a few steps longer, and that the other steps do not do.

    A step that takes long and does nothing else than the others is none of these, nor is a single
    one: both stand on the chart of the steps.
    """
    breakdown, counted, ledger = facts.breakdown, facts.counted, facts.ledger
    if counted.sum() < MIN_STEPS or step_table(facts.trace).by is StepsBy.REQUEST:
        return None
    whole_ns = without_compilation(facts.trace, breakdown.start_ns, breakdown.duration_ns)
    time_ns = whole_ns - ready_in_steps(facts.trace)  # others on the machine make any step slow
    usual_ns = float(np.median(time_ns[counted]))
    slow = np.flatnonzero(counted & (time_ns >= SLOW_FACTOR * usual_ns))
    spot = _seldom_spot(ledger, slow)
    if spot is None:
        return None
    own_ns = np.bincount(ledger.step[spot.which], ledger.weight_ns[spot.which], len(time_ns))
    slow = np.flatnonzero(own_ns >= MIN_EXTRA * float(np.median(own_ns[slow])))
    cause = Cause(int(np.bincount(ledger.cause[spot.which], ledger.weight_ns[spot.which]).argmax()))
    lost_ns = float((time_ns[slow] - usual_ns).sum())
    spent_ns = float(own_ns[slow].sum())
    if len(slow) < MIN_SLOW or spent_ns < MIN_EXTRA * lost_ns or _is_reported(facts, cause):
        return None
    each_ns = spent_ns / len(slow)
    which = _which_steps(np.flatnonzero(counted), slow)
    words = f"{which} {duration_text(each_ns)} in {spot.words}"
    return SomeSteps(words, slow, each_ns, float(np.median(whole_ns[counted])), spot, cause)


@DETECTORS.register
def work_in_some_steps(facts: Facts) -> Finding | None:
    """Report what makes a few steps longer."""
    some = some_steps(facts)
    if some is None:
        return None
    ledger, breakdown, slow = facts.ledger, facts.breakdown, some.steps
    spent_ns = some.each_ns * len(slow)
    share = spent_ns / ledger.total_ns
    # An evaluation: whether it is worth its time is not ours to say.
    is_training = some.cause in PHASES
    start_ns = int(breakdown.start_ns[slow[0]])
    return Finding(
        id="work-in-some-steps",
        title=some.words,
        text=f"The median step takes {duration_text(some.usual_ns)}. What those {len(slow):,} of "
        f"{facts.steps:,} steps do in addition is mostly {some.cause.words}"
        f"{some.spot.called_from}; it takes {share:.0%} of all steps' time.",
        share=share,
        evidence=moment(start_ns, start_ns + int(breakdown.duration_ns[slow[0]])),
        fix="Do it less often, or on less data, if that is enough."
        if is_training
        else "Do it less often, or in the background while the next steps run.",
        severity=Severity.LOW if is_training else Severity.of_share(share),
        saves_ns=0.0 if is_training else spent_ns / facts.steps,
        of_ns=ledger.whole_ns,
        places=some.spot.places,
    )


def _which_steps(counted: Int64, slow: Int64) -> str:
    """Say which steps are meant, up to a verb: all in a regular distance, or how many."""
    distance = np.unique(np.diff(np.searchsorted(counted, slow)))
    if len(distance) == 1 and len(slow) >= MIN_REGULAR:
        last = int(distance[0])
        ending = {1: "st", 2: "nd", 3: "rd"}.get(last % 10 if last // 10 % 10 != 1 else 0, "th")
        return f"Every {last}{ending} step spends"
    return f"{len(slow):,} of {len(counted):,} steps spend"


def _seldom_spot(ledger: Ledger, slow: Int64) -> Spot | None:
    """Return where slow steps spend time at lines that the others do not come to."""
    is_slow = np.isin(ledger.step, slow)
    seldom = _seldom_lines(ledger, is_slow)
    which = is_slow & ledger.where_stack(lambda stack: not seldom.isdisjoint(stack.own))
    spot = hot_spot(ledger, which) if which.any() else None
    if spot is None:
        return None
    first = next((i for i, place in enumerate(spot.path) if place in seldom), None)
    if first is None:
        return None
    # The function that the line calls says more than the line in the loop.
    path = spot.path[: first + 2]
    inside = which & ledger.where_stack(lambda stack: path[first] in stack.own)
    return Spot(path, inside, ledger.each_ns(inside))


def _seldom_lines(ledger: Ledger, is_slow: Bool) -> set[Place]:
    whole: dict[Place, float] = {}
    others: dict[Place, float] = {}
    for sums, which in ((whole, ledger.stack >= 0), (others, ~is_slow)):
        weights = np.bincount(
            ledger.stack[which & (ledger.stack >= 0)],
            ledger.weight_ns[which & (ledger.stack >= 0)],
        )
        for stack in np.flatnonzero(weights).tolist():
            for place in set(ledger.stacks[stack].own):
                sums[place] = sums.get(place, 0.0) + float(weights[stack])
    return {place for place in whole if others.get(place, 0.0) <= MOST_STRAY * whole[place]}


def _is_reported(facts: Facts, cause: Cause) -> bool:
    """Tell whether another finding reports that cause."""
    if cause in (Cause.COLLECTION, Cause.DATA_LOADING):
        return True
    ledger = facts.ledger
    often = ledger.each_ns(ledger.spent_on(cause)) >= MIN_REPORTED * ledger.unit_ns
    return often and cause in WAITS
