"""Tensors used in an expensive way: read one by one, copied, built for a graph nobody needs."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

import numpy as np

from stepscope.analysis.base.landmarks import Names, landmarks
from stepscope.analysis.base.remedies import Remedy
from stepscope.analysis.base.tree import ids_where, outermost
from stepscope.analysis.calls.backward import backward_functions, forward_operators, in_graph
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.code.sampled_stacks import any_in, any_of, last_name
from stepscope.analysis.code.source_files import called_methods
from stepscope.analysis.findings.facts import Facts, ModelCalls, moments_inside
from stepscope.analysis.findings.model import DETECTORS, Finding, Severity
from stepscope.analysis.findings.spots import (
    Spot,
    call_around,
    depth_without,
    finding_at,
    heaviest_stack,
    hot_spot,
    taken,
    tenths,
)
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.ledger import Ledger
from stepscope.analysis.steps.steps import StepsBy, step_table
from stepscope.trace.model import NO_SLICE, Bool, Int64, SliceKind
from stepscope.units import count_text, duration_text

MIN_READS_SHARE = 0.05  # reading a loss now and then takes less of a step
# A line that spends this share of its time on reading scalars is there to read them: what it
# computes before, it computes to be read. A line that reads often in a step needs a smaller share.
READING_LINE, OFTEN_READING_LINE, OFTEN = 1 / 3, 0.08, 10
# A still smaller share is enough where this share of all operators of a step are reads.
ALWAYS_READING_LINE, MOST_READ = 0.03, 0.2
# In a run without steps, what is in fewer of its tenths is done now and then, or once.
MIN_TENTHS = 5
MIN_COPIES_SHARE = 0.10  # some copies in a step are the model's own
MIN_JOINS_SHARE = 0.15  # a model joins some tensors, but that should be cheap
MIN_EVALUATION_SHARE = 0.08  # of a step
# Where reads are not recorded, so many operators in a step show that a line reads one by one.
MANY_OPERATORS = 100
MIN_GRAPH_NODES = 0.2  # if fewer operators of an inference record a graph, that is an accident
NODE_NS = 1_500  # what an operator pays for recording itself in a graph that is thrown away

_READ_CALLS = (".item", ".tolist", ".cpu", ".numpy")
_READ_METHODS = frozenset({"item", "tolist"})
_COPY_CALLS = (".astype", ".copy", ".clone", ".contiguous", "np.copy", "np.ascontiguousarray")
_COPYING = (Cause.FORWARD, Cause.OPERATORS, Cause.OTHER, Cause.LIBRARY, Cause.NATIVE)
_A_COPY = "copies its input or changes the type, device or layout"
_CONVERT_ONCE = (
    "Convert once and keep the result: choose type, device and layout where the data is made, and "
    "leave out conversions that are undone later."
)
_JOIN_ONCE = (
    "A tensor that grows piece by piece is copied whole each time: allocate one with room for all "
    "pieces and write each into its place, or keep the pieces in a list and join them once at the "
    "end."
)


@DETECTORS.register
def scalar_reads(facts: Facts) -> Finding | None:
    """Find tensors that are read element by element, or printed, in the loop."""
    ledger = facts.ledger
    spot = reading_spot(facts)
    if spot is None:
        return None
    calls = _calls(facts, landmarks().reads)
    often = f" {count_text(round(calls), 'read')} a {ledger.unit}." if calls >= 1 else ""
    return finding_at(
        facts,
        spot,
        "scalar-reads",
        title=f"Reading tensors in Python takes {taken(ledger, spot)}",
        text=(
            f"{duration_text(spot.each_ns)} a {ledger.unit} goes into .item(), .cpu(), .tolist() "
            f"or printing{spot.called_from}.{often}"
        ),
        fix=(
            "Compute on whole tensors and read one result at the end; print and log every few "
            "dozen steps."
        ),
    )


def reading_spot(facts: Facts) -> Spot | None:
    """Return where tensors are read in Python, if that takes long."""
    ledger, marks = facts.ledger, landmarks()
    reads = ledger.spent_on(Cause.TENSOR_TEXT) | _operators(facts, marks.reads)
    reads |= ledger.where_stack(
        lambda stack: (
            stack.callee.endswith(_READ_CALLS) or any_of(stack.frames, marks.reading_functions)
        )
    )
    reads &= ~ledger.spent_on(Cause.BACKWARD, Cause.OPTIMIZER, Cause.DATA_LOADING)
    spot = hot_spot(ledger, reads)
    if spot is None:
        return None
    spot = _with_reading_lines(facts, reads, spot)
    return spot if spot.each_ns >= MIN_READS_SHARE * ledger.unit_ns else None


def _with_reading_lines(facts: Facts, reads: Bool, spot: Spot) -> Spot:
    """Add other work on those lines of a spot's function that are there to read."""
    ledger = facts.ledger
    often = _reads_often(facts)
    share = OFTEN_READING_LINE if often else READING_LINE
    if often and _calls(facts, landmarks().reads) > MOST_READ * _calls(facts):
        share = ALWAYS_READING_LINE
    function = (spot.place.file, spot.place.function)
    lines: dict[Place, list[int]] = {}
    for row, stack in ledger.stacks.items():
        if stack.line is not None and (stack.line.file, stack.line.function) == function:
            lines.setdefault(stack.line, []).append(row)
    which = spot.which.copy()
    for place, rows in lines.items():
        line = np.isin(ledger.stack, rows)
        if ledger.each_ns(line & reads) > share * ledger.each_ns(line):
            which |= line
        elif often and called_methods(ledger.files, place) & _READ_METHODS:
            # Few samples may hit the read itself. A line that calls a model has other purposes.
            which |= np.isin(ledger.stack, [row for row in rows if not _in_model(ledger, row)])
    return replace(spot, which=which, each_ns=ledger.each_ns(which))


def _in_model(ledger: Ledger, row: int) -> bool:
    return any_in(ledger.stacks[row].beyond, landmarks().layers)


def _reads_often(facts: Facts) -> bool:
    """Tell whether many tensors are read in a step; not all recorders show each read."""
    if facts.frameworks & landmarks().reads_unseen:
        return _calls(facts) >= MANY_OPERATORS
    return _calls(facts, landmarks().reads) >= OFTEN


@DETECTORS.register
def redundant_copies(facts: Facts) -> Finding | None:
    """Find copies, casts and joined tensors in the loop that take much of a step."""
    ledger, marks = facts.ledger, landmarks()
    calls_copy = ledger.where_stack(lambda stack: stack.callee.endswith(_COPY_CALLS))
    copies = _operators(facts, marks.copies) | calls_copy
    copies &= ledger.spent_on(*_COPYING)
    joins = _operators(facts, marks.joins) & ledger.spent_on(*_COPYING)
    is_join = ledger.each_ns(joins) > ledger.each_ns(copies)
    copies, least = (joins, MIN_JOINS_SHARE) if is_join else (copies, MIN_COPIES_SHARE)
    spot = hot_spot(ledger, copies)
    if spot is None or ledger.each_ns(copies) < least * ledger.unit_ns:
        return None
    if ledger.unit == "run" and tenths(facts.trace, ledger, copies) < MIN_TENTHS:
        return None  # a model that is moved to its device before the work begins
    there_ns = spot.each_ns
    spot = replace(spot, which=copies, each_ns=ledger.each_ns(copies))
    calls = _calls(facts, marks.joins if is_join else marks.copies)
    often = f"{count_text(round(calls), 'copy', 'copies')} a {ledger.unit}; " if calls >= 1 else ""
    what = "tensors" if facts.frameworks & marks.with_operators else "arrays"
    return finding_at(
        facts,
        spot,
        "redundant-copies",
        title=f"{'Joining' if is_join else 'Copying and casting'} {what} takes "
        f"{taken(ledger, spot)}",
        text=f"{often}{duration_text(there_ns)} is spent there{spot.called_from}: each call "
        f"{'copies all parts' if is_join else _A_COPY}.",
        fix=_JOIN_ONCE if is_join else _CONVERT_ONCE,
    )


@DETECTORS.register
def evaluation(facts: Facts) -> Finding | None:
    """Find a model that is evaluated in most of the training steps."""
    trace, ledger = facts.trace, facts.ledger
    if step_table(trace).by is not StepsBy.OPTIMIZER:
        return None
    calls = ModelCalls(facts)
    # A model that never has gradients is a teacher, a target or a critic of another.
    of_trained = np.isin(calls.model, calls.model[calls.grad])
    spot = hot_spot(ledger, moments_inside(facts, calls.rows[~calls.grad & of_trained]))
    if spot is None or spot.each_ns < MIN_EVALUATION_SHARE * ledger.unit_ns:
        spot = _evaluated_with_graph(facts, calls)
    if spot is None or spot.each_ns < MIN_EVALUATION_SHARE * ledger.unit_ns:
        return None
    if not ledger.in_most_steps(spot.which):
        return None
    which = call_around(ledger, spot, ledger.spent_on(Cause.BACKWARD, Cause.OPTIMIZER))
    # The caller that evaluates is to blame, not the model.
    outside = takewhile(lambda place: last_name(place) != "forward", spot.path)
    spot = Spot(tuple(outside) or spot.path, which, ledger.each_ns(which))
    return finding_at(
        facts,
        spot,
        "evaluation-every-step",
        title=f"Evaluating the model takes {taken(ledger, spot)}",
        text=(
            f"Most steps also run the model without computing gradients, for "
            f"{duration_text(spot.each_ns)} each{spot.called_from}."
        ),
        fix="Evaluate every few hundred steps, or once an epoch.",
    )


def _evaluated_with_graph(facts: Facts, calls: ModelCalls) -> Spot | None:
    """Return where a trained model is called in a function of its own, without a backward pass.

    What is called where the loop also trains, as a generator is for its critic, has its use.
    """
    ledger, used = facts.ledger, in_graph(facts.trace)[calls.rows]
    unused = calls.rows[~used & calls.grad & np.isin(calls.model, calls.model[used])]
    spot = hot_spot(ledger, moments_inside(facts, unused))
    if spot is None:
        return None
    frames = ledger.stacks[heaviest_stack(ledger, spot.which)].frames
    depth = depth_without(ledger, frames, ledger.spent_on(Cause.BACKWARD, Cause.OPTIMIZER))
    if depth >= len(frames) or frames[depth] not in spot.path:
        return None
    return spot if last_name(frames[depth]) != "forward" else None


@DETECTORS.register
def autograd_in_inference(facts: Facts) -> Finding | None:
    """Find an inference whose operators record a graph for a backward pass that never comes."""
    trace = facts.trace
    steps = step_table(trace)
    if steps.by not in (StepsBy.MODULE, StepsBy.LOADER, StepsBy.REQUEST):
        return None
    slices = trace.slices
    if (facts.parts == Part.BACKWARD).any():
        return None
    rows = facts.in_steps(np.flatnonzero(slices.kind == SliceKind.OPERATOR))
    nodes = len(np.unique(slices.sequence[rows][slices.sequence[rows] >= 0]))
    nodes += len(facts.in_steps(facts.named(lambda name: name.endswith(landmarks().graph_nodes))))
    operators = len(outermost(trace, rows))
    if not operators or nodes < MIN_GRAPH_NODES * operators or nodes < 2:
        return None
    ledger = facts.ledger
    spot = hot_spot(ledger, ledger.spent_on(Cause.FORWARD))
    if spot is None:
        return None
    saves_ns = min(0.3 * ledger.unit_ns, NODE_NS * nodes / max(facts.steps, 1))
    finding = finding_at(
        facts,
        spot,
        "autograd-in-inference",
        title=f"The model runs with autograd enabled, but backward is never called: {spot.words}",
        text=(
            "An autograd graph records "
            f"{count_text(round(nodes / max(facts.steps, 1)), 'operator')} a {ledger.unit} and "
            "keeps the inputs in memory until the result is dropped."
        ),
        fix=facts.advise(Remedy.NO_GRAPH),
        saves_ns=saves_ns,
    )
    return replace(
        finding, severity=min(finding.severity, Severity.MEDIUM, key=list(Severity).index)
    )


@DETECTORS.register
def frozen_model_with_gradients(facts: Facts) -> Finding | None:
    """Find a model in eval mode beside the one that is trained, whose gradients are computed."""
    trace, ledger = facts.trace, facts.ledger
    calls = ModelCalls(facts)
    frozen = calls.rows[~calls.training & calls.grad]
    if step_table(trace).by is not StepsBy.OPTIMIZER or not len(frozen):
        return None
    if not calls.training.any():
        return None
    saves_ns = _backward_ns(facts, frozen)
    if saves_ns < MIN_EVALUATION_SHARE * ledger.unit_ns:
        return None
    spot = hot_spot(ledger, moments_inside(facts, frozen))
    if spot is None:
        return None
    return finding_at(
        facts,
        spot,
        "autograd-in-inference",
        title=f"Gradients are computed for a model that is not trained: {spot.words}",
        text=f"It is in eval mode, and its part of the backward pass takes "
        f"{duration_text(saves_ns)} of every {ledger.unit}{spot.called_from}.",
        fix=facts.advise(Remedy.NO_GRADIENTS),
        saves_ns=saves_ns,
    )


def _backward_ns(facts: Facts, calls: Int64) -> float:
    """Return the backward time per step that is due to the recording of some calls."""
    inside = np.append(facts.within(calls), False)  # the last for no slice
    is_backward = backward_functions(facts.trace)
    backward = np.flatnonzero(is_backward)
    outside = ~(facts.within(backward) | is_backward)
    mine = inside[forward_operators(facts.trace, backward, outside)]
    if mine.any():
        return facts.covered_ns(backward[mine]) / max(facts.steps, 1)
    # Paddle does not say which operator a backward function belongs to: they count alike.
    nodes = facts.in_steps(facts.named(lambda name: name.endswith(landmarks().graph_nodes)))
    if not len(nodes):
        return 0.0
    ledger = facts.ledger
    return float(inside[nodes].mean()) * ledger.each_ns(ledger.spent_on(Cause.BACKWARD))


def _operators(facts: Facts, wanted: Names) -> Bool:
    names = _ids(facts, wanted)
    operator = facts.operator
    if not len(facts.trace):  # samples alone
        return np.zeros(len(operator), np.bool_)
    name = facts.trace.slices.name.take(operator, mode="clip")
    is_wanted: Bool = np.isin(name, names) & (operator != NO_SLICE)
    return is_wanted


def _calls(facts: Facts, wanted: Names | None = None) -> float:
    """Return how often the wanted operators are called in a step; all without names."""
    slices = facts.trace.slices
    is_wanted = slices.kind == SliceKind.OPERATOR
    if wanted is not None:
        is_wanted &= np.isin(slices.name, _ids(facts, wanted))
    rows = np.flatnonzero(is_wanted)
    rows = outermost(facts.trace, facts.in_steps(rows) if facts.steps else rows)
    return len(rows) / max(facts.steps, 1)


def _ids(facts: Facts, wanted: Names) -> Int64:
    return ids_where(facts.trace.slices.name, facts.trace.strings, wanted.__contains__)
