"""What-if analysis: replays the dependencies of a job with other durations.

A rank is a chain of own work, arrivals at collectives and waits for their ends. A collective ends
for a rank a fixed time after the last arrival. A rank waits for a collective if nothing else ran
until it was done; overlapping collectives delay no rank. Replaying the recorded durations gives the
recorded times; with changed durations, it predicts the job's time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stepscope.arguments import shown
from stepscope.errors import StepscopeError
from stepscope.job.meetings import Meetings
from stepscope.job.model import Job
from stepscope.trace.model import Bool, Int64

MOST_POINTS = 400_000
"""Longer jobs are replayed for some of the steady steps, which are alike."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A hypothetical step time."""

    what: str
    step_ns: float  # as recorded
    then_ns: float
    steps: int  # that were replayed

    @property
    def saves_ns(self) -> float:
        return self.step_ns - self.then_ns


@dataclass(frozen=True, slots=True)
class Chains:
    """The points of all ranks, rank after rank, each in order of time."""

    first: Int64  # of each rank: its first point; one more value at the end
    meeting: Int64  # of each point
    is_wait: Bool  # the point waits for the meeting's end; otherwise it is an arrival
    own_ns: Int64  # work since the previous point
    lag_ns: Int64  # of a wait: from the last arrival to the end, for this rank
    begin_ns: Int64  # the time of each rank's first point
    arrivals: Int64  # the number of arrivals at each meeting
    steps: int

    def __len__(self) -> int:
        return len(self.meeting)


def what_if(
    job: Job,
    *,
    rank_is_median: int | None = None,
    communication_is_free: bool = False,
    kernel_twice_as_fast: str | None = None,
) -> WhatIf:
    """Return how long a step would take with one change at a time."""
    chains = chains_of(job)
    names = [rank_is_median is not None, communication_is_free, kernel_twice_as_fast is not None]
    if sum(names) != 1:
        raise StepscopeError(
            "what_if: give one of rank_is_median=N, communication_is_free=True, "
            "kernel_twice_as_fast='name'"
        )
    if rank_is_median is not None:
        changed, what = (
            _median_rank(job, chains, rank_is_median),
            f"rank {rank_is_median} like the others",
        )
    elif communication_is_free:
        changed, what = replace(chains, lag_ns=np.zeros_like(chains.lag_ns)), "free communication"
    else:
        assert kernel_twice_as_fast is not None
        changed = _faster_kernel(job, chains, kernel_twice_as_fast)
        what = f"{kernel_twice_as_fast} twice as fast"
    now, then = duration_ns(chains), duration_ns(changed)
    step_ns = job.typical_step_ns
    share = then / now if now else 1.0
    return WhatIf(what, step_ns, step_ns * share, chains.steps)


def chains_of(job: Job) -> Chains:
    """Return the chains of some steady steps, as recorded."""
    meetings, steps = _some_steps(job)
    arrived, done = meetings.arrived_ns, meetings.done_ns
    waits = np.flatnonzero(meetings.waited_ns > 0)
    row = np.concatenate([np.arange(len(arrived)), waits])
    is_wait = np.arange(len(row)) >= len(arrived)
    time = np.where(is_wait, done[row], arrived[row])
    rank = meetings.rank[row]
    order = np.lexsort((is_wait, time, rank))
    row, is_wait, time, rank = row[order], is_wait[order], time[order], rank[order]
    same = np.concatenate([[False], rank[1:] == rank[:-1]])
    since = np.where(same, time - np.concatenate([[0], time[:-1]]), 0)
    waited = np.where(is_wait, np.minimum(meetings.waited_ns[row].astype(np.int64), since), 0)
    last = np.maximum.reduceat(arrived, meetings.first[:-1]) if len(meetings) else arrived
    meeting = meetings.meeting[row]
    lag = np.where(is_wait, np.maximum(time - last[meeting], 0), 0) if len(row) else time
    first = np.searchsorted(rank, np.arange(len(job) + 1))
    begin = np.where(first[:-1] < first[1:], np.append(time, 0)[first[:-1]], 0)
    return Chains(
        first, meeting, is_wait, since - waited, lag, begin, meetings.count, max(steps, 1)
    )


def replayed(chains: Chains) -> tuple[Int64, Int64]:
    """Return when each point is reached, and when each meeting's last rank arrives."""
    first = chains.first.tolist()
    meeting, is_wait = chains.meeting.tolist(), chains.is_wait.tolist()
    own, lag = chains.own_ns.tolist(), chains.lag_ns.tolist()
    missing = chains.arrivals.tolist()
    last = [0] * len(missing)
    at, now = first[:-1].copy(), chains.begin_ns.tolist()
    reached = [0] * len(meeting)
    parked: dict[int, list[int]] = {}
    ready = list(range(len(at)))
    while ready or parked:
        if not ready:  # the recording has a cycle, which one point must break
            blocked = min(parked)
            missing[blocked] = 0
            ready = parked.pop(blocked)
        rank = ready.pop()
        i, end, t = at[rank], first[rank + 1], now[rank]
        while i < end:
            of = meeting[i]
            if is_wait[i]:
                if missing[of] > 0:
                    parked.setdefault(of, []).append(rank)
                    break
                t = max(t + own[i], last[of] + lag[i])
            else:
                t += own[i]
                last[of] = max(last[of], t)
                missing[of] -= 1
                if missing[of] == 0 and of in parked:
                    ready += parked.pop(of)
            reached[i] = t
            i += 1
        at[rank], now[rank] = i, t
    return np.array(reached, np.int64), np.array(last, np.int64)


def duration_ns(chains: Chains) -> int:
    """Return the replayed time from the first point to the last."""
    if not len(chains):
        return 0
    reached, _ = replayed(chains)
    has = chains.first[:-1] < chains.first[1:]
    return int(reached.max() - chains.begin_ns[has].min())


def _some_steps(job: Job) -> tuple[Meetings, int]:
    """Return the meetings of consecutive steady steps, limited in number."""
    meetings, steady = job.meetings, job.steps[job.steady]
    inside = np.isin(meetings.step, steady)
    if not inside.any():
        return meetings, 1
    points = 2 * int(meetings.count[inside].sum())
    if points > MOST_POINTS:
        steps_kept = max(len(steady) * MOST_POINTS // points, 1)
        begin = (len(steady) - steps_kept) // 2
        steady = steady[begin : begin + steps_kept]
        inside = np.isin(meetings.step, steady)
    return meetings.take(inside), len(steady)


def _place_of(job: Job, rank: int) -> int:
    at = np.flatnonzero(job.number == rank)
    if not len(at):
        ranks = ", ".join(map(str, job.number[:8].tolist()))
        raise StepscopeError(f"the job has no rank {shown(rank)}; it has {ranks}, ...")
    return int(at[0])


def _median_rank(job: Job, chains: Chains, rank: int) -> Chains:
    """Replace a rank's work before each point by the others' median if that is less."""
    at = _place_of(job, rank)
    mine = slice(int(chains.first[at]), int(chains.first[at + 1]))
    key = chains.meeting * 2 + chains.is_wait
    others = np.ones(len(chains), np.bool_)
    others[mine] = False
    order = np.lexsort((chains.own_ns[others], key[others]))
    ordered, own = key[others][order], chains.own_ns[others][order]
    low = np.searchsorted(ordered, key[mine], side="left")
    high = np.searchsorted(ordered, key[mine], side="right")
    changed = chains.own_ns.copy()
    middle = np.append(own, 0)[np.minimum((low + high - 1) // 2, len(own))]
    usual = np.where(high > low, middle, changed[mine])
    changed[mine] = np.minimum(changed[mine], usual)
    return replace(chains, own_ns=changed)


def _faster_kernel(job: Job, chains: Chains, name: str) -> Chains:
    """Shorten each rank's work by half of its time in a kernel or operator."""
    changed = chains.own_ns.copy()
    is_recorded = False
    for i, rank in enumerate(job.ranks):
        work = rank.work
        if work is None:
            continue
        steady = work.is_steady
        for table in (work.kernels, work.operators):
            if name in table.names:
                is_recorded = True
                spent = float(table.ns[table.names.index(name)][steady].sum())
                share = spent / max(float(work.own_ns[steady].sum()), 1.0)
                mine = slice(int(chains.first[i]), int(chains.first[i + 1]))
                changed[mine] = (changed[mine] * max(1 - share / 2, 0)).astype(np.int64)
                break
    if not is_recorded:
        raise StepscopeError(f"no rank spends much time on {shown(name)}; see the ranks' summaries")
    return replace(chains, own_ns=changed)
