"""The answer of a job: which rank is late, by how much, and why, for terminal, page and JSON."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.findings import find_problems
from stepscope.analysis.findings.model import Finding, Severity
from stepscope.errors import TraceReadWarning
from stepscope.formats.base.registry import read_trace
from stepscope.job.arrivals import blame_table, lateness, of_several
from stepscope.job.exposed_sums import ALL
from stepscope.job.findings import find_job_problems, transfer_ns
from stepscope.job.late import step_delays
from stepscope.job.model import Job
from stepscope.trace.measures import measure
from stepscope.units import COUNT, SHARE, TEXT, TIME, duration_text


@dataclass(frozen=True, slots=True)
class RankRow:
    """A rank's average steady step."""

    rank: int = measure("Rank", COUNT)
    host: str = measure("Host", TEXT)
    step_ns: float = measure("Step", TIME)
    own_ns: float = measure("Own work", TIME, "A step less exposed communication")
    delay_ns: float = measure("Arrives late by", TIME, "After the median rank")
    late_steps: int = measure("Last in steps", COUNT, "By more than the clocks' residual")
    wait_ns: float = measure("Waits for ranks", TIME, "Until the last rank had arrived")
    transfer_ns: float = measure("Transfers", TIME, "Exposed, after all ranks have arrived")
    overlap: float | None = measure("Overlapped", SHARE, "Communication beside compute")


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """The result of analysing all ranks together."""

    verdict: str
    job: Job
    rows: tuple[RankRow, ...]  # the latest first
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        job, clocks = self.job, self.job.clocks
        return {
            "verdict": self.verdict,
            "job": {
                "folder": job.folder,
                "ranks": job.number.tolist(),
                "world_size": job.world_size,
                "hosts": sorted({host for host in job.hosts if host}),
                "missing": list(job.missing),
                "left_out": [
                    {"path": file.path, "rank": file.rank, "reason": file.reason}
                    for file in job.left_out
                ],
                "events": sum(rank.events for rank in job.ranks),
                "lost_events": sum(rank.lost for rank in job.ranks),
                "collectives": len(job.meetings),
            },
            "clock": {
                "aligned": clocks.is_aligned,
                "residual_ns": round(clocks.residual_ns),
                "offset_ns": [round(offset) for offset in clocks.offset_ns.tolist()],
                "drift_ppm": [drift * 1e6 for drift in clocks.drift.tolist()],
            },
            "steps": {
                "count": len(job.steps),
                "steady": int(job.steady.sum()),
                "unit": job.unit,
                "median_ns": round(job.typical_step_ns),
            },
            "ranks": [
                {
                    "rank": row.rank,
                    "host": row.host,
                    "step_ns": round(row.step_ns),
                    "own_ns": round(row.own_ns),
                    "delay_ns": round(row.delay_ns),
                    "last_in_steps": row.late_steps,
                    "wait_ns": round(row.wait_ns),
                    "transfer_ns": round(row.transfer_ns),
                    "overlap": row.overlap,
                }
                for row in self.rows
            ],
            "findings": [finding.to_json() for finding in self.findings],
        }


def job_answer(job: Job) -> JobAnswer:
    findings = tuple(find_job_problems(job))
    rows = rank_rows(job)
    if len(job) > 1 and all(finding.severity is Severity.LOW for finding in findings):
        findings = (*_problems_of(job, rows[0].rank), *findings)
    return JobAnswer(_verdict(job, findings, rows), job, rows, findings)


def _problems_of(job: Job, rank: int) -> list[Finding]:
    """Return what is slow on one rank alone, for a job without stragglers: ranks do the same."""
    path = job.ranks[int(np.flatnonzero(job.number == rank)[0])].path
    if not path or not Path(path).exists():
        return []
    with warnings.catch_warnings(), shared_analyses():
        warnings.simplefilter("ignore", TraceReadWarning)
        problems = find_problems(read_trace(path))
    seen = f"Seen on rank {rank}; no rank stands out, so the others probably do the same."
    return [
        replace(problem, text=f"{problem.text} {seen}")
        for problem in problems
        if problem.severity is not Severity.LOW
    ]


def rank_rows(job: Job) -> tuple[RankRow, ...]:
    """Return the figures of each rank, the one with the most delay first."""
    steady = job.steady
    count = max(int(steady.sum()), 1)
    delays = step_delays(job)[:, steady].sum(axis=1) / count
    step_ns, own_ns = (_mean(figures[:, steady]) for figures in (job.step_ns, job.own_ns))
    meetings = of_several(job.meetings)
    meetings = (
        meetings.take(np.isin(meetings.step, job.steps[steady])) if len(meetings) else meetings
    )
    waits, transfers = np.zeros(len(job)), np.zeros(len(job))
    if len(meetings):
        wait = np.minimum(lateness(meetings).wait_ns, meetings.waited_ns)
        waits = np.bincount(meetings.rank, wait, len(job)) / count
        transfers = np.bincount(meetings.rank, transfer_ns(meetings), len(job)) / count
    last = _last_in_steps(job)
    rows = [
        RankRow(
            int(job.number[i]),
            job.hosts[i],
            float(step_ns[i]),
            float(own_ns[i]),
            float(delays[i]),
            int(last[i]),
            float(waits[i]),
            float(transfers[i]),
            _overlap(job, i),
        )
        for i in range(len(job))
    ]
    return tuple(sorted(rows, key=lambda row: (-row.delay_ns, row.rank)))


def _mean(values: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, Any]:
    is_known = np.isfinite(values)
    sums = np.where(is_known, values, 0).sum(axis=1)
    mean: np.ndarray[Any, Any] = sums / np.maximum(is_known.sum(axis=1), 1)
    return mean


def _last_in_steps(job: Job) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return in how many steady steps each rank was the most to blame."""
    blame = blame_table(job)
    steps = job.steps[job.steady]
    place = {int(number): i for i, number in enumerate(job.number)}
    is_blamed = (blame.last_rank >= 0) & np.isin(blame.step, steps)
    if not is_blamed.any():
        return np.zeros(len(job), np.int64)
    rank = np.array([place[int(last_rank)] for last_rank in blame.last_rank[is_blamed]])
    step = np.searchsorted(steps, blame.step[is_blamed])
    sums = np.bincount(step * len(job) + rank, blame.blame_ns[is_blamed], len(steps) * len(job))
    table = sums.reshape(len(steps), len(job))
    worst = table.argmax(axis=1)[table.max(axis=1) > 0]
    return np.bincount(worst, minlength=len(job))


def _overlap(job: Job, i: int) -> float | None:
    rows = [
        overlap
        for overlap in job.ranks[i].overlaps
        if overlap.group == ALL and overlap.module == ALL
    ]
    total = sum(overlap.communication_ns for overlap in rows)
    return sum(overlap.overlap_ns for overlap in rows) / total if total else None


def _verdict(job: Job, findings: tuple[Finding, ...], rows: tuple[RankRow, ...]) -> str:
    step = f"a {job.unit}" if job.unit != "run" else "the run"
    now = duration_text(job.typical_step_ns)
    worst = next((finding for finding in findings if finding.severity is not Severity.LOW), None)
    late = next((finding for finding in findings if finding.id in {"straggler", "slow-host"}), None)
    worst = late if late is not None and worst is not None and worst.id != "hang" else worst
    if worst is not None:
        if not worst.saves_ns or worst.id == "hang":
            return f"{worst.title}."
        then = duration_text(max(worst.of_ns - worst.saves_ns, 0))
        return f"{worst.title}. Without that {step} would take {then} instead of {now}."
    if len(job) == 1:
        return f"There is only one rank: {step} takes {now}. Record the others to compare them."
    if not len(job.meetings):
        return (
            f"{step.capitalize()} takes {now} on {len(job)} ranks. No collectives were recorded, "
            "so what the ranks wait for is not known."
        )
    spread = duration_text(rows[0].delay_ns)
    latest = f"the latest, rank {rows[0].rank}, arrives {spread} after the median rank"
    if int(job.steady.sum()) < 3 and rows[0].delay_ns:
        return (
            f"{step.capitalize()} takes {now} on {len(job)} ranks; {latest}. With so few "
            "steps, a slow rank cannot be told from chance."
        )
    return f"No rank stands out: {step} takes {now} on {len(job)} ranks; {latest}."
