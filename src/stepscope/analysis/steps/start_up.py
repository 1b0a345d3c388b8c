"""What devices wait for once: libraries that are set up, modules loaded, plans searched for.

A recording of a whole program has that in it; one that a profiler took of a server that runs has
not, and there every gap counts. The trace tells: Stepscope's own recordings may begin with the
program, and others do where a library is loaded, a kernel is compiled or the first launch of a
kernel takes much longer than launches do.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.tree import has_text
from stepscope.analysis.steps.phases import compilations
from stepscope.analysis.work.idle import IdleGaps, IdleReason, idle_gaps
from stepscope.analysis.work.work import DeviceWork, device_work
from stepscope.trace.model import NO_SLICE, PRODUCER, Bool, Int64, SliceKind, Trace

# Loading a module of kernels when one of them is first used takes longer.
MIN_FIRST_USE_NS = 500_000
MIN_RUNS = 3  # a kernel that runs less often may be all that the program does

_FIRST_USE = re.compile(r"(Module|Library)(Load|GetFunction)|GetFuncBySymbol|cuInit|nvrtc", re.I)


@shared
def start_up_idle_ns(trace: Trace) -> int:
    """Return how long devices wait on average for one-time work, in a run without steps."""
    work = device_work(trace)
    if not len(work):
        return 0
    start_up, gaps = StartUp(trace, work), idle_gaps(trace, work)
    once = start_up.happen_once(gaps)
    if start_up.is_recorded:
        once |= gaps.parts_ns[:, IdleReason.BEFORE_FIRST] > 0
    return int(gaps.duration_ns[once].sum()) // len(work.devices)


class StartUp:
    """The start-up of a program, as far as its devices wait for it."""

    def __init__(self, trace: Trace, work: DeviceWork) -> None:
        self._trace = trace
        self._work = work

    @cached_property
    def end_ns(self) -> int | None:
        """Return when devices begin their main work: the first run of their main kernel.

        Before, weights are copied and filled. None where it is not known, or was earlier.
        """
        kernels = np.flatnonzero(self._work.is_kernel)
        if not len(kernels) or not self.is_recorded:
            return None
        _, first, which = np.unique(
            self._trace.slices.name[self._work.rows[kernels]],
            return_index=True,
            return_inverse=True,
        )
        which = which.reshape(-1)
        spent_ns = np.bincount(which, self._work.duration_ns[kernels])
        heaviest = int(spent_ns.argmax())
        if int((which == heaviest).sum()) < MIN_RUNS:
            return None
        return int(self._work.start_ns[kernels[first[heaviest]]])

    @cached_property
    def is_recorded(self) -> bool:
        """Tell whether the trace may contain the program's start."""
        if self._trace.info.producer == PRODUCER or len(self.compiles) or len(self._loads):
            return True
        calls, count = np.unique(self._work.call, return_counts=True)
        single = calls[(count == 1) & (calls != NO_SLICE)]  # else it launches a graph
        first = self._first[self._work.is_kernel[self._first]]
        call = np.intersect1d(self._work.call[first], single)
        return bool((self._trace.slices.duration_ns[call] >= MIN_FIRST_USE_NS).any())

    def happen_once(self, gaps: IdleGaps) -> Bool:
        """Tell in which gaps one-time work is done."""
        end_ns = gaps.end_ns
        once: Bool = self._first_uses.covered(gaps.start_ns, end_ns) > 0
        if self.is_recorded:
            often = self._work.rows[self._first[self._count >= MIN_RUNS]]
            once |= np.isin(gaps.before, often) & (gaps.duration_ns >= MIN_FIRST_USE_NS)
        if self.end_ns is not None:
            once |= gaps.start_ns < self.end_ns
        return once

    @cached_property
    def compiles(self) -> Intervals:
        """Return when kernels or models were compiled."""
        rows = compilations(self._trace)
        return union(self._trace.slices.start_ns[rows], self._trace.slices.ends_of(rows))

    @cached_property
    def _loads(self) -> Int64:
        """Return the calls that load modules and libraries and take long."""
        slices = self._trace.slices
        calls = np.flatnonzero(slices.kind == SliceKind.RUNTIME)
        calls = calls[slices.duration_ns[calls] >= MIN_FIRST_USE_NS]
        return calls[has_text(slices.name[calls], self._trace.strings, _FIRST_USE.search)]

    @cached_property
    def _first_uses(self) -> Intervals:
        slices = self._trace.slices
        rows = np.union1d(self._loads, compilations(self._trace))
        return union(slices.start_ns[rows], slices.ends_of(rows))

    @cached_property
    def _runs(self) -> tuple[Int64, Int64]:
        _, first, count = np.unique(
            self._trace.slices.name[self._work.rows], return_index=True, return_counts=True
        )
        return first.astype(np.int64), count.astype(np.int64)

    @property
    def _first(self) -> Int64:
        return self._runs[0]

    @property
    def _count(self) -> Int64:
        return self._runs[1]
