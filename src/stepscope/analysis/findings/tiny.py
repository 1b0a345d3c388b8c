"""Operators with next to nothing to do: what a step takes is what calling them costs."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.remedies import Remedy
from stepscope.analysis.base.sums import nearest
from stepscope.analysis.base.tree import framework_operators, outermost
from stepscope.analysis.calls.backward import backward_functions, forward_operators
from stepscope.analysis.calls.operator_inputs import operator_inputs
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.code.sampled_stacks import any_in
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.gradients import spot_without_gradient
from stepscope.analysis.findings.model import DETECTORS, Finding
from stepscope.analysis.findings.spots import finding_at, hot_spot
from stepscope.analysis.findings.tensors import reading_spot
from stepscope.analysis.steps.causes import COMPUTING, Cause
from stepscope.analysis.steps.steps import step_table
from stepscope.trace.model import NO_PARENT, NO_SLICE, Bool, Int64, SliceKind, Trace
from stepscope.units import count_text, duration_text

# Calling an operator takes several µs, whatever it does: shorter ones are mostly overhead.
TINY_NS = 20_000
# Elements of the largest input, and how long an operator on so few takes where threads start.
SMALL, SMALL_NS = 4_096, 60_000
QUIET = 0.1  # share of calls that nothing disturbs: on a busy machine the others wait for a core
MIN_OPERATORS, MIN_SHARE = 100, 0.4  # number of tiny operators in a step, and their share of it
# On a busy machine, threads of an operator on few elements wait for each other this long.
FEW_NS = 240_000
# A batch is too small if nearly all inputs have few elements and a step is short.
FEW_ELEMENTS, FEW_SHARE, FEW_OPERATORS, FEW_MIN_SHARE = 1_024, 0.9, 20, 0.5
MIN_KNOWN = 30  # fewer known inputs say nothing about the others
# An operator that calls more of them is a loop over operators: a backward pass.
MOST_CALLED_WITHIN = 8
# Share of the time of tiny operators that is overhead; the rest is computed in any case.
CALL_SHARE = 0.8

_COPY = "copy.py"
_CALLED = (Cause.FORWARD, Cause.OPERATORS)


@DETECTORS.register
def tiny_operators(facts: Facts) -> Finding | None:
    """Find a step of a CPU program that consists of operators with next to nothing to do."""
    ledger = facts.ledger
    if len(facts.work) or not facts.steps:
        return None
    rows = _operators(facts)
    duration_ns = facts.trace.slices.duration_ns[rows]
    is_tiny = (duration_ns < TINY_NS) | _are_small(facts, rows)
    is_tiny &= ~_of_one_call(facts)[rows]
    per_step = int(is_tiny.sum()) / facts.steps
    others_ns = float(duration_ns[~is_tiny].sum()) / facts.steps
    # Python between two operators is part of what calling them costs.
    spent_ns = ledger.each_ns(ledger.spent_on(*_CALLED, Cause.BACKWARD)) - others_ns
    if reading := reading_spot(facts):  # has a finding of its own
        spent_ns -= ledger.each_ns(reading.which & ledger.spent_on(*_CALLED))
    if beside := spot_without_gradient(facts):  # has one, too
        spent_ns -= ledger.each_ns(beside.which & ledger.spent_on(*_CALLED))
    copying = _copying(facts)  # has one as well
    spent_ns -= ledger.each_ns(copying & ledger.spent_on(*_CALLED))
    if per_step < MIN_OPERATORS or spent_ns < MIN_SHARE * ledger.unit_ns:
        # With a larger batch all that a step does would be done less often.
        spent_ns = ledger.each_ns(ledger.spent_on(*COMPUTING) | _drawing(facts)) - others_ns
        if not _has_small_batch(facts, per_step) or spent_ns < FEW_MIN_SHARE * ledger.unit_ns:
            return None
    small = ledger.spent_on(*_CALLED, Cause.LIBRARY) & ~np.isin(facts.operator, rows[~is_tiny])
    spot = hot_spot(ledger, (small | _own_backward(facts)) & ~copying)
    if spot is None:
        return None
    return finding_at(
        facts,
        spot,
        "tiny-operators",
        title=(
            f"{count_text(round(per_step), 'operator')} a {ledger.unit} have next to nothing to "
            f"do: {spot.words}"
        ),
        text=(
            f"Half of them take less than {duration_text(float(np.median(duration_ns)))}: "
            "calling an operator costs more than what it computes."
        ),
        fix=_fix(facts),
        saves_ns=CALL_SHARE * spent_ns,
    )


def _operators(facts: Facts) -> Int64:
    """Return the operators of the steps; those of optimizers have their own finding."""
    slices = facts.trace.slices
    on_thread = np.isin(slices.track, step_table(facts.trace).track)
    rows = facts.in_steps(np.flatnonzero((slices.kind == SliceKind.OPERATOR) & on_thread))
    return _called(facts.trace, rows[facts.parts[rows] != Part.OPTIMIZER])


def _called(trace: Trace, rows: Int64) -> Int64:
    """Return the operators that the program called: the outermost, but those within long ones.

    What a function of the backward pass does are operators; the rest of it is what calling costs.
    """
    slices = trace.slices
    mine = np.zeros(len(slices), np.bool_)
    mine[rows] = True
    inner = rows[mine[slices.parent[rows]] & (slices.parent[rows] != NO_PARENT)]
    inside = np.bincount(slices.parent[inner], minlength=len(slices))
    runs_many = (inside > MOST_CALLED_WITHIN) & ~framework_operators(trace)
    runs_many |= backward_functions(trace) & (inside > 0)
    at = np.flatnonzero(runs_many)
    while len(at):  # their callers run many, too
        at = np.unique(slices.parent[at])
        at = at[at != NO_PARENT]
        runs_many[at] = True
    return outermost(trace, rows[~runs_many[rows]])


def _of_one_call(facts: Facts) -> Bool:
    """Tell which operators belong to one call of torch's, such as a GRU's steps.

    Those of the backward pass belong to the call that their operators were in.
    """
    trace, slices = facts.trace, facts.trace.slices
    torchs = np.flatnonzero(framework_operators(trace) & (slices.kind == SliceKind.OPERATOR))
    calls = outermost(trace, torchs)
    within = facts.within(calls)
    place = np.full(len(slices), -1, np.int64)
    place[calls] = np.arange(len(calls))
    around = nearest(slices.parent, place >= 0)
    size = np.bincount(place[around[within]], minlength=len(calls)) if len(calls) else place[:0]
    backward = np.flatnonzero(backward_functions(trace))
    is_inside = np.zeros(len(slices), np.bool_)
    is_inside[backward] = True
    forward = forward_operators(trace, backward, ~(is_inside | facts.within(backward)))
    has_forward = forward != NO_SLICE
    call = np.where(has_forward, around[forward], NO_PARENT)
    many = (
        (call != NO_PARENT) & (size[place[call]] > MOST_CALLED_WITHIN)
        if len(calls)
        else has_forward
    )
    is_within = facts.within(backward[many])
    is_within[backward[many]] = True
    return is_within


def _are_small(facts: Facts, rows: Int64) -> Bool:
    """Tell which operators usually are short and have small inputs, by name.

    Inputs are known of a few; single calls are long where another program takes the core.
    """
    slices, inputs = facts.trace.slices, operator_inputs(facts.trace)
    known_names, names = slices.name[inputs.rows], slices.name[rows]
    small = []
    for name in np.intersect1d(known_names, names).tolist():
        elements = np.median(inputs.elements[known_names == name])
        quiet_ns = np.quantile(slices.duration_ns[rows[names == name]], QUIET)
        most_ns = SMALL_NS if elements > FEW_ELEMENTS else FEW_NS
        if elements <= SMALL and quiet_ns < most_ns:
            small.append(name)
    return np.isin(names, small)


def _has_small_batch(facts: Facts, per_step: float) -> bool:
    """Tell whether nearly all inputs in the steps have few elements."""
    inputs = operator_inputs(facts.trace)
    elements = inputs.elements[np.isin(inputs.rows, facts.in_steps(inputs.rows))]
    if len(elements) < MIN_KNOWN or per_step < FEW_OPERATORS:
        return False
    return float((elements <= FEW_ELEMENTS).mean()) >= FEW_SHARE


def _drawing(facts: Facts) -> Bool:
    """Return the moments of a loader's own work; making an item takes as long in any batch."""
    ledger, marks = facts.ledger, landmarks()
    of_loader = ledger.where_stack(
        lambda stack: (
            stack.library in marks.with_operators
            and any_in(stack.beyond, marks.loaders)  # called by no Dataset of its own
        )
    )
    return ledger.spent_on(Cause.DATA_LOADING) & of_loader


def _copying(facts: Facts) -> Bool:
    """Return the moments in which Python copies objects."""
    return facts.ledger.where_stack(lambda stack: any(f.file == _COPY for f in stack.beyond[:1]))


def _own_backward(facts: Facts) -> Bool:
    """Return the moments in the program's own backward functions."""
    ledger = facts.ledger
    own = ledger.where_stack(lambda stack: not any_in(stack.beyond, landmarks().engine))
    return ledger.spent_on(Cause.BACKWARD) & own


def _fix(facts: Facts) -> str:
    compiler = facts.advise(Remedy.COMPILER, "")
    compiled = f", or {compiler}, which fuses operators" if compiler else ""
    return f"Give each call more to do: a larger batch, whole tensors instead of slices{compiled}."
