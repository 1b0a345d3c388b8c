"""Which slices are functions of the backward pass, and which operators they belong to."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import nearest
from stepscope.analysis.base.tree import ids_where
from stepscope.trace.model import (
    NO_PARENT,
    NO_SEQUENCE,
    NO_SLICE,
    NO_THREAD,
    Bool,
    Int64,
    SliceFlags,
    Trace,
)
from stepscope.trace.names import ENGINE_CALL


@shared
def backward_functions(trace: Trace) -> Bool:
    """Return a mask of the slices that are backward functions.

    Our recordings flag them. In other traces it is the slice ``X`` inside the engine's slice for X.
    """
    slices, strings = trace.slices, trace.strings
    flagged: Bool = (slices.flags & np.uint8(SliceFlags.BACKWARD)) != 0
    if flagged.any():
        return flagged
    engine = ids_where(slices.name, strings, lambda text: text.startswith(ENGINE_CALL))
    if not len(engine):
        return flagged
    functions = [strings[int(i)].removeprefix(ENGINE_CALL) for i in engine]
    called = strings.ids_of(functions)
    wanted = np.full(len(strings), NO_SLICE, np.int64)
    wanted[engine] = [called.get(name, NO_SLICE) for name in functions]
    is_backward: Bool = wanted[slices.name.take(slices.parent, mode="clip")] == slices.name
    is_backward &= slices.parent != NO_PARENT
    return is_backward


def forward_operators(trace: Trace, backward: Int64, outside: Bool) -> Int64:
    """Return the operator that each backward function belongs to, NO_SLICE if unknown.

    ``outside`` tells which slices are in no backward function. Operators share their thread's next
    number until one of them makes a node of the graph with it: of those with the number of a
    backward function, the last one made its node.
    """
    slices = trace.slices
    numbered = slices.sequence != NO_SEQUENCE
    forward = np.flatnonzero(numbered & outside & (slices.forward_thread <= 0))
    operator = np.full(len(backward), NO_SLICE, np.int64)
    with_number = np.flatnonzero(numbered[backward])
    if not len(forward) or not len(with_number):
        return operator
    asked = backward[with_number]
    process = process_of_tracks(trace)
    thread = _threads(trace, process, forward, asked)
    forward_thread = slices.forward_thread[asked]
    threads = np.unique(np.concatenate((thread, forward_thread)))

    def keys(rows: Int64, of_thread: Int64) -> Int64:
        number = np.searchsorted(threads, of_thread)
        place = process[slices.track[rows]] * len(threads) + number
        key: Int64 = slices.sequence[rows] * len(threads) * (int(process.max()) + 1) + place
        return key

    forward = forward[::-1]
    distinct, last = np.unique(keys(forward, thread[slices.track[forward]]), return_index=True)
    wanted = keys(asked, forward_thread)
    at = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
    match = forward[last[at]]
    # What claims to come before its own forward operator is not tied to it.
    operator[with_number] = np.where((distinct[at] == wanted) & (match < asked), match, NO_SLICE)
    return operator


def process_of_tracks(trace: Trace) -> Int64:
    """Return the number of each track's process."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(t.pid, len(numbers)) for t in trace.tracks], np.int64)


def _threads(trace: Trace, process: Int64, forward: Int64, backward: Int64) -> Int64:
    """Return torch's number of each track's thread, NO_THREAD if unknown.

    Chrome JSON does not tell it. There, a forward thread is the track on which most of the
    numbers occur that its backward functions name.
    """
    slices = trace.slices
    thread = np.array([track.logical_id for track in trace.tracks], np.int64)
    if (thread != NO_THREAD).any():
        return thread
    numbers, tracks = slices.sequence[forward], slices.track[forward]
    namers = np.stack((process[slices.track[backward]], slices.forward_thread[backward]))
    for where, number in np.unique(namers, axis=1).T.tolist():
        named = slices.sequence[backward[(namers == [[where], [number]]).all(axis=0)]]
        votes = np.bincount(tracks[np.isin(numbers, named)], minlength=len(thread))
        votes[process != where] = 0
        if votes.any():
            thread[int(votes.argmax())] = number
    return thread


@shared
def in_graph(trace: Trace) -> Bool:
    """Return a mask of the slices that are or contain operators with a gradient, or compute one."""
    backward = backward_functions(trace)
    inside = nearest(trace.slices.parent, backward) != NO_PARENT
    forward = forward_operators(trace, np.flatnonzero(backward), ~inside)
    if not (forward != NO_SLICE).any():
        return np.zeros(len(trace.slices), np.bool_)
    at = np.append(np.unique(forward[forward != NO_SLICE]), np.flatnonzero(backward))
    is_in_graph = np.zeros(len(trace.slices), np.bool_)
    while len(at):
        is_in_graph[at] = True
        at = np.unique(trace.slices.parent[at])
        at = at[at != NO_PARENT]
        at = at[~is_in_graph[at]]
    return is_in_graph


def forward_backward(trace: Trace) -> tuple[Int64, Int64]:
    """Return the forward operators and the backward functions that belong to them."""
    functions = backward_functions(trace)
    backward = np.flatnonzero(functions)
    if not len(backward):
        return backward, backward
    inside = functions.copy()
    parent = trace.slices.parent
    children = np.flatnonzero(parent != NO_PARENT)
    while True:  # one round a level below the functions; a parent's row is not always lower
        reached = children[inside[parent[children]] & ~inside[children]]
        if not len(reached):
            break
        inside[reached] = True
    forward = forward_operators(trace, backward, ~inside)
    is_known = forward != NO_SLICE
    return forward[is_known], backward[is_known]
