"""Links between slices that do not nest: a forward operator and its backward function."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.host.backward import backward_functions, forward_operators
from stepscope.trace.model import NO_PARENT, NO_SLICE, Int64, Trace


def forward_backward(trace: Trace) -> tuple[Int64, Int64]:
    """Return the rows of forward operators and of the backward functions that belong to them."""
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
    known = forward != NO_SLICE
    return forward[known], backward[known]
