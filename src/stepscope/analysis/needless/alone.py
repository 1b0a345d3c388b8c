"""Calls of a model with one row each, none of which needs another's result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.tree import outermost
from stepscope.analysis.needless.uses import NO_MAKER, ValueUses
from stepscope.trace.keys import MODEL_ID
from stepscope.trace.model import Bool, Int64, SliceKind, Trace

MIN_CALLS = 4  # that one join puts together


@dataclass(frozen=True, slots=True)
class Alone:
    """Calls that could be one."""

    rows: Int64  # the slices of the calls
    joined: int  # how many calls one result was made of, on average


def calls_alone(trace: Trace, uses: ValueUses) -> Alone:
    """Return the calls whose results were joined only after the last of them.

    A result that is read in Python, or that a later one of the calls depends on, keeps them apart.
    """
    models = outermost(trace, np.flatnonzero(trace.slices.kind == SliceKind.MODULE))
    call = _calls_of(trace, uses, models)
    latest, is_single = _latest_calls(uses, call), _single_rows(uses, call, len(models))
    ids = trace.slices.args.dense(MODEL_ID, len(trace.slices), -1)[models]
    reading = np.flatnonzero(uses.of_names(trace, landmarks().reads))
    times_ns = trace.slices.start_ns[uses.rows]
    groups: list[list[int]] = []
    for join in np.flatnonzero(uses.of_names(trace, landmarks().joins) & (call < 0)).tolist():
        inputs = np.flatnonzero((uses.operator == join) & uses.reads & (uses.maker != NO_MAKER))
        calls = sorted({int(latest[maker]) for maker in uses.maker[inputs]} - {-1})
        if len(calls) < MIN_CALLS or len(calls) < len(inputs):
            continue
        first, last = calls[0], calls[-1]
        mine = np.flatnonzero(np.isin(call, calls))
        between = reading[(reading > mine[0]) & (reading < mine[-1])]
        looks = np.isin(uses.operator, between) & uses.reads
        needs = np.isin(uses.operator, mine) & (uses.maker != NO_MAKER) & uses.reads
        makers = uses.maker[needs]
        others = (call[makers] != call[uses.operator[needs]]) & (latest[makers] >= first)
        is_read = (latest[uses.maker[looks & (uses.maker != NO_MAKER)]] >= first).any()
        escapes = (uses.escape_ns >= times_ns[mine[0]]) & (uses.escape_ns <= times_ns[mine[-1]])
        ours = np.unique(uses.storage[uses.writes & (latest[uses.operator] >= first)])
        is_read |= bool(np.isin(uses.escaped[escapes], ours).any())
        same_model = len(set(ids[first : last + 1].tolist())) == 1
        if same_model and not others.any() and not is_read and is_single[calls].all():
            groups.append(calls)
    rows = models[np.array(sorted({one for group in groups for one in group}), np.int64)]
    sizes = [len(group) for group in groups]
    return Alone(rows, round(sum(sizes) / len(sizes)) if sizes else 0)


def _calls_of(trace: Trace, uses: ValueUses, models: Int64) -> Int64:
    """Return the index of the call around each operator, -1 for none."""
    slices = trace.slices
    if not len(models):
        return np.full(len(uses), -1, np.int64)
    at = np.searchsorted(models, uses.rows, side="right") - 1
    inside = (at >= 0) & (slices.start_ns[uses.rows] < slices.ends_of(models[at]))
    inside &= slices.track[uses.rows] == slices.track[models[at]]
    return np.where(inside, at, -1)


def _latest_calls(uses: ValueUses, call: Int64) -> Int64:
    """Return the last call that the results of each operator depend on, -1 for none."""
    latest = call.tolist()
    edges = np.flatnonzero(uses.maker != NO_MAKER)
    pairs = zip(uses.operator[edges].tolist(), uses.maker[edges].tolist(), strict=True)
    for operator, maker in pairs:  # makers precede
        if call[operator] < 0:
            latest[operator] = max(latest[operator], latest[maker])
    return np.array(latest, np.int64)


def _single_rows(uses: ValueUses, call: Int64, calls: int) -> Bool:
    """Tell which calls have an input of one row: the first operator's that no other call has."""
    first: Int64 = np.full(calls, -1, np.int64)
    inside = np.flatnonzero(call >= 0)
    first[call[inside[::-1]]] = inside[::-1]
    of_first = np.flatnonzero(uses.reads & np.isin(uses.operator, first))
    values, count = np.unique(uses.value[of_first], return_counts=True)
    own = of_first[np.isin(uses.value[of_first], values[count == 1])]
    single = np.zeros(calls, np.bool_)
    single[call[uses.operator[own[uses.is_row[own]]]]] = True
    return single


def prefix_calls(trace: Trace, uses: ValueUses, extends: Bool) -> Bool:
    """Return the operators of calls whose input is a former call's with something appended.

    ``extends`` are the joins that append to their former result.
    """
    models = outermost(trace, np.flatnonzero(trace.slices.kind == SliceKind.MODULE))
    call = _calls_of(trace, uses, models)
    known_inputs = uses.reads & (uses.maker != NO_MAKER) & (call[uses.operator] >= 0)
    from_joins = np.flatnonzero(known_inputs)
    makers = uses.maker[from_joins]
    from_joins = from_joins[extends[makers] & (call[makers] < 0)]
    # An input is read by few operators; a cache, which is made outside as well, by every layer's.
    first = np.full(len(models), -1, np.int64)
    inside = np.flatnonzero(call >= 0)
    first[call[inside[::-1]]] = inside[::-1]
    is_first = uses.operator[from_joins] == first[call[uses.operator[from_joins]]]
    whole = np.unique(call[uses.operator[from_joins[is_first]]])
    return np.isin(call, whole) & (call >= 0)
