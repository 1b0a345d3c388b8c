"""Flows from each forward operator to its backward function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.trace.model import NO_SEQUENCE, Args, IntColumn, Marks, SliceFlags

if TYPE_CHECKING:
    from stepscope.trace.model import Int64, Trace

_NO_ROWS = np.zeros(0, np.int64)


def forward_backward_links(trace: Trace) -> tuple[Int64, Int64]:
    """Return the rows of forward operators and of their backward functions.

    A backward function names its forward operator by thread and sequence number. Several slices
    share those: the last forward slice to start made the graph's node, the first backward one to
    end is the function itself (the others wrap it, or run it again).
    """
    slices = trace.slices
    numbered = slices.sequence != NO_SEQUENCE
    has_forward = slices.forward_thread > 0  # torch's thread ids start at 1
    backward = np.flatnonzero(numbered & has_forward)
    if not len(backward):
        return _NO_ROWS, _NO_ROWS
    is_backward = has_forward | ((slices.flags & SliceFlags.BACKWARD) != 0)
    forward = np.flatnonzero(numbered & ~is_backward)
    backward = backward[np.argsort(slices.ends_of(backward), kind="stable")]

    logical_id = np.array([track.logical_id for track in trace.tracks], np.int64)
    threads = np.unique(np.concatenate((logical_id, slices.forward_thread[backward])))

    def keys(rows: Int64, thread: Int64) -> Int64:
        key: Int64 = slices.sequence[rows] * len(threads) + np.searchsorted(threads, thread)
        return key

    forward_keys = keys(forward, logical_id[slices.track[forward]])
    backward_keys = keys(backward, slices.forward_thread[backward])
    _, last_forward, first_backward = np.intersect1d(
        forward_keys[::-1], backward_keys, return_indices=True
    )
    order = np.argsort(first_backward)  # numbered in the order of the backward pass
    return forward[::-1][last_forward[order]], backward[first_backward[order]]


def flow_marks(
    trace: Trace,
    links: tuple[Int64, Int64],
    flow_name: int,
    enclosing: int,
    numbers: Int64 | None = None,
) -> Marks:
    """Return a start and a finish mark for each link.

    ``flow_name`` and ``enclosing`` are the string ids of the flow's name and ``"bp": "e"``; links
    are numbered from 1 unless ``numbers`` are given.
    """
    slices = trace.slices
    count = len(links[0])
    rows = np.concatenate(links)
    ids = np.tile(np.arange(1, count + 1, dtype=np.int64) if numbers is None else numbers, 2)
    phase = np.repeat(np.frombuffer(b"sf", np.uint8), count)
    names = np.full(2 * count, flow_name, np.uint32)
    binding = np.repeat(np.array([0, enclosing], np.uint32), count)
    id_column = IntColumn(np.arange(2 * count, dtype=np.uint32), ids)
    fields = Args({"id": id_column}, binding)
    return Marks(phase, names, names, slices.start_ns[rows], slices.track[rows], fields=fields)
