"""What is started and ended in the loop, again and again: processes, pools, a loader's workers."""

from __future__ import annotations

from typing import NamedTuple

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.code.sampled_stacks import SampledStack, last_name
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import DETECTORS, Finding
from stepscope.analysis.findings.spots import finding_at, hot_spot, taken
from stepscope.analysis.steps.causes import Cause
from stepscope.trace.model import Bool
from stepscope.units import duration_text

MIN_SHARE = 0.05  # what takes less of a step is not worth the change

_ENDINGS = ("terminate", "_terminate_pool", "join", "__exit__", "__del__", "shutdown")
_POOL_STARTS = ("_repopulate_pool", "_repopulate_pool_static", "_setup_queues", "_launch_processes")
_OF_LOADERS = ("_shutdown_workers", "_get_iterator", "__del__", "_try_put_index")


class _Start(NamedTuple):
    """What is started, where that is seen, and what to do about it."""

    identity: str
    what: str
    files: tuple[str, ...]
    functions: tuple[str, ...]  # empty for all
    fix: str


_PROCESSES = _Start(
    "processes-started",
    "Starting and ending processes",
    (
        *("multiprocessing/popen_fork.py", "multiprocessing/popen_spawn_posix.py"),
        *("multiprocessing/popen_forkserver.py", "multiprocessing/forkserver.py"),
    ),
    (),
    "Start them once, before the loop, and keep them: one Pool or ProcessPoolExecutor for the "
    "whole program.",
)
_POOLS = _PROCESSES._replace(
    files=(
        "multiprocessing/pool.py",
        "concurrent/futures/process.py",
        "multiprocessing/process.py",
    ),
    functions=(*_POOL_STARTS, *_ENDINGS, "start"),
)
_PROGRAMS = _Start(
    "programs-started",
    "Running other programs",
    ("subprocess.py",),
    (),
    "Run them once and keep the result, less often, or in the background; a library call can often "
    "do the same without starting a process.",
)


@DETECTORS.register
def processes_started(facts: Facts) -> Finding | None:
    """Find processes, or pools of them, that are started and ended in most of the steps."""
    which = _moments(facts, _PROCESSES) | _moments(facts, _POOLS)
    return _finding(facts, _PROCESSES, which & ~_moments(facts, _workers()))


@DETECTORS.register
def workers_started(facts: Facts) -> Finding | None:
    """Find a loader that is created anew, with its workers, in most steps."""
    workers = _workers()
    which = _moments(facts, workers)
    if _is_rare(facts, which):
        return None
    # Every new loader makes the step wait for the first batch.
    return _finding(facts, workers, which | facts.ledger.spent_on(Cause.DATA_LOADING))


@DETECTORS.register
def programs_started(facts: Facts) -> Finding | None:
    """Find other programs that are run in most of the steps."""
    return _finding(facts, _PROGRAMS, _moments(facts, _PROGRAMS))


def _workers() -> _Start:
    return _Start(
        "workers-started",
        "Starting and ending a loader's workers",
        landmarks().loaders,
        _OF_LOADERS,
        "Make the DataLoader and its iterator once, before the loop, and draw many batches from "
        "it; persistent_workers=True keeps the workers from one epoch to the next.",
    )


def _moments(facts: Facts, start: _Start) -> Bool:
    ledger = facts.ledger
    starting = ledger.where_stack(lambda stack: _is_in(stack, start))
    return starting & ~ledger.spent_on(Cause.BACKWARD, Cause.OPTIMIZER)


def _is_in(stack: SampledStack, start: _Start) -> bool:
    return any(
        frame.file.endswith(start.files)
        and (not start.functions or last_name(frame) in start.functions)
        for frame in stack.beyond
    )


def _is_rare(facts: Facts, which: Bool) -> bool:
    ledger = facts.ledger
    if ledger.unit == "run" or ledger.each_ns(which) < MIN_SHARE * ledger.unit_ns:
        return True
    return not ledger.in_most_steps(which)  # workers may be started once an epoch


def _finding(facts: Facts, start: _Start, which: Bool) -> Finding | None:
    ledger = facts.ledger
    spot = None if _is_rare(facts, which) else hot_spot(ledger, which)
    if spot is None or spot.each_ns < MIN_SHARE * ledger.unit_ns:
        return None
    return finding_at(
        facts,
        spot,
        start.identity,
        title=f"{start.what} takes {taken(ledger, spot)}",
        text=f"{duration_text(spot.each_ns)} of every {ledger.unit} goes into it, waiting "
        f"included{spot.called_from}.",
        fix=start.fix,
    )
