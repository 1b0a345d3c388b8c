"""Operators in which the host waits for the device: ``.item()``, ``nonzero``, a boolean index."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.device.idle import IdleReason, waiting_calls
from stepscope.analysis.shared import shared
from stepscope.analysis.tree import ids_where
from stepscope.trace.model import NO_PARENT, SliceKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.analysis.findings.facts import Facts
    from stepscope.trace.model import Int64

    Bool = NDArray[np.bool_]


class HostWaits:
    """The calls of the loop that wait for the device, and the operators that make them."""

    def __init__(self, facts: Facts) -> None:
        """Find the calls that are made by an operator."""
        self._facts = facts
        calls = facts.in_loop(waiting_calls(facts.trace, facts.work))
        operator = _nearest_operator(facts, calls)
        self.calls = calls[operator != NO_PARENT]
        self.operator: Int64 = operator[operator != NO_PARENT]  # the innermost around each

    @cached_property
    def gaps(self) -> Bool:
        """Return the gaps of devices that end with what such an operator launches.

        Without the wait the operator would not be there: ``nonzero`` counts, waits, and then
        launches what depends on the count.
        """
        facts, slices = self._facts, self._facts.trace.slices
        is_waiting = np.zeros(len(slices) + 1, np.bool_)  # the last for no slice
        is_waiting[self.operator] = True
        torchs = ids_where(slices.name, facts.trace.strings, lambda name: name.startswith("aten::"))
        is_torchs = np.isin(slices.name, torchs)
        climbing = np.unique(self.operator)
        while len(climbing):  # aten::index, which calls aten::nonzero
            climbing = np.unique(slices.parent[climbing])
            climbing = climbing[climbing != NO_PARENT]
            climbing = climbing[is_torchs[climbing] & ~is_waiting[climbing]]
            is_waiting[climbing] = True
        launched = np.append(facts.work.operator, len(slices))[facts.gaps.before]
        found: Bool = is_waiting[launched]
        return found

    @cached_property
    def lost_ns(self) -> Int64:
        """Return how much of each gap is lost by waiting."""
        facts = self._facts
        own = (IdleReason.HOST, IdleReason.LAUNCH)
        after = facts.idle_ns(IdleReason.SYNCHRONISATION, IdleReason.AFTER_SYNC)
        return np.where(self.gaps, after + facts.idle_ns(*own), after)


@shared
def host_waits(facts: Facts) -> HostWaits:
    """Return the waits for the device in what is repeated."""
    return HostWaits(facts)


def _nearest_operator(facts: Facts, rows: Int64) -> Int64:
    """Return the innermost operator around each of some slices, NO_PARENT where there is none."""
    slices = facts.trace.slices
    above = slices.parent[rows].astype(np.int64)
    climbing = np.arange(len(above))
    while len(climbing):
        at = above[climbing]
        climbing = climbing[(at != NO_PARENT) & (slices.kind[at] != SliceKind.OPERATOR)]
        above[climbing] = slices.parent[above[climbing]]
    return above
