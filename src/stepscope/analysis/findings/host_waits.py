"""Operators in which the host waits for the device: ``.item()``, ``nonzero``, a boolean index."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stepscope.analysis.device.idle import IdleReason, waiting_calls
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.shared import shared
from stepscope.analysis.sums import around
from stepscope.analysis.tree import framework_operators
from stepscope.trace.model import NO_PARENT, NO_SLICE, Bool, Int64, SliceKind


class HostWaits:
    """The calls of the loop that wait for the device, and the operators that make them."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        calls = facts.in_loop(waiting_calls(facts.trace, facts.work))
        slices = facts.trace.slices
        operator = around(slices.parent, calls, slices.kind == SliceKind.OPERATOR)
        self.calls = calls[operator != NO_PARENT]
        self.operator: Int64 = operator[operator != NO_PARENT]  # the innermost around each

    @cached_property
    def gap_ns(self) -> Int64:
        """Return how much of each gap of the devices such an operator takes to launch its work.

        Without the wait the operator would not be there: ``nonzero`` counts, waits, and then
        launches what depends on the count.
        """
        facts, slices, gaps = self._facts, self._facts.trace.slices, self._facts.gaps
        operator = np.append(facts.work.operator, NO_SLICE)[gaps.before]
        in_one = np.flatnonzero(np.append(self._is_waiting, False)[operator])
        outermost = operator[in_one]
        climbing = np.arange(len(outermost))
        while len(climbing):
            parent = slices.parent[outermost[climbing]]
            waits = (parent != NO_PARENT) & self._is_waiting[parent]
            climbing, parent = climbing[waits], parent[waits]
            outermost[climbing] = parent
        end_ns = (gaps.start_ns + gaps.duration_ns)[in_one]
        since_ns = np.maximum(slices.start_ns[outermost], gaps.start_ns[in_one])
        idle_ns = facts.idle_ns(IdleReason.HOST, IdleReason.LAUNCH)
        found = np.zeros(len(gaps), np.int64)
        found[in_one] = np.minimum(np.maximum(end_ns - since_ns, 0), idle_ns[in_one])
        return found

    @cached_property
    def _is_waiting(self) -> Bool:
        """Return which slices are operators that wait, or call one: ``index`` calls ``nonzero``."""
        slices = self._facts.trace.slices
        found = np.zeros(len(slices), np.bool_)
        found[self.operator] = True
        torchs = framework_operators(self._facts.trace)
        climbing = np.unique(self.operator)
        while len(climbing):
            climbing = np.unique(slices.parent[climbing])
            climbing = climbing[climbing != NO_PARENT]
            climbing = climbing[torchs[climbing] & ~found[climbing]]
            found[climbing] = True
        return found

    @cached_property
    def lost_ns(self) -> Int64:
        after_ns = self._facts.idle_ns(IdleReason.SYNCHRONISATION, IdleReason.AFTER_SYNC)
        return after_ns + self.gap_ns


@shared
def host_waits(facts: Facts) -> HostWaits:
    """Return the waits for the device in what is repeated."""
    return HostWaits(facts)
