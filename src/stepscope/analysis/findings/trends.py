"""Steps that take longer and longer, and graphs that are traversed again."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.code.sampled_stacks import NO_SAMPLE
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import DETECTORS, Finding
from stepscope.analysis.findings.spots import finding_at, hot_spot
from stepscope.analysis.steps.causes import PHASES, Cause
from stepscope.analysis.steps.phases import without_compilation
from stepscope.analysis.steps.steps import StepsBy, step_table
from stepscope.trace.model import Float64, Int64, SliceFlags, SliceKind, ThreadState
from stepscope.units import duration_text

MIN_STEPS = 12  # fewer steps do not tell a trend from chance
# The last third of the steps against the first; a machine that warms up slows down by less.
MIN_SLOWER = 1.25
MIN_RANK = 0.6  # rank correlation of steps' times with their numbers: a trend, not a few slow steps
# For the model's own work, which a busy machine slows down too, but not from step to step.
MIN_STEADY_RANK, MIN_MUCH_SLOWER, MIN_MORE_CALLS = 0.85, 1.5, 1.05
# Share of the last third's growth that the middle third must have: work that grows does so all the
# time, a machine that gets busy does so at once.
EVENLY = (0.25, 0.85)
MIN_AGAIN = 0.4  # share of backward functions that repeat; a gradient penalty repeats some, too
# The forward pass takes this share of what the backward pass of the same work grows by.
MIN_FORWARD = 0.2


@DETECTORS.register
def slowing_steps(facts: Facts) -> Finding | None:
    """Find steps that become longer, and the line behind it."""
    breakdown = facts.breakdown
    if step_table(facts.trace).by is StepsBy.REQUEST or facts.counted.sum() < MIN_STEPS:
        return None
    index = np.flatnonzero(facts.counted)
    time_ns = without_compilation(facts.trace, breakdown.start_ns, breakdown.duration_ns)
    time_ns = np.maximum(time_ns - _without_core(facts, len(time_ns)), 0.0)[index]
    early, late = thirds(time_ns)
    rank = rank_correlation(time_ns)
    if late < MIN_SLOWER * early or rank < MIN_RANK or not _grows_evenly(time_ns):
        return None
    ledger = facts.ledger
    third = len(index) // 3
    first = np.isin(ledger.step, index[:third])
    last = np.isin(ledger.step, index[-third:])
    grown = {
        cause: ledger.weight_ns[last & (ledger.cause == cause)].sum()
        - ledger.weight_ns[first & (ledger.cause == cause)].sum()
        for cause in Cause
    }
    cause = max(grown, key=lambda candidate: grown[candidate])
    more_functions = cause is Cause.BACKWARD and _more_calls(facts, SliceFlags.BACKWARD)
    grows_too = grown[Cause.FORWARD] > MIN_FORWARD * grown[Cause.BACKWARD]
    if cause is Cause.BACKWARD and not more_functions and grows_too:
        cause = Cause.FORWARD  # that made the larger inputs of its functions
    spot = hot_spot(ledger, last & (ledger.cause == cause))
    steadily = rank >= MIN_STEADY_RANK and late >= MIN_MUCH_SLOWER * early
    if spot is None or (cause in PHASES and not steadily and not _more_calls(facts)):
        return None  # the same work takes longer: the machine is the likely cause
    saves_ns = float(time_ns.mean()) - early
    is_model_work = cause in (Cause.BACKWARD, Cause.FORWARD)
    return finding_at(
        facts,
        spot,
        "graph-kept" if more_functions else "slowing-steps",
        title=(
            f"Steps get slower and slower, from {duration_text(early)} to {duration_text(late)}: "
            f"{spot.words}"
        ),
        text=f"What grows most is {cause.words}{spot.called_from}.",
        fix=(
            "Something grows with every step and is traversed again each time: a list, a graph "
            "that is kept alive (loss without .detach() or .item(), retain_graph=True), a cache "
            "without a limit."
            if is_model_work
            else "Something grows with every step and is traversed again each time: a list, a "
            "string, a cache without a limit. Keep a running value instead."
        ),
        saves_ns=saves_ns,
    )


def _grows_evenly(time_ns: Int64 | Float64) -> bool:
    early, middle, late = (float(np.quantile(t, 0.25)) for t in np.array_split(time_ns, 3))
    least, most = EVENLY
    return late > early and least <= (middle - early) / (late - early) <= most


def _without_core(facts: Facts, steps: int) -> Float64:
    """Return how long each step's thread waited for a core."""
    ledger, samples = facts.ledger, facts.trace.samples
    rows = np.flatnonzero(ledger.row != NO_SAMPLE)
    rows = rows[samples.state[ledger.row[rows]] == ThreadState.READY]
    spent = np.bincount(ledger.step[rows], ledger.weight_ns[rows], minlength=steps)
    return spent.astype(np.float64)


@DETECTORS.register
def graph_walked_again(facts: Facts) -> Finding | None:
    """Find backward passes through parts of the graph that were already used."""
    slices, ledger = facts.trace.slices, facts.ledger
    is_backward = slices.flags & SliceFlags.BACKWARD != 0
    rows = facts.in_steps(np.flatnonzero(is_backward & (slices.sequence >= 0)))
    if not len(rows) or not facts.steps:
        return None
    _, first = np.unique(
        np.stack([slices.sequence[rows], slices.name[rows]]), axis=1, return_index=True
    )
    again = np.ones(len(rows), np.bool_)
    again[first] = False
    if again.mean() < MIN_AGAIN:
        return None
    spot = hot_spot(ledger, ledger.spent_on(Cause.BACKWARD))
    if spot is None:
        return None
    times = len(rows) / len(first)
    return finding_at(
        facts,
        spot,
        "graph-kept",
        title=f"Backward passes go through the same graph {times:.1f} times: {spot.words}",
        text=f"{again.mean():.0%} of the backward functions ran for a forward operator that had "
        f"already been backpropagated through{spot.called_from}: the graph is kept alive.",
        fix="Call backward once for each graph: on the loss of this batch, not on a sum that holds "
        "earlier ones, and without retain_graph=True.",
        saves_ns=float(again.mean()) * spot.each_ns,
    )


def _more_calls(facts: Facts, flag: int = 0) -> bool:
    """Tell whether late steps call more of the flagged operators than early ones."""
    slices, breakdown = facts.trace.slices, facts.breakdown
    starts = slices.start_ns[(slices.kind == SliceKind.OPERATOR) & (slices.flags & flag == flag)]
    ends_ns = breakdown.start_ns + breakdown.duration_ns
    calls = np.searchsorted(starts, ends_ns) - np.searchsorted(starts, breakdown.start_ns)
    early, late = thirds(calls[facts.counted])
    return late > MIN_MORE_CALLS * early


def thirds(values: Int64 | Float64) -> tuple[float, float]:
    """Return the medians of the first and the last third."""
    third = max(len(values) // 3, 1)
    return float(np.median(values[:third])), float(np.median(values[-third:]))


def rank_correlation(values: Int64 | Float64) -> float:
    """Return the rank correlation of values with their number: 1 is always rising, 0 is chance."""
    rank = np.argsort(np.argsort(values))
    return float(np.corrcoef(rank, np.arange(len(values)))[0, 1])
