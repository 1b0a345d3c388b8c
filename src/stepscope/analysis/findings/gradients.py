"""Tensor work in training steps that no gradient flows through: statistics, copies, metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.calls.backward import in_graph
from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.code.sampled_stacks import SampledStack, any_in, last_name
from stepscope.analysis.findings.facts import Facts, ModelCalls, moments_inside
from stepscope.analysis.findings.model import DETECTORS, Finding
from stepscope.analysis.findings.spots import Spot, call_around, finding_at, hot_spot, taken
from stepscope.analysis.findings.tensors import reading_spot
from stepscope.analysis.findings.trends import thirds
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.steps import StepsBy, step_table
from stepscope.trace.model import NO_SLICE, Bool
from stepscope.units import duration_text

# Every training loop spends some of a step on preparing inputs and looking at results.
MIN_SHARE = 0.15
MOSTLY_READ = 0.5  # work that is read for more of its time is there to be read
GROWN = 1.5  # work grows if its share of the last steps is this many times that of the first


@DETECTORS.register
def work_without_gradient(facts: Facts) -> Finding | None:
    """Find operators of training steps whose results the backward pass never uses."""
    ledger, spot = facts.ledger, spot_without_gradient(facts)
    if spot is None:
        return None
    operator = facts.operator
    in_operator = spot.which & (operator != NO_SLICE)
    names = facts.trace.slices.name[operator[in_operator]]
    most = int(np.bincount(names, ledger.weight_ns[in_operator]).argmax())
    return finding_at(
        facts,
        spot,
        "work-without-gradient",
        title=f"Tensor work outside the model takes {taken(ledger, spot)}",
        text=f"Operators there, mostly {facts.trace.strings[most]}, take "
        f"{duration_text(spot.each_ns)} of every {ledger.unit}{spot.called_from}, and no gradient "
        "flows back through them.",
        fix="Do it every few dozen steps or on part of the data; where every step needs it, use "
        "fewer and larger operators: torch._foreach_lerp_ and the like handle all weights at once.",
    )


def spot_without_gradient(facts: Facts) -> Spot | None:
    """Return where operators without gradient run, if that takes long."""
    ledger = facts.ledger
    if len(facts.work) or step_table(facts.trace).by is not StepsBy.OPTIMIZER:
        return None
    used = in_graph(facts.trace)
    if not used.any():
        return None
    operator = facts.operator
    # Layers may be frozen, and a model without gradients may be a teacher: both are needed.
    calls = ModelCalls(facts)
    needed = (operator != NO_SLICE) & used[operator]
    needed |= moments_inside(facts, calls.rows[~used[calls.rows]])
    needed |= moments_inside(facts, calls.rows) & _in_layers(facts)
    needed |= _in_optimizers(facts)
    needed |= ledger.spent_on(Cause.BACKWARD, Cause.OPTIMIZER, Cause.DATA_LOADING)
    unused = (
        (operator != NO_SLICE)
        & ~needed
        & ledger.spent_on(Cause.FORWARD, Cause.OPERATORS, Cause.OTHER)
    )
    spot = hot_spot(ledger, unused)
    if spot is None:
        return None
    which = call_around(ledger, spot, needed)  # a function may do it in several lines
    if ledger.each_ns(which & unused) < MIN_SHARE * ledger.unit_ns:
        return None
    if not ledger.in_most_steps(spot.which):
        return None
    if _grows(facts, which) or _is_read(facts, spot):  # have findings of their own
        return None
    return replace(spot, which=which, each_ns=ledger.each_ns(which))


def _grows(facts: Facts, which: Bool) -> bool:
    """Tell whether the last steps spend a much larger share on it than the first."""
    ledger, steps = facts.ledger, len(facts.counted)
    has_step = ledger.step >= 0
    step, weight_ns = ledger.step[has_step], ledger.weight_ns[has_step]
    there_ns = np.bincount(step, weight_ns * which[has_step], minlength=steps)
    whole_ns = np.bincount(step, weight_ns, minlength=steps)
    early, late = thirds((there_ns / np.maximum(whole_ns, 1))[facts.counted])
    return late > GROWN * early


def _is_read(facts: Facts, spot: Spot) -> bool:
    """Return whether most of the time at this spot goes into reading tensors in Python."""
    reading = reading_spot(facts)
    if reading is None:
        return False
    return facts.ledger.each_ns(spot.which & reading.which) > MOSTLY_READ * spot.each_ns


def _in_optimizers(facts: Facts) -> Bool:
    """Return the moments in an optimizer's own mathematics, such as LBFGS's around its closure."""
    return facts.ledger.where_stack(lambda stack: any_in(stack.beyond, landmarks().optimizers))


def _in_layers(facts: Facts) -> Bool:
    """Return the moments in a library's layers, or in a model's own ``forward``."""
    return facts.ledger.where_stack(
        lambda stack: (
            any_in(stack.beyond, landmarks().layers)
            or any(last_name(frame) == "forward" for frame in _called_directly(stack))
        )
    )


def _called_directly(stack: SampledStack) -> Iterator[Place]:
    """Yield the innermost frames of the program that no library called.

    A library calls the hooks of a module.
    """
    files = {frame.file for frame in stack.own}
    inner = stack.frames[: len(stack.frames) - len(stack.beyond)]
    return takewhile(lambda frame: frame.file in files, reversed(inner))
