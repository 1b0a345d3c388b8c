"""The ranks that make the others wait, in most steps or in some.

The delay of a rank in a step is its lateness at the step's collectives, compared with the median
rank; each delay counts once, where it arises. A rank is a straggler if its delay is far beyond the
usual differences between ranks, and beyond the residual of the clocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.job.arrivals import lateness, of_several
from stepscope.job.model import Job
from stepscope.trace.model import Float64, Int64

LEAST_SHARE = 0.05
"""A smaller share of a step is not worth reporting."""

LEAST_PASSING_SHARE = 0.2
"""Single steps must be late by this share of a typical step, since steps vary."""

_CERTAIN = 4.0  # standard errors
_FEWEST_STEPS = 4
_MOST_STEPS = 0.5  # share of steps above which a rank is persistently late
_OUTLIER = 6.0  # in spreads of the differences between ranks
_FEWEST_TIMES = 2
_MOSTLY_MINE = 0.6  # share of late steps that one rank must cause: otherwise it is noise


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank that is late, how often and by how much."""

    rank: int
    host: str
    is_persistent: bool
    delay_ns: float  # behind the median rank: in an average step, or in the late steps
    share: float  # of a step
    steps: tuple[int, ...]  # the job's steps in which it is late
    of_steps: int  # how many were looked at
    every: int  # n if every n-th step is late, else 0
    saves_ns: float  # what an average step saves if it equals the median rank

    @property
    def words(self) -> str:
        """Return how often: ``in 36 of 40 steps``, ``every 10th step``."""
        if self.every > 1:
            return f"every {_ordinal(self.every)} step"
        return f"in {len(self.steps)} of {self.of_steps} steps"


def step_delays(job: Job) -> Float64:
    """Return the delay in ns that each rank (row) causes in each step (column)."""
    meetings = of_several(job.meetings)
    delays = np.zeros((len(job), len(job.steps)))
    if not len(job.steps):
        return delays
    if not len(meetings):  # ranks without meetings are compared by duration
        own = np.nan_to_num(job.own_ns)
        return np.maximum(own - _middle(own), 0)
    late = lateness(meetings)
    step = meetings.step[meetings.meeting]
    at = np.minimum(np.searchsorted(job.steps, step), len(job.steps) - 1)
    inside = job.steps[at] == step
    # Time that a rank loses and makes up before the meeting is no delay.
    gained = np.where(late.gained_ns > job.residual_ns, late.gained_ns, 0)
    cell = meetings.rank[inside].astype(np.int64) * len(job.steps) + at[inside]
    sums = np.bincount(cell, gained[inside], delays.size).astype(np.float64)
    return sums.reshape(delays.shape)


def stragglers(job: Job) -> list[Straggler]:
    steady = np.flatnonzero(job.steady)
    if len(job) < 2 or not len(steady):
        return []
    delays = step_delays(job)[:, steady]
    step_ns = np.nanmedian(job.step_ns[:, steady], axis=0)
    typical_ns = max(job.typical_step_ns, 1.0)
    beyond = delays - _middle(delays)
    late = []
    most_late = max(len(job) // 2, 1)  # the median is the reference: at most half can be late
    for rank in np.argsort(-delays.mean(axis=1), kind="stable")[:most_late].tolist():
        pattern = _persistent(job, beyond, rank, typical_ns) or _passing(
            job, beyond, rank, typical_ns, step_ns
        )
        if pattern is None:
            continue
        is_persistent, which = pattern
        numbers = tuple(job.steps[steady[which]].tolist())
        mean_ns = float(beyond[rank].mean() if is_persistent else beyond[rank, which].mean())
        saved = mean_ns * len(which) / len(steady)
        saved = _saved(beyond, rank) if is_persistent else saved
        late.append(
            Straggler(
                rank=int(job.number[rank]),
                host=job.hosts[rank],
                is_persistent=is_persistent,
                delay_ns=mean_ns,
                share=mean_ns / typical_ns,
                steps=numbers,
                of_steps=len(steady),
                every=0 if is_persistent else _period(which),
                saves_ns=saved,
            )
        )
    return sorted(late, key=lambda one: -one.saves_ns)


def _middle(delays: Float64) -> Float64:
    """Return the median rank's delay in each step; the lower one of two."""
    middle: Float64 = np.sort(delays, axis=0)[(len(delays) - 1) // 2]
    return middle


def _persistent(
    job: Job, beyond: Float64, rank: int, typical_ns: float
) -> tuple[bool, Int64] | None:
    own = beyond[rank]
    others = np.delete(beyond, rank, axis=0)
    mean = float(own.mean())
    least = max(LEAST_SHARE * typical_ns, job.residual_ns)
    which = np.flatnonzero(own > least)
    if mean < least or len(which) < _MOST_STEPS * len(own):
        return None
    if len(own) < _FEWEST_STEPS:  # too few steps: the other ranks define the noise
        usual = float(np.max(others.mean(axis=1))) if len(others) else 0.0
        return (True, which) if mean > 3 * usual else None
    middle = float(np.median(own))
    error = 1.4826 * float(np.median(np.abs(own - middle))) / np.sqrt(len(own))
    noise = float(np.quantile(others, 0.9)) if others.size else 0.0
    if middle < _CERTAIN * error or middle < least or middle < noise:
        return None
    return True, which


def _passing(
    job: Job, beyond: Float64, rank: int, typical_ns: float, step_ns: Float64
) -> tuple[bool, Int64] | None:
    spread = 1.4826 * float(np.median(np.abs(beyond - np.median(beyond))))
    least = max(LEAST_PASSING_SHARE * typical_ns, _OUTLIER * spread, job.residual_ns)
    late = beyond > least
    which = np.flatnonzero(late[rank])
    if len(which) < _FEWEST_TIMES:
        return None
    alike = beyond > float(np.max(beyond[rank, which])) / 3
    which = np.flatnonzero(late[rank] & alike[rank])
    if len(which) < _MOSTLY_MINE * (late & alike).any(axis=0).sum():
        return None
    # The job must be slower in those steps, too: otherwise nobody waited.
    others = np.setdiff1d(np.arange(beyond.shape[1]), which)
    if len(others) and np.median(step_ns[which]) < np.median(step_ns[others]) + least / 2:
        return None
    return False, which


def _saved(beyond: Float64, rank: int) -> float:
    """Return how much shorter an average step is without the rank: the next one counts then."""
    if len(beyond) < 2:
        return 0.0
    next_ns = np.delete(beyond, rank, axis=0).max(axis=0)
    return float(np.maximum(beyond[rank] - np.maximum(next_ns, 0), 0).mean())


def _period(which: Int64) -> int:
    """Return n if the steps are every n-th one, else 0."""
    if len(which) < 3:
        return 0
    apart = np.diff(which)
    usual = int(np.median(apart))
    regular = (np.abs(apart - usual) == 0).mean() >= 0.75
    return usual if regular and usual > 1 else 0


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0)
    return f"{number}{ending or 'th'}"
