"""Finds the operator, module and line that put work into a CUDA graph.

A replayed graph is one launch, and its kernels only know their nodes. So captures are watched: each
new node is noted with its thread, time, operator and Python stack, and a recorded kernel is matched
with its node. Nodes are kept while the process lives, as a graph may be captured long before it is
recorded (see ``torch/graph_captures.py``).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import _native
from stepscope.record.capture import thread_track
from stepscope.trace.keys import CAPTURED_NODE
from stepscope.trace.model import NO_THREAD, Args, IntColumn, Stacks, Track
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.trace.model import Int64, UInt32

CATEGORY, NAME = "cuda_graph_node", "put into a CUDA graph"
_BEFORE = "graphs captured before the recording"


def nodes_of(
    columns: Mapping[str, Any],
    find: Callable[[Int64], dict[str, Any]] = _native.graph_nodes,
) -> dict[str, Any] | None:
    """Return the nodes that the recorded work of graphs runs, and the node's number for each row.

    ``find`` looks nodes up by their ids, by default those of this process.
    """
    in_graph = np.flatnonzero(columns["graph_node"])
    ids, which = np.unique(columns["graph_node"][in_graph], return_inverse=True)
    if not len(ids):
        return None
    nodes = find(ids)
    row = nodes["row"][which.reshape(-1)]
    is_known = row >= 0
    if not is_known.any():
        return None
    return {**nodes, "work": in_graph[is_known], "of_work": nodes["number"][row[is_known]]}


def captured_nodes(nodes: Mapping[str, Any], since_ns: int) -> Captured:
    """Return the nodes as events of the threads that captured them.

    Nodes from before the recording are placed at its start, on a track of their own, and named
    after the operators that ran, which are not in the recording.
    """
    is_before = nodes["time_ns"] < since_ns
    tracks, track = _tracks(np.where(is_before, -1, nodes["thread"]))
    # Names of operators follow NAME; 0 is none. Nodes of the recording are inside their operators.
    strings = Strings.of([*nodes["texts"], CATEGORY, NAME, *nodes["operators"][1:]])
    category = len(nodes["texts"])
    count = len(nodes["number"])
    operator = np.where(is_before, nodes["operator"], 0).astype(np.uint32)
    slices = Slices.of(
        category=np.full(count, category, np.uint32),
        name=category + 1 + operator,
        start_ns=np.maximum(nodes["time_ns"], since_ns),
        duration_ns=np.zeros(count, np.int64),
        track=track,
        stack=nodes["stack"],
        args=Args(
            {CAPTURED_NODE: IntColumn(np.arange(count, dtype=np.uint32), nodes["number"])},
            np.zeros(count, np.uint32),
        ),
    )
    stacks = Stacks(nodes["parent"], nodes["frame"])
    return Captured(slices, tracks, strings, stacks=stacks)


def _tracks(threads: Int64) -> tuple[tuple[Track, ...], UInt32]:
    distinct, track = np.unique(threads, return_inverse=True)
    tracks = tuple(
        Track(pid=str(os.getpid()), tid=_BEFORE, thread_name=_BEFORE)
        if thread < 0
        else thread_track(thread, NO_THREAD, "")
        for thread in distinct.tolist()
    )
    return tracks, track.reshape(-1).astype(np.uint32)
