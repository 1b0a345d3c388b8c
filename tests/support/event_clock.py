"""A clock of the tests' own: time passes when something begins or ends, and not otherwise.

A real program is recorded, and then its trace is put on this clock: shares and ratios are those of
what the program did, however busy the machine was that it ran on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stepscope.trace.build import build

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.trace.model import Trace

TICK_NS = 10_000


def on_event_clock(trace: Trace, longer_ns: Mapping[str, int] | None = None) -> Trace:
    """Return the trace as if every begin and end came a tick after the one before it.

    What is called by a name of ``longer_ns`` takes so much longer.
    """
    slices, rows = trace.slices, len(trace.slices)
    times = np.concatenate((slices.start_ns, slices.end_ns))
    is_end = np.repeat([0, 1], rows)
    depth = np.tile(slices.depth, 2)
    # At one moment what ends goes first, the innermost before what is around it.
    order = np.lexsort((np.where(is_end, -depth, depth), 1 - is_end, times))
    tick_ns = np.full(2 * rows, TICK_NS, np.int64)
    for name, more_ns in (longer_ns or {}).items():
        named = [row for row in range(rows) if trace.name_of(row) == name]
        tick_ns[np.array(named, np.int64) + rows] += more_ns
    now_ns = np.empty(2 * rows, np.int64)
    now_ns[order] = np.cumsum(tick_ns[order])
    moved = replace(slices, start_ns=now_ns[:rows], duration_ns=now_ns[rows:] - now_ns[:rows])
    info = replace(trace.info, start_ns=0, end_ns=int(now_ns.max(initial=0)) + TICK_NS)
    return build(replace(trace, slices=moved), info)
