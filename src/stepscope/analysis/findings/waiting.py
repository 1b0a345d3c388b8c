"""Waiting inside the loop: sleeps, locks, files, sockets, child processes, the GIL, a full disk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepscope.analysis.base.intervals import union
from stepscope.analysis.code.sampled_stacks import NO_SAMPLE, any_in
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import DETECTORS, Finding, Severity
from stepscope.analysis.findings.spots import (
    Spot,
    finding_at,
    hot_spot,
    hottest_path,
    place_words,
    share_words,
    source_line,
    spent_words,
    taken,
)
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.ledger import Ledger
from stepscope.analysis.steps.steps import steady_steps, step_table
from stepscope.trace.model import RUNNING_STATES, Int64, ThreadState
from stepscope.units import count_text

MIN_SHARE = 0.05  # what takes less of a step is not worth the change
MOST_AT_WORK = 0.5  # a wait for processes that compute for longer is what it takes
EVENT_HANDLES = "asyncio/events.py"  # the file that calls what a loop has to do
IN_A_TASK = (
    "Await it: asyncio.sleep(), a client for asyncio, or asyncio.to_thread() around what blocks."
)
MIN_WORKERS_SHARE = 0.3  # of a step; workers that compute for less are not what it is about


class _Wait(NamedTuple):
    """How one kind of waiting is reported."""

    causes: tuple[Cause, ...]
    identity: str
    what: str
    sentence: str
    fix: str


_FOR_PROCESSES = _Wait(
    (Cause.LOCK, Cause.QUEUE),
    "waiting-lock",
    "Waiting for other processes",
    "is spent waiting there for other processes",
    "Their arguments and results are pickled and copied: send less, in fewer and larger pieces, "
    "or let them read the data themselves.",
)
_FOR_CHILDREN = (Cause.LOCK, Cause.QUEUE, Cause.PROCESS, Cause.CHILDREN, Cause.FILE)
_POOLS = ("multiprocessing/", "concurrent/futures/process.py", "joblib/")


@DETECTORS.register
def sleeping(facts: Facts) -> Finding | None:
    return _waiting(
        facts,
        _Wait(
            (Cause.SLEEP,),
            "waiting-sleep",
            "Sleeping",
            "is spent sleeping there",
            "Remove the sleep; where it waits for something, wait for that itself: an event, a "
            "queue.",
        ),
    )


@DETECTORS.register
def locked(facts: Facts) -> Finding | None:
    """Find a loop that waits for a lock, another thread or a queue, or for other processes."""
    return _waiting(
        facts,
        _FOR_PROCESSES._replace(fix=_FOR_PROCESSES.fix + facts.advice_to_record_children)
        if _waits_for_processes(facts)
        else _Wait(
            (Cause.LOCK, Cause.QUEUE),
            "waiting-lock",
            "Waiting for another thread",
            "is spent waiting there for a lock, a queue or a thread",
            "Hold the lock for less time, let the other thread run ahead (a queue with room for "
            "several items), or do its work where it is needed.",
        ),
    )


def _waits_for_processes(facts: Facts) -> bool:
    """Tell whether most of these waits are for a pool of processes."""
    ledger = facts.ledger
    waits = ledger.spent_on(*_FOR_PROCESSES.causes)
    in_pools = ledger.where_stack(
        lambda stack: any(frame.file.startswith(_POOLS) for frame in stack.beyond)
    )
    return 2 * ledger.each_ns(waits & in_pools) > ledger.each_ns(waits)


@DETECTORS.register
def input_output(facts: Facts) -> Finding | None:
    """Find a loop that waits for files, sockets or child processes."""
    return _waiting(
        facts,
        _Wait(
            (Cause.FILE, Cause.SOCKET, Cause.PROCESS),
            "waiting-io",
            "Waiting for input and output",
            "is spent waiting there for a file, a socket or a child process",
            f"Do it in the background ({facts.background}), less often, or keep what was read.",
        ),
    )


@DETECTORS.register
def checkpoints(facts: Facts) -> Finding | None:
    """Find checkpoints that are saved in most of the steps."""
    return _every_step(
        facts,
        _Wait(
            (Cause.CHECKPOINT,),
            "checkpoint-every-step",
            "Saving checkpoints",
            "is spent saving the model's state there",
            "Save every few hundred steps or minutes, or in the background from a copy of the "
            "state.",
        ),
    )


@DETECTORS.register
def logs(facts: Facts) -> Finding | None:
    """Find logging and printing that takes much of the steps."""
    return _every_step(
        facts,
        _Wait(
            (Cause.LOGGING,),
            "logging",
            "Logging and printing",
            "is spent logging or printing there",
            "Log every few dozen steps, and less each time.",
        ),
    )


@DETECTORS.register
def gil(facts: Facts) -> Finding | None:
    """Find threads that fight for the GIL: only one of them runs Python at a time."""
    ledger, samples = facts.ledger, facts.trace.samples
    waits = ledger.spent_on(Cause.GIL)
    each_ns = ledger.each_ns(waits)
    spot = hot_spot(ledger, waits)
    if spot is None or each_ns < MIN_SHARE * ledger.unit_ns:
        return None
    holders = _holders(facts)
    path = hottest_path(facts, holders)
    spot = Spot(path or spot.path, waits, each_ns)
    saves_ns = _saved_ns(facts, spot, _children_ns(facts, spot))
    if saves_ns < MIN_SHARE * ledger.unit_ns:
        return None
    others = np.unique(samples.track[holders])
    return finding_at(
        facts,
        spot,
        "gil-contention",
        title=(
            f"Waiting for the GIL takes {share_words(each_ns / ledger.unit_ns, ledger.unit)}: "
            f"other threads run Python in {spot.words}"
        ),
        text=(
            f"{count_text(len(others), 'other thread')} ran Python code while this one wanted to; "
            "only one thread at a time can."
        ),
        fix=(
            "Do that work in another process, or in code that releases the GIL, as most of NumPy's "
            "and of the frameworks' does."
        ),
        saves_ns=saves_ns,
    )


def _holders(facts: Facts) -> Int64:
    """Return the samples of other threads that run Python in the steps."""
    samples, ledger = facts.trace.samples, facts.ledger
    mine = np.unique(samples.track[ledger.row[ledger.row >= 0]])
    # Where the ledger is about several threads, they are each other's problem.
    aside = ~np.isin(samples.track, mine) if len(mine) == 1 else samples.track >= 0
    runs = np.isin(samples.state, RUNNING_STATES) & (samples.stack != 0)
    inside = np.ones(len(samples), np.bool_)
    if len(step_table(facts.trace)) and steady_steps(facts.trace).any():
        inside = facts.step_time.contain(samples.time_ns)
    return np.flatnonzero(aside & runs & inside)


def _waiting(facts: Facts, wait: _Wait) -> Finding | None:
    ledger = facts.ledger
    spot = hot_spot(ledger, ledger.spent_on(*wait.causes))
    if spot is None:
        return None
    at_work_ns = _children_ns(facts, spot)
    saves_ns = _saved_ns(facts, spot, at_work_ns)
    if saves_ns < MIN_SHARE * ledger.unit_ns or at_work_ns > MOST_AT_WORK * spot.each_ns:
        return None  # what workers do has a finding of its own
    spent = spent_words(ledger, spot.which)
    blocks = _blocks_event_loop(ledger, spot)
    return finding_at(
        facts,
        spot,
        wait.identity,
        title=f"{wait.what} {'blocks the event loop for' if blocks else 'takes'} "
        f"{taken(ledger, spot)}",
        text=f"{spent} {wait.sentence}{spot.called_from}."
        + (" No other task of the loop runs meanwhile." if blocks else ""),
        fix=IN_A_TASK if blocks else wait.fix,
        saves_ns=saves_ns,
    )


def _blocks_event_loop(ledger: Ledger, spot: Spot) -> bool:
    """Tell whether an event loop calls the function that waits, and so waits as well."""
    in_loop = ledger.where_stack(lambda stack: any_in(stack.frames, (EVENT_HANDLES,)))
    return 2 * ledger.each_ns(spot.which & in_loop) > spot.each_ns


def _saved_ns(facts: Facts, spot: Spot, at_work_ns: float) -> float:
    """Return the time saved if threads no longer wait, as far as there are cores for them.

    Waiting for child processes saves nothing while those are at work.
    """
    ledger, samples = facts.ledger, facts.trace.samples
    waits_ns = spot.each_ns - at_work_ns
    cores = facts.trace.info.parallelism.get("cores", 0.0)
    if not cores or ledger.threads <= cores:
        return waits_ns
    sampled = ledger.row != NO_SAMPLE
    runs = np.zeros(len(ledger), np.bool_)
    runs[sampled] = np.isin(samples.state[ledger.row[sampled]], RUNNING_STATES)
    least_ns = ledger.each_ns(runs) * ledger.threads / cores
    return min(waits_ns, max(ledger.unit_ns - least_ns, 0.0))


def _children_ns(facts: Facts, spot: Spot) -> float:
    """Return for how much of a spot's time child processes compute, or wait for a core."""
    ledger, samples = facts.ledger, facts.trace.samples
    sampled = np.flatnonzero(spot.which & (ledger.row != NO_SAMPLE))
    rows = ledger.row[sampled]
    works = children_at_work(facts)
    if not len(works) or not len(rows):
        return 0.0
    busy = union(samples.time_ns[works], samples.end_ns[works])
    busy_ns = busy.covered(samples.time_ns[rows], samples.end_ns[rows])
    share = busy_ns / np.maximum(samples.duration_ns[rows], 1)
    return float((ledger.weight_ns[sampled] * share).sum()) / max(ledger.count, 1)


def children_at_work(facts: Facts) -> Int64:
    """Return the samples in which child processes run the program's lines, or could with a core.

    Receiving and unpickling what the program sends is no work of theirs.
    """
    samples, tracks = facts.trace.samples, facts.trace.tracks
    mine = {tracks[track].pid for track in np.unique(samples.track[facts.ledger.row]).tolist()}
    of_child = np.array([bool(mine) and track.pid not in mine for track in tracks], np.bool_)
    works = np.isin(samples.state, (*RUNNING_STATES, ThreadState.READY))
    with_lines = [row for row, stack in facts.ledger.stacks.items() if stack.own]
    return np.flatnonzero(works & of_child[samples.track] & np.isin(samples.stack, with_lines))


@DETECTORS.register
def workers(facts: Facts) -> Finding | None:
    """Say what child processes compute while the program waits for them: no gain is promised."""
    ledger = facts.ledger
    spot = hot_spot(ledger, ledger.spent_on(*_FOR_CHILDREN))
    share = _children_ns(facts, spot) / ledger.unit_ns if spot else 0.0
    path = hottest_path(facts, children_at_work(facts)) if share >= MIN_WORKERS_SHARE else ()
    if spot is None or not path:
        return None
    return Finding(
        id="workers-at-work",
        title=f"Worker processes compute for {share_words(share, ledger.unit)}: "
        f"{place_words(path[-1])}",
        text=f"The program waits for them in {spot.words}{spot.called_from}. A faster worker makes "
        "it faster, not a shorter wait.",
        share=share,
        evidence=source_line(path[-1]),
        fix="Look at what the workers do; more of them help as long as there are cores.",
        severity=Severity.LOW,
        of_ns=ledger.whole_ns,
        unit=ledger.unit,
        places=path[::-1],
    )


def _every_step(facts: Facts, wait: _Wait) -> Finding | None:
    ledger = facts.ledger
    which = ledger.spent_on(*wait.causes)
    if ledger.unit != "run" and not ledger.in_most_steps(which):
        return None
    return _waiting(facts, wait)
