"""What a program lost while its threads were ready to run and had no core, as the kernel counts it.

No time is corrected by it: durations stay as measured, and waiting for a core stands beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.sums import summed
from stepscope.analysis.steps.ledger import Ledger
from stepscope.analysis.steps.steps import steady_steps, step_table
from stepscope.analysis.steps.unit import unit_words
from stepscope.trace.model import NO_STACK, RUNNING_STATES, Float64, ThreadState, Trace
from stepscope.units import duration_text

# A machine is shared if a thread waits this long: a quiet one's threads wait for a few percent.
MIN_SHARE = 0.05
OWN_CORES = 0.75  # a program that keeps more of all cores busy has made its threads wait itself


@dataclass(frozen=True, slots=True)
class CoreShortage:
    """How long the threads of a program waited for a core, in an average step or in the run."""

    unit: str
    waiting_ns: float  # the thread of the steps; shares of a step are of the rest
    whole_ns: float  # how long the step takes, waiting included
    pool_share: float  # of the time, in which a thread that operators run on had no core
    is_own: bool  # the program itself, or its children, keep the cores busy

    @property
    def is_large(self) -> bool:
        return max(self.waiting_ns, self.pool_share * self.whole_ns) >= MIN_SHARE * self.whole_ns

    @property
    def words(self) -> str:
        """Say who used the cores, what it cost, and how far to trust the figures; empty if little.

        A thread that waits for operators that other threads compute waits longer if those have no
        core, so that the operators' share is too large.
        """
        if not self.is_large:
            return ""
        what = unit_words(self.unit)
        who = (
            "The program's own threads and workers keep the cores busy"
            if self.is_own
            else "Other programs use this machine's cores"
        )
        waited = duration_text(self.waiting_ns)
        sentence = f"{who}: {what} waited {waited} of its {duration_text(self.whole_ns)} for a core"
        if self.pool_share >= MIN_SHARE:
            sentence += (
                f", and the threads of its operators {self.pool_share:.0%} of the time, which "
                "makes operators seem slower than they are"
            )
        return f"{sentence}. Times are as measured; shares are of the time with a core."

    def to_json(self) -> dict[str, Any]:
        return {
            "waiting_ns": round(self.waiting_ns),
            "of_ns": round(self.whole_ns),
            "operators_share": round(self.pool_share, 4),
            "by": "the program" if self.is_own else "others",
            "words": self.words,
        }


def core_shortage(trace: Trace, spent: Ledger) -> CoreShortage | None:
    """Return how long the program waited for cores; None where nothing was sampled."""
    if not len(trace.samples):
        return None
    time = _counted_time(trace)
    return CoreShortage(
        unit=spent.unit,
        waiting_ns=spent.ready_ns / max(spent.count, 1),
        whole_ns=spent.whole_ns,
        pool_share=_pool_share(trace, time),
        is_own=_keeps_cores_busy(trace, time),
    )


def ready_in_steps(trace: Trace) -> Float64:
    """Return how long the thread of each step was ready to run and had no core."""
    samples, steps = trace.samples, step_table(trace)
    waited = np.zeros(len(steps))
    for track in np.unique(steps.track).tolist():
        rows = (samples.track == track) & (samples.state == ThreadState.READY)
        waits = union(samples.time_ns[rows], samples.end_ns[rows])
        mine = steps.track == track
        waited[mine] = waits.covered(steps.start_ns[mine], steps.end_ns[mine])
    return waited


def _counted_time(trace: Trace) -> Intervals:
    steps, steady = step_table(trace), steady_steps(trace)
    if len(steps):
        return union(steps.start_ns[steady], steps.end_ns[steady])
    return union(np.array([trace.info.start_ns]), np.array([trace.info.end_ns]))


def _pool_share(trace: Trace, time: Intervals) -> float:
    """Return the share of the time for which the thread without Python that waited most waited."""
    samples = trace.samples
    rows = np.flatnonzero((samples.state == ThreadState.READY) & (samples.stack == NO_STACK))
    tracks, which = np.unique(samples.track[rows], return_inverse=True)
    waited_ns = summed(
        which.reshape(-1), time.covered(samples.time_ns[rows], samples.end_ns[rows]), len(tracks)
    )
    return min(int(waited_ns.max(initial=0)) / max(time.total_ns, 1), 1.0)


def _keeps_cores_busy(trace: Trace, time: Intervals) -> bool:
    parallelism, samples = trace.info.parallelism, trace.samples
    runs = np.isin(samples.state, RUNNING_STATES)
    ran_ns = int(time.covered(samples.time_ns[runs], samples.end_ns[runs]).sum())
    cores = parallelism.get("cores", 0.0)
    return ran_ns >= OWN_CORES * cores * time.total_ns or parallelism.get("loader workers", 0.0) > 0
