"""The steady steps, which pages show at first."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.shared import shared
from stepscope.analysis.steps.steps import steady_steps, step_table
from stepscope.trace.model import Trace


@shared
def steady_time(trace: Trace) -> Intervals | None:
    """Return the time of the steady steps; None where the program has no steps."""
    steps, steady = step_table(trace), steady_steps(trace)
    if not steady.any():
        return None
    return union(steps.start_ns[steady], steps.end_ns[steady])


def opening(trace: Trace) -> tuple[int, int] | None:
    """Return the time span that the page opens on: the median steady step.

    None for a program without steps.
    """
    steps, steady = step_table(trace), np.flatnonzero(steady_steps(trace))
    if not len(steady):
        return None
    order = np.argsort(steps.duration_ns[steady], kind="stable")
    middle = steady[order[(len(steady) - 1) // 2]]
    return int(steps.start_ns[middle]), int(steps.end_ns[middle])
