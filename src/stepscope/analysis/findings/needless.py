"""Work that need not be done: computed before, hardly read, copied to be extended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.findings.facts import Facts, moments_inside
from stepscope.analysis.findings.launched import device_finding, launching_lines
from stepscope.analysis.findings.model import DETECTORS, Finding, Severity
from stepscope.analysis.findings.spots import (
    finding_at,
    hot_spot,
    place_words,
    share_words,
    source_line,
)
from stepscope.analysis.needless.alone import calls_alone, prefix_calls
from stepscope.analysis.needless.extended import extended
from stepscope.analysis.needless.hardly_read import read_shares, with_in_place
from stepscope.analysis.needless.repeated import repeated, times_computed
from stepscope.analysis.needless.uses import ValueUses, value_uses
from stepscope.trace.model import Bool, Float64, Int64
from stepscope.units import size_text

MIN_SHARE = 0.03  # of a step; less is not worth a line
HARDLY_READ = 0.25  # share of a result up to which an operator makes too much
BATCHED_SAVES = 0.5  # of calls with one row: what a row computes is left
CALL_NS = 10_000  # of an operator
MUCH_TO_KEEP = 4 << 30  # bytes that are not kept lightly


class _Needless:
    """The time of some operators, each of which could be shorter by a share of it."""

    def __init__(
        self, facts: Facts, uses: ValueUses, shares: Float64, calls: Int64 | None = None
    ) -> None:
        """Take the share of each operator, and the calls around them if all of those counts."""
        self._facts = facts
        rows = uses.rows[shares > 0]
        spent_ns = facts.trace.slices.duration_ns[rows].astype(np.float64)
        self._rows = rows if calls is None else calls
        self._share = float((spent_ns * shares[shares > 0]).sum() / max(spent_ns.sum(), 1.0))
        self._covered = _covered(facts, uses)

    def finding(self, identity: str, *, what: str, text: str, fix: str) -> Finding | None:
        """Return the finding at the line that has most of it; None if it is too little."""
        if not len(self._rows):
            return None
        if len(self._facts.work):
            return self._of_device(identity, what=what, text=text, fix=fix)
        facts = self._facts
        which = moments_inside(facts, self._rows)
        spot = hot_spot(facts.ledger, which)
        if spot is None:
            return None
        # The spot is where most of it is; what is needless elsewhere is saved as well.
        saves_ns = facts.ledger.each_ns(which) * self._share * self._covered
        share = saves_ns / facts.ledger.unit_ns
        if share < MIN_SHARE:
            return None
        return finding_at(
            facts,
            spot,
            identity,
            title=f"{share_words(share, facts.ledger.unit)} {what}: {spot.words}",
            text=text + (spot.called_from and f" It is{spot.called_from[1:]}."),
            fix=fix,
            saves_ns=saves_ns,
        )

    def _of_device(self, identity: str, *, what: str, text: str, fix: str) -> Finding | None:
        facts = self._facts
        mine = np.append(facts.within(self._rows), False)  # the last for no slice
        mine[self._rows] = True
        which = mine[facts.work.operator[facts.work.rows]]
        saves_ns = facts.each_ns(which) * self._share * self._covered
        of_ns = float(facts.device_parts_ns.sum())
        places = launching_lines(facts, which)
        if not of_ns or saves_ns < MIN_SHARE * of_ns or not places:
            return None
        return device_finding(
            facts,
            identity,
            title=f"{saves_ns / of_ns:.0%} of the devices' time {what}: {place_words(places[0])}",
            text=text,
            fix=fix,
            saves_ns=saves_ns,
            evidence=source_line(places[0]),
            places=places,
        )


def _covered(facts: Facts, uses: ValueUses) -> float:
    """Return by how much a sum over the recorded uses has to be scaled up to all steps."""
    time = facts.step_time
    if not facts.steps or not len(time):
        return 1.0
    seen_ns = time.covered(time.start_ns[:1], np.array([uses.end_ns]))[0]
    return float(time.total_ns / seen_ns) if seen_ns > 0 else 1.0


@DETECTORS.register
def computed_again(facts: Facts) -> Finding | None:
    """Find operators that compute, of the same values, what was computed before."""
    uses = value_uses(facts.trace)
    if not len(uses):
        return None
    again = repeated(uses)
    which = again.needless & ~_recomputing(facts, uses)
    finding = _Needless(facts, uses, which.astype(np.float64)).finding(
        "computed-again",
        what="is computed again from the same values",
        text=(
            f"Its operators get the same inputs as before, on average "
            f"{times_computed(uses, which):.0f} times, and make the same results."
        ),
        fix=(
            f"Compute it once, outside of the loop or at first use, and keep the result: "
            f"{size_text(again.kept_bytes)} in all."
        ),
    )
    if finding is not None and again.kept_bytes > MUCH_TO_KEEP:
        return replace(finding, severity=Severity.LOW)
    return finding


@DETECTORS.register
def same_batch(facts: Facts) -> Finding | None:
    """Find a program whose steps all compute the same, as a benchmark's do."""
    uses = value_uses(facts.trace)
    if not len(uses):
        return None
    idle = repeated(uses).idle & ~_recomputing(facts, uses)
    finding = _Needless(facts, uses, idle.astype(np.float64)).finding(
        "same-again",
        what="computes the same again, and nothing new is made of it",
        text="Inputs and weights are those of earlier calls, as in a benchmark of one batch.",
        fix="Unless the repetition is the purpose, keep the result of the first call.",
    )
    return None if finding is None else replace(finding, severity=Severity.LOW)


def _recomputing(facts: Facts, uses: ValueUses) -> Bool:
    """Tell which operators compute again on purpose, to save memory."""
    slices, stacks, strings = facts.trace.slices, facts.trace.stacks, facts.trace.strings
    frames = np.unique(stacks.frame)
    wanted = [
        frame
        for frame in frames.tolist()
        if any(file in strings[frame] for file in landmarks().recomputing)
    ]
    is_marked = np.isin(stacks.frame, wanted)
    for row in range(1, len(stacks)):  # callers precede those that they call
        is_marked[row] |= is_marked[stacks.parent[row]]
    return is_marked[slices.stack[uses.rows]]


@DETECTORS.register
def hardly_read(facts: Facts) -> Finding | None:
    """Find operators that compute much more than is read."""
    uses = value_uses(facts.trace)
    if not len(uses):
        return None
    needed = read_shares(facts.trace, uses)
    marks = landmarks()
    is_sort = uses.of_names(facts.trace, marks.sorts)
    can_do_less = uses.of_names(facts.trace, with_in_place(marks.row_by_row)) | is_sort
    which = can_do_less & (needed <= HARDLY_READ) & (needed > 0)
    if not which.any():
        return None
    spent_ns = facts.trace.slices.duration_ns[uses.rows] * which
    made = uses.sums(uses.writes)
    read = float((made * needed * spent_ns)[which].sum() / max((made * spent_ns)[which].sum(), 1))
    sorts = float(spent_ns[is_sort].sum()) > float(spent_ns[~is_sort].sum())
    largest = int(made[which].max())
    return _Needless(facts, uses, np.where(which, 1 - needed, 0.0)).finding(
        "hardly-read",
        what=f"makes results of which {read:.1%} is read",
        text=f"The largest result has {size_text(largest)}; the rest of it is never looked at.",
        fix=(
            "Ask for the few that are used: topk instead of a sort, min or max for one."
            if sorts
            else "Select what is used before it is computed: the rows or positions that are read "
            "later, such as the last one before a head."
        ),
    )


@DETECTORS.register
def sparse_gradient(facts: Facts) -> Finding | None:
    """Find dense gradients of tables of which few rows were read."""
    uses = value_uses(facts.trace)
    dense = uses.of_names(facts.trace, landmarks().dense_gradients) if len(uses) else None
    if dense is None or not dense.any():
        return None
    made = uses.sums(uses.makes)
    gradient = uses.reads & (uses.position == 0)
    touched = uses.sums(gradient) / np.maximum(made, 1)
    which = dense & (touched <= HARDLY_READ)
    # Whoever reads such a gradient, reads and writes all of the table for a few rows.
    edges = uses.reads & which[uses.maker] & (uses.maker >= 0)
    of_readers = uses.sums(edges) / np.maximum(uses.sums(uses.reads), 1)
    shares = np.where(which, 1 - touched, of_readers)
    if not which.any():
        return None
    rows = float(touched[which].mean())
    return _Needless(facts, uses, shares).finding(
        "sparse-gradient",
        what=f"goes into a dense gradient of a table of which at most {rows:.1%} is touched",
        text=f"The gradient has {size_text(int(made[which].max()))}, nearly all of it zeros.",
        fix="Create the embedding with sparse=True and an optimizer for sparse gradients.",
    )


@DETECTORS.register
def copied_to_extend(facts: Facts) -> Finding | None:
    """Find results that are copied as a whole to append a little."""
    uses = value_uses(facts.trace)
    if not len(uses):
        return None
    joins = extended(facts.trace, uses)
    return _Needless(facts, uses, np.where(joins.which, joins.copied, 0.0)).finding(
        "copied-to-extend",
        what="copies a former result to append to it",
        text=(
            f"{size_text(joins.copied_bytes)} were copied to add {size_text(joins.new_bytes)}; "
            "that grows with the square of the length."
        ),
        fix=(
            "Allocate room for the whole once and write what is new into its place, or keep a "
            "list and join it once at the end; of running statistics, keep the sums."
        ),
    )


@DETECTORS.register
def one_at_a_time(facts: Facts) -> Finding | None:
    """Find models that are called with one row at a time, where a batch would do."""
    uses = value_uses(facts.trace)
    if not len(uses):
        return None
    alone = calls_alone(facts.trace, uses)
    inside = facts.within(alone.rows)[uses.rows]
    return _Needless(facts, uses, np.where(inside, BATCHED_SAVES, 0.0), alone.rows).finding(
        "one-at-a-time",
        what="can be saved by one call for many rows",
        text=(
            f"A model is called with one row each time, and {alone.joined} results are put "
            "together afterwards; none of the calls needs the result of another."
        ),
        fix="Stack the inputs first, and call the model once with the whole batch.",
    )


@DETECTORS.register
def whole_prefix(facts: Facts) -> Finding | None:
    """Find models that compute everything so far again whenever something is appended."""
    uses = value_uses(facts.trace)
    if not len(uses):
        return None
    joins = extended(facts.trace, uses)
    which = prefix_calls(facts.trace, uses, joins.which)
    shares = np.where(which, float(joins.copied[joins.which].mean()) if which.any() else 0.0, 0.0)
    spent_ns = facts.trace.slices.duration_ns[uses.rows]
    # Calling an operator takes its time for one position as well.
    shares *= 1 - np.minimum(CALL_NS / np.maximum(spent_ns, 1), 1.0)
    return _Needless(facts, uses, shares).finding(
        "whole-prefix",
        what="is spent on computing the former input again",
        text="Each input of the model is the former one with something appended.",
        fix="Keep the keys and values of former positions in a cache; pass only what is new.",
    )
