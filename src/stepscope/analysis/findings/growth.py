"""Memory that grows with the steps, and the line that keeps it, read from the program's text."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

import numpy as np

from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.code.sampled_stacks import own_path
from stepscope.analysis.code.source_files import Function, SourceFiles, statement_at
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import DETECTORS, MEDIUM_SHARE, Finding, Severity
from stepscope.analysis.findings.spots import Spot, finding_at
from stepscope.analysis.findings.trends import MIN_STEPS, rank_correlation, thirds
from stepscope.analysis.steps.phases import import_rows
from stepscope.analysis.steps.steps import StepsBy, step_table
from stepscope.trace.keys import BYTES
from stepscope.trace.model import Float64, Int64
from stepscope.trace.names import RESIDENT_MEMORY
from stepscope.units import size_text

_KEEPS = frozenset(
    {"append", "appendleft", "add", "extend", "insert", "put", "put_nowait", "setdefault", "update"}
)

_ASKS = frozenset({"item", "tolist", "numel", "size", "dim", "data_ptr", "keys"})

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
    is_known: bool  # the allocating operators were recorded


@DETECTORS.register
def memory_growth(facts: Facts) -> Finding | None:
    """Find memory that is kept from every step, and the line that keeps it."""
    if step_table(facts.trace).by is StepsBy.REQUEST:
        return None
    growth = _recorded_growth(facts) or _suspected_growth(facts)
    if growth is None:
        return None
    spot = Spot(growth.path, np.zeros(len(facts.ledger), np.bool_), 0.0)
    share = min(1.0, growth.grown / growth.late)
    by = f" by {size_text(growth.grown / facts.steps)} a step" if facts.steps else ""
    probably = "" if growth.is_known else "probably "
    what = "the steps allocated" if growth.is_known else "was added"
    called_from = f"{spot.called_from}," if spot.called_from else ""
    finding = finding_at(
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
        finding, text=finding.text.rpartition(" Would save")[0], share=share, severity=severity
    )


def _recorded_growth(facts: Facts) -> _Growth | None:
    """Return the growth according to recorded allocations of the steps that were not freed."""
    if facts.counted.sum() < MIN_STEPS:
        return None
    resident = _resident_at(facts, facts.breakdown.start_ns[facts.counted])
    path, grown = _left_behind(facts)
    if resident is None or not path:
        return None
    early, late = thirds(resident)
    if min(late - early, grown) < max(MIN_BYTES, MIN_SHARE * early):
        return None
    if rank_correlation(resident) < MIN_RANK:
        return None
    return _Growth(path, grown, early, late, is_known=True)


def _left_behind(facts: Facts) -> tuple[Path, float]:
    """Return the path that allocated the memory that steps left behind, and its size."""
    trace, held_memory = facts.trace, facts.trace.held
    span = facts.step_time
    rows = np.flatnonzero((held_memory.is_held == 1) & span.contain(held_memory.time_ns))
    if not len(rows):
        return (), 0.0
    whole_ns = int(span.end_ns[-1] - span.start_ns[0])
    quarter = (held_memory.time_ns[rows] - int(span.start_ns[0])) * QUARTERS // whole_ns
    sums: dict[Path, float] = {}
    quarters: dict[Path, set[int]] = {}
    for row, part in zip(rows.tolist(), quarter.tolist(), strict=True):
        own = own_path(trace, int(held_memory.stack[row]))
        sums[own] = sums.get(own, 0.0) + float(held_memory.size[row])
        quarters.setdefault(own, set()).add(part)
    sums = {own: size for own, size in sums.items() if own and len(quarters[own]) == QUARTERS}
    if not sums:
        return (), 0.0
    path = max(sums, key=lambda candidate: sums[candidate])
    return keeping_path(path, facts.ledger.files) or path, sum(sums.values())


def _suspected_growth(facts: Facts) -> _Growth | None:
    """Return the growth of memory that no framework recorded, and the line suspected of it."""
    times = facts.breakdown.start_ns[facts.counted] if facts.steps else _run_times(facts)
    resident = _resident_at(facts, times) if len(times) >= MIN_STEPS else None
    if resident is None:
        return None
    early, late = thirds(resident)
    parts = np.diff(
        [float(quarter[-1]) for quarter in np.array_split(resident, QUARTERS)], prepend=early
    )
    grows = late - early >= max(SUSPECTED_BYTES, SUSPECTED_SHARE * early)
    whole = float(resident[-1] - resident[0])
    if not grows or rank_correlation(resident) < SUSPECTED_RANK:
        return None
    if (parts[1:] < MIN_QUARTER * whole).any():
        return None
    path = _keeper(facts)
    return _Growth(path, whole, early, late, is_known=False) if path else None


def _run_times(facts: Facts) -> Int64:
    """Return moments spread over a run without steps, after its imports."""
    trace = facts.trace
    rows = import_rows(trace)
    begin = int(trace.slices.ends_of(rows).max()) if len(rows) else trace.info.start_ns
    return np.linspace(begin, trace.info.end_ns, 10 * MIN_STEPS).astype(np.int64)


def _keeper(facts: Facts) -> Path:
    """Return the path to a statement that keeps something, the one with the most time."""
    ledger, files = facts.ledger, facts.ledger.files
    rows, where = np.unique(ledger.stack, return_inverse=True)
    weights = np.bincount(where.reshape(-1), ledger.weight_ns, minlength=len(rows))
    sums: dict[Path, float] = {}
    for row, weight in zip(rows.tolist(), weights.tolist(), strict=True):
        sampled_stack = ledger.stacks.get(row)
        path = (
            keeping_path(sampled_stack.own, files) if sampled_stack and sampled_stack.own else None
        )
        if path and not adds_up(path[-1], files):
            sums[path] = sums.get(path, 0.0) + weight
    return max(sums, key=lambda candidate: sums[candidate], default=())


def _resident_at(facts: Facts, time_ns: Int64) -> Float64 | None:
    """Return the resident memory at the given moments; None if it was not recorded."""
    trace = facts.trace
    names = trace.strings.ids_of([RESIDENT_MEMORY])
    rows = np.flatnonzero(trace.marks.name == names.get(RESIDENT_MEMORY, -1))
    if len(rows) < MIN_STEPS:
        return None
    sparse = trace.marks.args.dense(BYTES, len(trace.marks), 0)
    return np.interp(time_ns, trace.marks.time_ns[rows], sparse[rows])


def keeping_path(path: tuple[Place, ...], files: SourceFiles) -> tuple[Place, ...] | None:
    """Return the own frames up to the statement that keeps the result of the innermost line.

    The result is followed through assignments and returns; None where it is lost from sight, or
    where there is no text.
    """
    for depth in range(len(path), 0, -1):
        place = path[depth - 1]
        function, statement = statement_at(files, place)
        if function is None or statement is None:
            return None
        if _keeps(statement):
            return path[:depth]
        if isinstance(statement, ast.Return):
            continue
        if keeper := _keeping_statement(function, statement):
            return (*path[: depth - 1], place._replace(line=keeper.lineno))
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or not _is_returned(
            function, statement
        ):
            return None
    return None


def adds_up(place: Place, files: SourceFiles) -> bool:
    """Tell whether the statement is ``total += x``: x may be a number, which keeps nothing."""
    return isinstance(statement_at(files, place)[1], ast.AugAssign)


def _keeping_statement(function: Function, statement: ast.stmt) -> ast.stmt | None:
    """Return the statement of a function that keeps a name that another statement assigns.

    One that adds to something goes before one that may replace what was there.
    """
    names = _assigned(statement)
    statements = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.stmt)
        and not hasattr(node, "body")
        and node is not statement
        and _keeps(node)
        and _uses(node, names)
    ]
    return min(statements, key=lambda node: isinstance(node, ast.Assign), default=None)


def _keeps(statement: ast.AST) -> bool:
    """Tell whether a statement stores something permanently."""
    if isinstance(statement, ast.AugAssign):
        return True
    if isinstance(statement, ast.Assign):
        return any(
            isinstance(target, ast.Attribute | ast.Subscript) for target in statement.targets
        )
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        return isinstance(called, ast.Attribute) and called.attr in _KEEPS
    return False


def _assigned(statement: ast.stmt) -> set[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return {
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    }


def _uses(statement: ast.AST, names: set[str]) -> bool:
    """Tell whether a statement keeps one of the names, and not just its size or a number."""
    nodes = list(ast.walk(statement))
    methods = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    only_asked = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Attribute) and (id(node) not in methods or node.attr in _ASKS)
    }
    return any(
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id in names
        and id(node) not in only_asked
        for node in nodes
    )


def _is_returned(function: Function, statement: ast.stmt) -> bool:
    names = _assigned(statement)
    return any(isinstance(node, ast.Return) and _uses(node, names) for node in ast.walk(function))
