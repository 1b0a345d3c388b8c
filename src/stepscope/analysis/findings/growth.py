"""Memory that grows with the steps, and the line that holds it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import DETECTORS, MEDIUM_SHARE, Finding, Severity
from stepscope.analysis.findings.spots import Spot, finding_at
from stepscope.analysis.findings.trends import MIN_STEPS, rank_correlation, thirds
from stepscope.analysis.host.keeping import adds_up, keeping_path
from stepscope.analysis.host.own_lines import Place
from stepscope.analysis.host.sampled_stacks import own_path
from stepscope.analysis.steps.phases import import_rows
from stepscope.analysis.steps.steps import StepsBy, step_table
from stepscope.trace.keys import BYTES
from stepscope.trace.model import Float64, Int64
from stepscope.trace.names import RESIDENT_MEMORY
from stepscope.units import size_text

Path = tuple[Place, ...]


# From the first to the last third of the steps; libraries alone take hundreds of MiB.
MIN_BYTES, MIN_SHARE, MIN_RANK = 16 << 20, 0.03, 0.9
# The same where it is not known who asked for the memory.
SUSPECTED_BYTES, SUSPECTED_SHARE, SUSPECTED_RANK = 32 << 20, 0.10, 0.95
QUARTERS = 4  # every quarter of the loop must leave something behind: a buffer is made once
MIN_QUARTER = 0.1  # share of all growth that each quarter must have


@dataclass(frozen=True, slots=True)
class _Growth:
    """How the memory of the process grew, and which line is behind it."""

    path: Path
    grown: float  # bytes
    early: float
    late: float
    is_known: bool  # who asked for it was recorded


@DETECTORS.register
def memory_growth(facts: Facts) -> Finding | None:
    """Find memory that is kept from every step, and the line that keeps it."""
    if step_table(facts.trace).by is StepsBy.REQUEST:
        return None
    growth = _known(facts) or _suspected(facts)
    if growth is None:
        return None
    spot = Spot(growth.path, np.zeros(len(facts.ledger), np.bool_), 0.0)
    share = min(1.0, growth.grown / growth.late)
    by = f" by {size_text(growth.grown / facts.steps)} a step" if facts.steps else ""
    probably = "" if growth.is_known else "probably "
    what = "the steps allocated" if growth.is_known else "was added"
    called_from = f"{spot.called_from}," if spot.called_from else ""
    found = finding_at(
        facts,
        spot,
        "memory-growth",
        title=f"Memory grows{by}: {probably}{spot.words}",
        text=f"The process held {size_text(growth.early)} early in the loop and "
        f"{size_text(growth.late)} late; {size_text(growth.grown)} that {what}{called_from} "
        "was never freed.",
        fix="Something is kept from every step: a list of tensors, a loss with its graph (use "
        ".detach() or .item()), a cache without a limit.",
        saves_ns=0.0,
        evidence={"page": "memory"},
    )
    # It will not stop growing, so that it is never of no importance; a program without steps may
    # be one that builds something.
    severity = Severity.of_share(max(share, MEDIUM_SHARE))
    if not facts.steps:
        severity = Severity.LOW
    return replace(
        found, text=found.text.rpartition(" Would save")[0], share=share, severity=severity
    )


def _known(facts: Facts) -> _Growth | None:
    """Return the growth by what was asked for in the steps and not given back."""
    if facts.counted.sum() < MIN_STEPS:
        return None
    resident = _resident_at(facts, facts.breakdown.start_ns[facts.counted])
    path, grown = _held(facts)
    if resident is None or not path:
        return None
    early, late = thirds(resident)
    if min(late - early, grown) < max(MIN_BYTES, MIN_SHARE * early):
        return None
    if rank_correlation(resident) < MIN_RANK:
        return None
    return _Growth(path, grown, early, late, is_known=True)


def _held(facts: Facts) -> tuple[Path, float]:
    """Return where the memory was asked for that the steps left behind, and how much it is."""
    trace, held = facts.trace, facts.trace.held
    span = facts.step_time
    rows = np.flatnonzero((held.is_held == 1) & span.contain(held.time_ns))
    if not len(rows):
        return (), 0.0
    whole_ns = int(span.end_ns[-1] - span.start_ns[0])
    quarter = (held.time_ns[rows] - int(span.start_ns[0])) * QUARTERS // whole_ns
    sums: dict[Path, float] = {}
    quarters: dict[Path, set[int]] = {}
    for row, part in zip(rows.tolist(), quarter.tolist(), strict=True):
        own = own_path(trace, int(held.stack[row]))
        sums[own] = sums.get(own, 0.0) + float(held.size[row])
        quarters.setdefault(own, set()).add(part)
    sums = {own: size for own, size in sums.items() if own and len(quarters[own]) == QUARTERS}
    if not sums:
        return (), 0.0
    path = max(sums, key=lambda each: sums[each])
    return keeping_path(path, facts.ledger.files) or path, sum(sums.values())


def _suspected(facts: Facts) -> _Growth | None:
    """Return the growth of memory that is not a framework's, by the text of the program."""
    times = facts.breakdown.start_ns[facts.counted] if facts.steps else _run_times(facts)
    resident = _resident_at(facts, times) if len(times) >= MIN_STEPS else None
    if resident is None:
        return None
    early, late = thirds(resident)
    parts = np.diff([float(each[-1]) for each in np.array_split(resident, QUARTERS)], prepend=early)
    grows = late - early >= max(SUSPECTED_BYTES, SUSPECTED_SHARE * early)
    whole = float(resident[-1] - resident[0])
    if not grows or rank_correlation(resident) < SUSPECTED_RANK:
        return None
    if (parts[1:] < MIN_QUARTER * whole).any():
        return None
    path = _keeper(facts)
    return _Growth(path, whole, early, late, is_known=False) if path else None


def _run_times(facts: Facts) -> Int64:
    """Return moments of a run without steps, after what it imports."""
    trace = facts.trace
    rows = import_rows(trace)
    begin = int(trace.slices.ends_of(rows).max()) if len(rows) else trace.info.start_ns
    return np.linspace(begin, trace.info.end_ns, 10 * MIN_STEPS).astype(np.int64)


def _keeper(facts: Facts) -> Path:
    """Return the statement that keeps something and takes longest with what it keeps."""
    ledger, files = facts.ledger, facts.ledger.files
    rows, where = np.unique(ledger.stack, return_inverse=True)
    weights = np.bincount(where.reshape(-1), ledger.weight_ns, minlength=len(rows))
    sums: dict[Path, float] = {}
    for row, weight in zip(rows.tolist(), weights.tolist(), strict=True):
        known = ledger.stacks.get(row)
        path = keeping_path(known.own, files) if known and known.own else None
        if path and not adds_up(path[-1], files):
            sums[path] = sums.get(path, 0.0) + weight
    return max(sums, key=lambda each: sums[each], default=())


def _resident_at(facts: Facts, time_ns: Int64) -> Float64 | None:
    """Return the resident memory at some moments; None where it was not recorded."""
    trace = facts.trace
    names = trace.strings.ids_of([RESIDENT_MEMORY])
    rows = np.flatnonzero(trace.marks.name == names.get(RESIDENT_MEMORY, -1))
    if len(rows) < MIN_STEPS:
        return None
    sparse = trace.marks.args.dense(BYTES, len(trace.marks), 0)
    return np.interp(time_ns, trace.marks.time_ns[rows], sparse[rows])
