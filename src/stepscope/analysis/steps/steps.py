"""The steps of a training or inference loop, marked by the user or recognised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.shared import shared
from stepscope.analysis.tree import ids_where
from stepscope.trace.kinds import step_number
from stepscope.trace.model import DEVICE_KINDS, SliceKind

if TYPE_CHECKING:
    from stepscope.trace.model import Int32, Int64, Trace

_OPTIMIZER_PREFIX = "Optimizer.step#"


@dataclass(frozen=True, slots=True)
class Steps:
    """One row per step, in time order."""

    number: Int32
    start_ns: Int64
    duration_ns: Int64

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.number)


@shared
def step_table(trace: Trace) -> Steps:
    """Return the steps that were marked, else those that end with an optimizer's step."""
    rows = np.flatnonzero(trace.slices.kind == SliceKind.STEP)
    return _marked(trace, rows) if len(rows) else _by_optimizer(trace)


def _marked(trace: Trace, rows: Int64) -> Steps:
    numbers = [step_number(trace.name_of(int(row))) for row in rows]
    slices = trace.slices
    return Steps(np.array(numbers, np.int32), slices.start_ns[rows], slices.duration_ns[rows])


def _by_optimizer(trace: Trace) -> Steps:
    """Cut time where the busiest optimizer ends a step; what follows the last belongs to none."""
    slices = trace.slices
    names = ids_where(slices.name, trace.strings, lambda name: name.startswith(_OPTIMIZER_PREFIX))
    on_host = ~np.isin(slices.kind, DEVICE_KINDS)
    calls = [np.flatnonzero((slices.name == name) & on_host) for name in names]
    rows = max(calls, key=len, default=np.zeros(0, np.int64))
    ends = np.sort(slices.start_ns[rows] + slices.duration_ns[rows])
    first_start = min(trace.info.start_ns, int(slices.start_ns[0])) if len(slices) else 0
    starts = np.concatenate([[first_start], ends[:-1]]) if len(ends) else ends
    return Steps(np.arange(len(ends), dtype=np.int32), starts, ends - starts)
