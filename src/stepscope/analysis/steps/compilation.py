"""What torch.compile did more than once, and where it gave up: what gate and findings count."""

from __future__ import annotations

import re

import numpy as np

from stepscope.analysis.base.tree import is_named, rows_named
from stepscope.analysis.steps.phases import compilations, compile_marks
from stepscope.analysis.steps.steps import step_table
from stepscope.trace.model import Int64, Trace
from stepscope.trace.names import GRAPH_BREAK, RECOMPILED

_COMPILE_ID = re.compile(r"compile_id=(?:\d+/)?\d+/(\d+)")
_REGION = "Torch-Compiled Region: "


def recompilations(trace: Trace) -> Int64:
    """Return the compilations of regions that had been compiled before."""
    rows = compilations(trace)
    if not len(compile_marks(trace)):
        return _of_other_profilers(trace, rows)
    again: Int64 = rows[is_named(trace, RECOMPILED.match)[rows]]
    return again


def graph_breaks(trace: Trace) -> Int64:
    """Return where torch.compile ended a graph."""
    rows = compile_marks(trace)
    breaks: Int64 = rows[is_named(trace, lambda name: name.startswith(GRAPH_BREAK))[rows]]
    return breaks


def _of_other_profilers(trace: Trace, rows: Int64) -> Int64:
    """Return repeated compilations in another profiler's recording.

    Newer torches say which region it is and how often it was compiled; else a compilation after
    the first step, or after a compiled region has run, is one too many.
    """
    slices, steps = trace.slices, step_table(trace)
    if not len(rows):
        return rows
    if is_named(trace, _COMPILE_ID.search).any():
        again = rows_named(trace, lambda name: _number(name) > 0)
        numbers = np.searchsorted(
            slices.start_ns[again], [slices.start_ns[rows], slices.ends_of(rows)]
        )
        repeated: Int64 = rows[numbers[1] > numbers[0]]
        return repeated
    ran = rows_named(trace, lambda name: name.startswith(_REGION))
    if len(steps) > 1:
        since_ns = int(steps.start_ns[1])
    else:
        since_ns = int(slices.start_ns[ran].min() if len(ran) else slices.end_ns.max())
    later: Int64 = rows[slices.start_ns[rows] >= since_ns]
    return later


def _number(name: str) -> int:
    """Return how often a region had been compiled before; -1 if the name does not say."""
    match = _COMPILE_ID.search(name)
    return int(match[1]) if match else -1
