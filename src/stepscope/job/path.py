"""The critical path of a step: the chain of work and communication across ranks that defines its
duration. Only shortening something on it shortens the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.table import Table
from stepscope.job.model import Job
from stepscope.trace.model import Int64

WORK = "own work"


@dataclass(frozen=True, slots=True)
class CriticalPath(Table):
    """One row per segment of the path; segments follow each other in time."""

    rank: Int64
    what: tuple[str, ...]  # WORK, or the collective in progress
    start_ns: Int64  # on the job's clock
    duration_ns: Int64

    def by_rank(self) -> dict[int, int]:
        """Return the own work of each rank on the path, in ns, the longest first."""
        sums: dict[int, int] = {}
        columns = zip(self.rank.tolist(), self.what, self.duration_ns.tolist(), strict=True)
        for rank, what, ns in columns:
            if what == WORK:
                sums[rank] = sums.get(rank, 0) + ns
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))


def critical_path(job: Job, step: int | None = None) -> CriticalPath:
    """Return the critical path of a step, by default of the most typical one."""
    if step is None:
        step = _usual_step(job)
    meetings = job.meetings.take(job.meetings.step == step)
    if not len(meetings):
        nothing = np.zeros(0, np.int64)
        return CriticalPath(nothing, (), nothing, nothing)
    last_row = _last_rows(meetings.arrived_ns, meetings.meeting, meetings.first)
    waits = [
        np.flatnonzero((meetings.rank == i) & (meetings.waited_ns > 0)) for i in range(len(job))
    ]
    waits = [rows[np.argsort(meetings.done_ns[rows], kind="stable")] for rows in waits]
    at = int(meetings.done_ns.argmax())
    rank, time = int(meetings.rank[at]), int(meetings.done_ns[at])
    begin = _step_begin(job, step, int(meetings.arrived_ns.min()))
    pieces: list[tuple[int, str, int, int]] = []
    while time > begin and len(pieces) < 4 * len(meetings.rank) + 4:
        rows = waits[rank]
        before = int(np.searchsorted(meetings.done_ns[rows], time, side="right")) - 1
        if before < 0:
            pieces.append((rank, WORK, begin, time))
            break
        row = int(rows[before])
        waits[rank] = rows[:before]
        done = int(meetings.done_ns[row])
        if time > done:
            pieces.append((rank, WORK, done, time))
        late = int(last_row[meetings.meeting[row]])
        arrived = min(int(meetings.arrived_ns[late]), done)
        name = meetings.kinds[meetings.kind[meetings.meeting[row]]].name
        if done > arrived:
            pieces.append((int(meetings.rank[late]), name, arrived, done))
        rank, time = int(meetings.rank[late]), arrived
    pieces.reverse()
    numbers = np.array([(rank, begin, end) for rank, _, begin, end in pieces], np.int64)
    numbers = numbers.reshape(-1, 3)
    return CriticalPath(
        job.number[numbers[:, 0]],
        tuple(what for _, what, _, _ in pieces),
        numbers[:, 1],
        numbers[:, 2] - numbers[:, 1],
    )


def _usual_step(job: Job) -> int:
    steady = np.flatnonzero(job.steady)
    if not len(steady):
        return -1
    took = np.nanmedian(job.step_ns[:, steady], axis=0)
    return int(job.steps[steady[np.argsort(took)[(len(took) - 1) // 2]]])


def _step_begin(job: Job, step: int, first_arrival: int) -> int:
    """Return when the first rank began the step, on the job's clock."""
    starts = []
    for i, (rank, own) in enumerate(zip(job.ranks, job.step_numbers, strict=True)):
        at = np.flatnonzero(own == step)
        if len(at) and rank.work is not None:
            time = rank.work.start_ns[at[:1]] + rank.wall_offset_ns
            starts.append(int(job.clocks.corrected(np.array([i]), time)[0]))
    return min([*starts, first_arrival])


def _last_rows(arrived: Int64, meeting: Int64, first: Int64) -> Int64:
    order = np.lexsort((arrived, meeting))
    return order[first[1:] - 1]
