"""Memory that grows with the steps, and the line that allocated what stays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.remedies import Remedy
from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.code.sampled_stacks import any_in, own_path, sampled_stacks
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import DETECTORS, MEDIUM_SHARE, Finding, Severity
from stepscope.analysis.findings.spots import Spot
from stepscope.analysis.findings.trends import MIN_STEPS, rank_correlation, thirds
from stepscope.analysis.steps.steps import StepsBy, step_table
from stepscope.trace.keys import BYTES
from stepscope.trace.model import Float64, Int64
from stepscope.trace.names import RESIDENT_MEMORY
from stepscope.units import size_text

Path = tuple[Place, ...]

MODULE, IMPORTLIB = "<module>", ("<frozen importlib",)

# From the first to the last third of the steps; libraries alone take hundreds of MiB.
MIN_BYTES, MIN_SHARE, MIN_RANK = 16 << 20, 0.03, 0.9
# The same where no sampled block explains the growth.
UNKNOWN_BYTES, UNKNOWN_SHARE, UNKNOWN_RANK = 32 << 20, 0.10, 0.95
KEEPERS = "a list or dict that only grows, a cache without a limit, a callback or an exception"
QUARTERS = 4  # every quarter of the loop must leave something behind: a buffer is made once
MIN_QUARTER = 0.1  # share of all growth that each quarter must have
NEARLY_ALL = 0.95  # share of all growth at which what stayed is counted
# A line that explains less of the growth is not behind it.
MIN_EXPLAINED = 0.25
LARGE_BYTES = 1 << 20  # a sample has nearly all blocks of this size, with their own sizes
MIN_ENLARGED = 3  # blocks, each larger than the one before, that are one that grows


@dataclass(frozen=True, slots=True)
class _Growth:
    """How the memory of the process grew, and which line allocated what stayed."""

    path: Path  # empty: not known
    grown: float  # bytes
    steps: int  # in which it grew so
    early: float
    late: float


@DETECTORS.register
def memory_growth(facts: Facts) -> Finding | None:
    """Find memory that is kept from every step, and the line that allocated it."""
    growth = _growth(facts)
    if growth is None:
        return None
    spot = Spot(growth.path, np.zeros(len(facts.ledger), np.bool_), 0.0)
    has_steps = facts.steps and not _has_requests(facts)
    by = f" by {size_text(growth.grown / growth.steps)} a step" if has_steps else ""
    where = spot.words if growth.path else "line unknown"
    share = min(1.0, growth.grown / growth.late)
    # It will not stop growing, so that it is never of no importance; a program without steps may
    # be one that builds something.
    severity = Severity.of_share(max(share, MEDIUM_SHARE)) if has_steps else Severity.LOW
    return Finding(
        "memory-growth",
        title=f"Memory grows{by}: {where}",
        text=f"The process held {size_text(growth.early)} early in the loop and "
        f"{size_text(growth.late)} late; {_what_stayed(facts, growth, spot)}",
        share=share,
        evidence={"page": "memory"},
        fix=f"Something keeps it: {facts.advise(Remedy.LESS_KEPT, KEEPERS)}.",
        severity=severity,
        places=spot.places,
    )


def _what_stayed(facts: Facts, growth: _Growth, spot: Spot) -> str:
    size = size_text(growth.grown)
    if growth.path:
        return f"{size} that this line allocated{spot.called_from} was never freed."
    if len(facts.trace.held):
        return (
            f"{size} was added outside of the allocators of Python, NumPy and PyTorch. `memray run "
            "--native` records those of native libraries."
        )
    return f"{size} was added. `stepscope run` records which line allocates it."


def _growth(facts: Facts) -> _Growth | None:
    has_steps = facts.steps and not _has_requests(facts)
    times = facts.breakdown.start_ns[facts.counted] if has_steps else _run_times(facts)
    measured = _resident(facts) if len(times) >= MIN_STEPS else None
    if measured is None:
        return None
    time_ns, size = measured
    resident = np.interp(times, time_ns, size)
    early, late = thirds(resident)
    rank, grown = rank_correlation(resident), float(resident.max() - resident[0])
    # A program frees its variables before it ends: what stayed is counted a little earlier.
    last = int((resident >= resident[0] + NEARLY_ALL * grown).argmax())
    path, stayed = _left_behind(facts, int(times[0]), int(times[last]))
    if stayed >= MIN_EXPLAINED * grown:
        is_enough = min(late - early, stayed) >= max(MIN_BYTES, MIN_SHARE * early)
        grows = is_enough and rank >= MIN_RANK
        return _Growth(path, stayed, last, early, late) if grows else None
    ends = [float(quarter[-1]) for quarter in np.array_split(resident, QUARTERS)]
    is_steady = bool((np.diff(ends, prepend=early)[1:] >= MIN_QUARTER * grown).all())
    is_enough = late - early >= max(UNKNOWN_BYTES, UNKNOWN_SHARE * early)
    if not is_enough or not is_steady or rank < UNKNOWN_RANK:
        return None
    return _Growth((), grown, len(times) - 1, early, late)


def _has_requests(facts: Facts) -> bool:
    return step_table(facts.trace).by is StepsBy.REQUEST


def _left_behind(facts: Facts, begin_ns: int, end_ns: int) -> tuple[Path, float]:
    """Return the path that allocated most of what stayed, and the size of all that stayed.

    That is what was allocated after ``begin_ns`` and is still in use at ``end_ns``. Only lines
    count that left something behind in every quarter, or that made one block larger and larger.
    """
    blocks = facts.trace.held
    path_of = {row: own_path(facts.trace, row) for row in np.unique(blocks.stack).tolist()}
    rows_of_line: dict[Place, list[int]] = {}
    for row in np.flatnonzero((blocks.time_ns >= begin_ns) & (blocks.time_ns < end_ns)).tolist():
        if path := path_of[int(blocks.stack[row])]:
            rows_of_line.setdefault(path[-1], []).append(row)
    is_kept = (blocks.is_held == 1) | (blocks.time_ns + blocks.duration_ns > end_ns)
    quarter = (blocks.time_ns - begin_ns) * QUARTERS // max(end_ns - begin_ns + 1, 1)
    sizes: dict[Place, dict[Path, float]] = {}
    for line, of_line in rows_of_line.items():
        rows = np.array(of_line)
        remaining = rows[is_kept[rows]]
        if len(np.unique(quarter[remaining])) == QUARTERS or (
            len(remaining) and _rises(blocks.size[rows])
        ):
            sizes[line] = {}
            for row in remaining.tolist():
                path = path_of[int(blocks.stack[row])]
                sizes[line][path] = sizes[line].get(path, 0.0) + float(blocks.size[row])
    heaviest = max(sizes.values(), key=lambda paths: sum(paths.values()), default={})
    total = sum(sum(paths.values()) for paths in sizes.values())
    return max(heaviest, key=lambda path: heaviest[path], default=()), total


def _rises(size: Int64) -> bool:
    """Tell whether blocks are one that is made larger and larger; small ones are not looked at."""
    large = size[size >= LARGE_BYTES]
    return (
        len(large) >= MIN_ENLARGED and large[-1] >= MIN_BYTES and bool((np.diff(large) > 0).all())
    )


def _run_times(facts: Facts) -> Int64:
    """Return moments spread over a run without steps, after the imports of its modules."""
    trace = facts.trace
    imports = [
        row
        for row, stack in sampled_stacks(trace).items()
        if stack.line and stack.line.function == MODULE and any_in(stack.beyond, IMPORTLIB)
    ]
    ends_ns = trace.samples.end_ns[np.isin(trace.samples.stack, imports)]
    begin_ns = int(ends_ns.max(initial=trace.info.start_ns))
    return np.linspace(begin_ns, trace.info.end_ns, 10 * MIN_STEPS).astype(np.int64)


def _resident(facts: Facts) -> tuple[Int64, Float64] | None:
    """Return the resident memory, and when it was measured; None if it was not."""
    trace = facts.trace
    names = trace.strings.ids_of([RESIDENT_MEMORY])
    rows = np.flatnonzero(trace.marks.name == names.get(RESIDENT_MEMORY, -1))
    if len(rows) < MIN_STEPS:
        return None
    sparse = trace.marks.args.dense(BYTES, len(trace.marks), 0)
    return trace.marks.time_ns[rows], sparse[rows].astype(np.float64)
