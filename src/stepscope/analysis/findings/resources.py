"""Wasted resources: more threads than cores, twice the precision that is needed."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.remedies import Remedy
from stepscope.analysis.calls.operator_inputs import operator_inputs
from stepscope.analysis.findings.facts import Facts, ModelCalls, moments_inside
from stepscope.analysis.findings.model import DETECTORS, Finding
from stepscope.analysis.findings.spots import finding_at, hot_spot
from stepscope.analysis.steps.causes import COMPUTING, Cause
from stepscope.trace.model import NO_SLICE, NO_STACK, Bool

# Threads for each core; a pool that is a little larger than the machine does no harm.
MIN_THREADS = 1.5
# Threads of libraries for each core, and at least. Several pools of the machine's size are usual
# (OpenMP's, BLAS's); pools for each thread of the program are not.
MANY_THREADS, FEWEST = 4, 16
WASTED = 0.5  # share of the computing time of threads beyond the cores that spinning wastes
# Share of the operators' time in float64, and how many inputs must be known to tell.
MIN_DOUBLE, MIN_KNOWN = 0.2, 10
HALF = 0.5  # float64 takes twice the memory traffic and half of the vector units' width

_POOLS = ("torch threads", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_DOUBLES = frozenset({"double", "float64", "Double"})
_OF_LINES = (Cause.FORWARD, Cause.OPERATORS, Cause.OTHER, Cause.LIBRARY)


@DETECTORS.register
def too_many_threads(facts: Facts) -> Finding | None:
    """Find more computing threads than cores."""
    parallelism, ledger = facts.trace.info.parallelism, facts.ledger
    cores = parallelism.get("cores", 0.0)
    if not cores or len(facts.work):
        return None
    asked = {name: count for name, count in parallelism.items() if name in _POOLS}
    name = max(asked, key=lambda candidate: asked[candidate], default="")
    threads, why = asked.get(name, 0.0), f"{name} is {asked.get(name, 0.0):,.0f}."
    if threads < max(MIN_THREADS * cores, cores + 1):
        threads = float(_library_threads(facts))
        why = f"{threads:,.0f} threads of libraries ran: every pool has threads of its own."
        if threads < max(MANY_THREADS * cores, FEWEST):
            return None
    spot = hot_spot(ledger, ledger.spent_on(*COMPUTING))
    if spot is None:
        return None
    computing_ns = ledger.each_ns(ledger.spent_on(*COMPUTING))
    return finding_at(
        facts,
        spot,
        "too-many-threads",
        title=f"{threads:,.0f} threads compute on {cores:g} cores: {spot.words}",
        text=f"{why} Threads without a core keep the others waiting at the end of every operator.",
        fix=f"Use as many threads as there are cores: torch.set_num_threads({max(cores, 1):.0f}), "
        "or leave OMP_NUM_THREADS unset; with several processes or threads, divide the cores among "
        "them.",
        saves_ns=WASTED * (1 - cores / threads) * computing_ns,
    )


def _library_threads(facts: Facts) -> int:
    """Return the number of threads that libraries ran in the steps, or in the run."""
    samples = facts.trace.samples
    inside = np.ones(len(samples), np.bool_)
    if facts.steps:
        inside = facts.step_time.contain(samples.time_ns)
    with_stack = np.unique(samples.track[samples.stack != NO_STACK])
    return len(np.setdiff1d(samples.track[inside], with_stack))


@DETECTORS.register
def float64(facts: Facts) -> Finding | None:
    """Find operators that compute in float64 where float32 would do."""
    ledger = facts.ledger
    share, which, evidence = _doubles_of_operators(facts)
    if not share:
        share, which, evidence = _doubles_of_models(facts)
    if share < MIN_DOUBLE:
        return None
    spot = hot_spot(ledger, which & ledger.spent_on(*_OF_LINES))
    spot = spot or hot_spot(ledger, ledger.spent_on(*COMPUTING))
    if spot is None:
        return None
    computing_ns = ledger.each_ns(ledger.spent_on(*COMPUTING))
    dtype = facts.advise(Remedy.FLOAT32)
    return finding_at(
        facts,
        spot,
        "float64",
        title=f"{share:.0%} of the operators' time is spent in float64: {spot.words}",
        text=f"{evidence}{spot.called_from}.",
        fix="Make the tensors float32 where they are created: NumPy's arrays and Python's numbers "
        f"are float64 (array.astype(np.float32), dtype={dtype}, model.float()).",
        saves_ns=HALF * share * computing_ns,
    )


def _doubles_of_operators(facts: Facts) -> tuple[float, Bool, str]:
    """Return the share of float64 in the operators' time, its moments, and a sentence about it."""
    trace, ledger = facts.trace, facts.ledger
    slices, inputs = trace.slices, operator_inputs(trace)
    nothing = np.zeros(len(ledger), np.bool_)
    inside = inputs.rows >= 0
    if facts.steps:
        inside = facts.step_time.contain(slices.start_ns[inputs.rows])
    rows, kinds = inputs.rows[inside], inputs.type[inside]
    doubles = [i for i, name in enumerate(inputs.types) if name in _DOUBLES]
    is_double = np.isin(kinds, doubles) & (inputs.elements[inside] > 1)
    time_ns = slices.duration_ns[rows].astype(np.float64)
    if len(rows) < MIN_KNOWN or not time_ns.sum():
        return 0.0, nothing, ""
    names = np.unique(slices.name[rows[is_double]])
    operator = facts.operator
    which = np.isin(slices.name.take(operator, mode="clip"), names) & (operator != NO_SLICE)
    statement = (
        f"Of {len(rows):,} operators whose inputs are known, {int(is_double.sum()):,} compute "
        "in float64"
    )
    return float(time_ns[is_double].sum() / time_ns.sum()), which, statement


def _doubles_of_models(facts: Facts) -> tuple[float, Bool, str]:
    """Return the same from the models' inputs, for traces without operators' inputs."""
    calls = ModelCalls(facts)
    doubles = calls.rows[[text.endswith("float64") for text in calls.input_types()]]
    duration_ns = facts.trace.slices.duration_ns
    total_ns = float(duration_ns[calls.rows].sum())
    share = float(duration_ns[doubles].sum()) / total_ns if total_ns else 0.0
    return share, moments_inside(facts, doubles), "The inputs of the model are float64"
