"""The problems of a job: late ranks with the reason, slow communication, hangs."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.findings.model import Finding, Severity
from stepscope.analysis.steps.unit import WHOLE_RUN, unit_words
from stepscope.job.arrivals import group_words, of_several
from stepscope.job.hangs import hang_table
from stepscope.job.late import Straggler, stragglers
from stepscope.job.meetings import Meetings
from stepscope.job.model import Job
from stepscope.job.why import Reason, reasons
from stepscope.units import count_text, duration_text, percent_text, size_text

LEAST_COMMUNICATION = 0.15
"""The least share of a step for exposed transfers to be a problem."""

MOST_STRAGGLERS = 4

OFTEN = 1 / 3
"""A rank that is late in this share of the steps is named even without an explanation."""

_ORDER = {"hang": 0, "slow-host": 1, "straggler": 2}

_FIXES = {
    "data-loading": "give this rank's data loader more workers or faster storage, or smaller "
    "shards: all ranks wait for its batch",
    "garbage-collection": "call gc.freeze() after start-up and collect at the same step on all "
    "ranks (gc.disable(), then gc.collect() every n steps)",
    "extra-operators": "move this work off the rank, or spread it over all ranks: "
    "all others wait while it runs",
    "extra-kernels": "move this work off the rank, or spread it over all ranks",
    "contention": "find out what else runs on this rank's cores (top, CPU pinning, whether "
    "OMP_NUM_THREADS times ranks exceeds the number of cores)",
    "slow-operators": "compare its inputs (a larger batch, longer sequences: --shapes shows them) "
    "and its machine: cores shared with other work, threads, clocks, temperature",
    "slow-kernels": "compare its device: clocks and temperature (nvidia-smi -q -d PERFORMANCE), "
    "ECC errors, other processes on it",
    "memory": "keep its allocations as large as the other ranks' and the same size from step to "
    "step: even batches and sequence lengths, buffers that are allocated once, and on CUDA "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    "sleeping": "remove the sleep, or let it run on another thread",
    "python-code": "do this ahead of the step (in the workers of the data loader, or once and "
    "kept), in vectorised or native code, or spread over all ranks",
    "native-code": "do this ahead of the step, or spread it over all ranks",
    "locks": "find who holds what it waits for; wait on another thread, or before the step",
    "files": "move reading and writing to a thread, or to storage as fast as the other ranks'",
    "checkpoints": "save asynchronously, or let all ranks write their own part",
    "logging": "log less often, or from a thread",
}
_FIX = "open this rank's own report beside another rank's, at the steps named above"


def find_job_problems(job: Job) -> list[Finding]:
    problems = [*_hangs(job), *_stragglers(job), *_communication(job)]
    return sorted(
        problems, key=lambda problem: (_ORDER.get(problem.id, len(_ORDER)), -problem.share)
    )


def explained(job: Job) -> list[tuple[Straggler, list[Reason]]]:
    """Return the stragglers with the reasons.

    A rank that is late now and then counts only if its own work explains it: a busy machine makes
    any rank late.
    """
    late = []
    for straggler in stragglers(job):
        why = reasons(job, straggler.rank, straggler.steps, straggler.delay_ns)
        often = len(straggler.steps) >= OFTEN * straggler.of_steps
        if straggler.is_persistent or straggler.every > 1 or often or (why and why[0].is_own):
            late.append((straggler, why))
    return late


def _stragglers(job: Job) -> list[Finding]:
    late = explained(job)
    findings = [_straggler(job, *pair) for pair in late[:MOST_STRAGGLERS]]
    host = _late_host(job, [straggler for straggler, _ in late])
    return [host, *findings] if host is not None else findings


def _straggler(job: Job, late: Straggler, why: list[Reason]) -> Finding:
    step_ns = job.typical_step_ns
    what = why[0].what if why else "the traces do not show why"
    at = f" at {why[0].place}" if why and why[0].place else ""
    others = [other_reason.text for other_reason in why[1:3] if other_reason.what != what]
    reason = f" Why: {why[0].text}." if why else " Nothing in its trace explains the difference."
    also = f" Also: {'; '.join(others)}." if others else ""
    where = f" (host {late.host})" if late.host and len(set(job.hosts)) > 1 else ""
    share = late.saves_ns / step_ns if step_ns else 0.0
    often = "" if job.unit == WHOLE_RUN else f" {late.words}"
    takes = f"{unit_words(job.unit)} takes {duration_text(step_ns)}"
    text = (
        f"It arrives {duration_text(late.delay_ns)} after the median rank{often and ','}{often}; "
        f"{takes}.{reason}{also}"
    )
    return Finding(
        id="straggler",
        title=f"Rank {late.rank}{where} is late{often}: {what}{at}",
        text=text,
        share=max(share, late.share * len(late.steps) / max(late.of_steps, 1)),
        evidence={
            "page": "ranks",
            "rank": late.rank,
            "steps": list(late.steps),
            "persistent": late.is_persistent,
            "delay_ns": round(late.delay_ns),
            "reason": why[0].id if why else "",
        },
        fix=_FIXES.get(why[0].id, _FIX) if why else _FIX,
        severity=Severity.of_share(late.share * len(late.steps) / max(late.of_steps, 1)),
        saves_ns=late.saves_ns,
        of_ns=step_ns,
        unit=job.unit,
    )


def _late_host(job: Job, late: list[Straggler]) -> Finding | None:
    """Return the host whose ranks are all late, if there are other hosts."""
    hosts = {straggler.host for straggler in late if straggler.host and straggler.is_persistent}
    ranks = {straggler.rank for straggler in late}
    for host in sorted(hosts):
        mine = [int(n) for n, of in zip(job.number, job.hosts, strict=True) if of == host]
        if len(mine) > 1 and len(mine) < len(job) and ranks.issuperset(mine):
            delay = float(
                np.mean([straggler.delay_ns for straggler in late if straggler.host == host])
            )
            share = delay / max(job.typical_step_ns, 1.0)
            return Finding(
                id="slow-host",
                title=f"All {len(mine)} ranks of host {host} are late",
                text=f"Its ranks arrive {duration_text(delay)} after the median rank; those of the "
                "other hosts do not.",
                share=share,
                evidence={"page": "ranks", "host": host},
                fix="compare this host: clocks, cooling, other jobs, its network and storage",
                severity=Severity.of_share(share),
                saves_ns=delay,
                of_ns=job.typical_step_ns,
                unit=job.unit,
            )
    return None


def _communication(job: Job) -> list[Finding]:
    """Return the collective with most of a step's exposed time when all ranks are there."""
    meetings = of_several(job.meetings)
    step_ns = job.typical_step_ns
    steady = job.steps[job.steady]
    meetings = meetings.take(np.isin(meetings.step, steady)) if len(meetings) else meetings
    if not len(meetings) or not step_ns:
        return []
    spent = transfer_ns(meetings)
    sums = np.bincount(meetings.kind[meetings.meeting], spent, len(meetings.kinds))
    by_kind = sums / (len(job) * max(len(steady), 1))
    share = float(by_kind.sum()) / step_ns
    if share < LEAST_COMMUNICATION:
        return []
    worst = meetings.kinds[int(by_kind.argmax())]
    most = float(by_kind.max())
    size = f" of {size_text(worst.bytes)}" if worst.bytes > 0 else ""
    group = group_words(worst.group, worst.members)
    calls = int((meetings.kind == by_kind.argmax()).sum()) / max(len(steady), 1)
    return [
        Finding(
            id="communication",
            title=f"Communication takes {percent_text(share)} of a {job.unit}, most of it "
            f"{worst.name}{size}",
            text=f"Once all ranks have arrived, {duration_text(float(by_kind.sum()))} of a "
            f"{job.unit} is spent in transfers while nothing is computed; {worst.name}{size} of "
            f"group {group} accounts for {duration_text(most)} of it in {calls:.1f} calls.",
            share=share,
            evidence={"page": "ranks", "collective": worst.name, "bytes": worst.bytes},
            fix="send less or less often (gradient accumulation, 16-bit gradients, larger "
            "buckets), or overlap it with compute",
            severity=Severity.of_share(share),
            saves_ns=float(by_kind.sum()),
            of_ns=step_ns,
            unit=job.unit,
        )
    ]


def transfer_ns(meetings: Meetings) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return each row's wait after the last arrival, which no rank is to blame for."""
    last = np.maximum.reduceat(meetings.arrived_ns, meetings.first[:-1])[meetings.meeting]
    after = np.maximum(meetings.done_ns - last, 0)
    return np.minimum(meetings.waited_ns.astype(np.float64), after)


def _hangs(job: Job) -> list[Finding]:
    table = hang_table(job)
    if not len(table):
        return []
    at = int(np.argmax(table.waited_ns))
    more = len(table) - 1
    also = f" {count_text(more, 'other collective')} did not end, either." if more else ""
    return [
        Finding(
            id="hang",
            title=f"Rank {table.never_arrived[at]} never arrived at {table.collective[at]} "
            f"{int(table.number[at])} of group {table.group[at]}",
            text=f"Ranks {table.waiting[at]} waited there for "
            f"{duration_text(float(table.waited_ns[at]))}, until the recording stopped; "
            f"{table.last_reached[at]}.{also}",
            share=1.0,
            evidence={"page": "ranks", "never_arrived": table.never_arrived[at]},
            fix="open the report of the rank that never arrived: its last stack is where it is "
            "stuck, or it took another branch of the program",
            severity=Severity.HIGH,
            unit=job.unit,
        )
    ]
