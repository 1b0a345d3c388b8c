"""What the pages are about at first: the steps, without those in which the program warms up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.intervals import union
from stepscope.analysis.shared import shared
from stepscope.analysis.steps.breakdown import step_breakdown
from stepscope.analysis.steps.phases import without_compilation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.analysis.intervals import Intervals
    from stepscope.trace.model import Trace

    Bool = NDArray[np.bool_]

_WARM = 1.5
"""Times the median: the first steps that take longer still allocate, tune or fill caches."""

_MOST_WARM_UP = 0.1
"""Share of the steps: if more of them are slow, that is how the program runs."""


def steady_steps(trace: Trace) -> Bool:
    """Tell which steps are complete and no warm-up: one for each of ``step_breakdown``'s."""
    rows = step_breakdown(trace)
    steady = rows.is_whole.copy() if rows.is_whole.any() else np.ones(len(rows), np.bool_)
    worth_ns = without_compilation(trace, rows.start_ns, rows.duration_ns)
    counted = np.flatnonzero(steady)
    if len(counted) > 2:
        warm = worth_ns[counted] <= _WARM * float(np.median(worth_ns[counted]))
        most = max(1, int(_MOST_WARM_UP * len(counted)))
        steady[counted[: min(int(warm.argmax()), most)]] = False
    return steady


@shared
def steady_time(trace: Trace) -> Intervals | None:
    """Return the time of the steady steps; None where the program has no steps."""
    rows, steady = step_breakdown(trace), steady_steps(trace)
    if not steady.any():
        return None
    return union(rows.start_ns[steady], (rows.start_ns + rows.duration_ns)[steady])


def opening(trace: Trace) -> tuple[int, int] | None:
    """Return the stretch of time to look at first: the median one of the steady steps.

    None where there are no steps: everything is as good a start as any.
    """
    rows, steady = step_breakdown(trace), np.flatnonzero(steady_steps(trace))
    if len(steady):
        duration_ns = rows.duration_ns[steady]
        middle = steady[np.argsort(duration_ns, kind="stable")[(len(steady) - 1) // 2]]
        start_ns = int(rows.start_ns[middle])
        return start_ns, start_ns + int(rows.duration_ns[middle])
    return None
