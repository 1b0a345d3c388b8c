"""The optimizer: updates that are not fused, and gradients that are filled with zeros."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.intervals import union
from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.sums import around
from stepscope.analysis.base.tree import outermost
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import DETECTORS, Finding, Severity
from stepscope.analysis.findings.spots import hot_spot
from stepscope.analysis.findings.tiny import CALL_SHARE, TINY_NS
from stepscope.analysis.steps.causes import Cause
from stepscope.trace.model import Int64, SliceKind
from stepscope.trace.names import OPTIMIZER_STEP, OPTIMIZER_ZERO_GRAD
from stepscope.units import duration_text

# A fused or foreach optimizer needs a handful of operators per step, whatever the model size.
MIN_OPERATORS = 50
# Below a tenth of the step, a faster optimizer makes no noticeable difference.
MIN_OPTIMIZER_SHARE = 0.10
# Filling is pure overhead; below a hundredth of the step it does not matter.
MIN_FILLING_SHARE = 0.01
CALL_NS = 5_000  # what calling one operator costs with the Python around it, whatever it computes
HOST_SAVED = 0.9  # share of the device's waits that a fused optimizer saves

_FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})
_FOREACH = frozenset({"Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"})
_WHOLE = frozenset({"LBFGS"})  # computes with all parameters as one vector
_OF_CLOSURES = (
    Part.FORWARD,
    Part.BACKWARD,
    Part.DATA_LOADING,
)  # parts that an optimizer's closure may run


@DETECTORS.register
def gradients_filled(facts: Facts) -> Finding | None:
    """Find gradients that are filled with zeros instead of being freed."""
    calls = facts.named(lambda name: name.startswith(OPTIMIZER_ZERO_GRAD))
    fills = facts.named(landmarks().fills.__contains__)
    fills = fills[facts.within(calls)[fills]] if len(calls) else fills[:0]
    if not len(fills):
        return None
    parent = facts.trace.slices.parent
    is_call = np.zeros(len(parent), np.bool_)
    is_call[calls] = True
    calls = np.unique(around(parent, fills, is_call))
    fills = fills[
        ~np.isin(fills, parent[fills])
    ]  # one operator for all tensors contains one for each
    base_ns = facts.step_time.total_ns
    spent_ns = facts.covered_ns(calls)
    if not base_ns or spent_ns < MIN_FILLING_SHARE * base_ns:
        return None
    share = spent_ns / base_ns
    return Finding(
        id="gradients-filled",
        title=f"Setting gradients to zero takes {share:.1%} of a step",
        text=f"zero_grad fills every gradient with zeros, {len(fills) / len(calls):,.0f} tensors "
        f"per call. This takes {duration_text(spent_ns / facts.steps)} per step, keeps the "
        "gradients allocated during the forward pass, and makes the backward pass accumulate "
        "where it could just write.",
        share=share,
        evidence=facts.on_timeline(facts.longest(calls)),
        fix="Call optimizer.zero_grad(set_to_none=True), the default since PyTorch 2.0: it frees "
        "the gradients.",
        severity=Severity.of_share(share),
        saves_ns=spent_ns / max(facts.steps, 1),
        of_ns=base_ns / max(facts.steps, 1),
    )


@DETECTORS.register
def unfused_optimizer(facts: Facts) -> Finding | None:
    """Find an optimizer that updates the parameters one by one."""
    calls = facts.in_steps(facts.named(lambda name: name.startswith(OPTIMIZER_STEP)))
    base_ns = facts.step_time.total_ns
    if not len(calls) or not base_ns:
        return None
    row = facts.longest(calls)
    kind = facts.trace.name_of(row).removeprefix(OPTIMIZER_STEP).removesuffix(".step")
    if kind in _WHOLE:
        return None
    operators = _outermost_operators(facts, calls)
    closure = np.flatnonzero(facts.within(calls) & np.isin(facts.parts, _OF_CLOSURES))
    operators = operators[~np.isin(operators, closure)]
    spent_ns = facts.covered_ns(calls) - facts.covered_ns(closure)
    share = spent_ns / base_ns
    per_call = len(operators) / len(calls)
    if per_call < MIN_OPERATORS or share < MIN_OPTIMIZER_SHARE:
        return None
    steps = max(facts.steps, 1)
    # A fused optimizer saves the cost of calls, not the computation.
    lengths_ns = facts.trace.slices.duration_ns[operators]
    median_ns = float(np.median(lengths_ns))
    around_ns = spent_ns - float(lengths_ns[lengths_ns > TINY_NS].sum())
    saves_ns = max(min(CALL_NS * len(operators), spent_ns), CALL_SHARE * around_ns) / steps
    if len(facts.work):
        saves_ns = max(saves_ns, HOST_SAVED * _idle_ns(facts, calls) / steps)
    severity = Severity.of_share(saves_ns * steps / base_ns)
    spot = hot_spot(facts.ledger, facts.ledger.spent_on(Cause.OPTIMIZER))
    return Finding(
        id="unfused-optimizer",
        title=f"The optimizer runs {per_call:,.0f} small operators per step",
        text=f"{kind} updates the parameters one by one: {per_call:,.0f} operators per step, "
        f"half of them shorter than {duration_text(median_ns)}. "
        f"The optimizer takes {share:.0%} of the step.",
        share=share,
        evidence=facts.on_timeline(row),
        fix=_fix(kind),
        severity=severity,
        saves_ns=saves_ns,
        of_ns=base_ns / steps,
        places=spot.places if spot else (),
    )


def _idle_ns(facts: Facts, calls: Int64) -> int:
    """Return how long devices are idle while the given calls run."""
    slices = facts.trace.slices
    time = union(slices.start_ns[calls], slices.ends_of(calls)).shared_with(facts.step_time)
    busy = facts.work.busy(np.ones(len(facts.work), np.bool_))
    return time.total_ns - time.shared_with(busy).total_ns


def _fix(kind: str) -> str:
    """Return advice for an optimizer: fused or foreach, as far as torch has it for that kind."""
    if kind in _FUSED:
        return (
            f"Use torch.optim.{kind}(..., fused=True), or foreach=True where that is not "
            "supported: both update all parameters in a few operators."
        )
    if kind in _FOREACH:
        return f"Use torch.optim.{kind}(..., foreach=True): it updates all parameters at once."
    return (
        "Update all parameters in a few operators: torch._foreach_add_ and the like, or an "
        "optimizer of torch.optim with fused=True or foreach=True."
    )


def _outermost_operators(facts: Facts, calls: Int64) -> Int64:
    """Return the outermost operators inside the given ranges."""
    is_operator = facts.trace.slices.kind == SliceKind.OPERATOR
    return outermost(facts.trace, np.flatnonzero(is_operator & facts.within(calls)))
