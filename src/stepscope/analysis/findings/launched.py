"""What findings about devices share: the lines that launched some work, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.calls.launches import captured_nodes
from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.code.sampled_stacks import NO_SAMPLE, own_path, samples_at
from stepscope.analysis.device.lines import launching_paths
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import Finding, Severity
from stepscope.analysis.findings.spots import saving
from stepscope.analysis.steps.causes import phase_of_stack
from stepscope.trace.model import NO_SLICE, NO_STACK, Bool, Int64, SliceKind, Trace


def device_finding(
    facts: Facts,
    identity: str,
    *,
    title: str,
    text: str,
    fix: str,
    saves_ns: float,
    evidence: Mapping[str, Any],
    places: tuple[Place, ...] = (),
) -> Finding:
    """Return a finding about devices, with what a step would save without it."""
    ledger = facts.ledger
    of_ns = float(facts.device_parts_ns.sum()) or ledger.unit_ns
    share = min(saves_ns / of_ns, 1.0) if of_ns else 0.0
    return Finding(
        id=identity,
        title=title,
        text=f"{text}{saving(saves_ns, ledger.unit, of_ns)}",
        share=share,
        evidence=evidence,
        fix=fix,
        severity=Severity.of_share(share),
        saves_ns=saves_ns,
        of_ns=of_ns,
        unit=ledger.unit,
        places=places,
    )


def launching_lines(facts: Facts, which: Bool) -> tuple[Place, ...]:
    """Return the program's line that launches most of the given work, and its callers.

    By the stacks of the nodes of a CUDA graph; by the operators' own stacks, else by the samples in
    the operators that launched it; without operators, by the samples around the launches.
    """
    work, slices = facts.work, facts.trace.slices
    captured = captured_nodes(facts.trace)[work.rows[which]]
    if (captured != NO_SLICE).any():
        nodes = captured[captured != NO_SLICE]
        spent_ns = work.duration_ns[which][captured != NO_SLICE]
        return _heaviest_path(facts, slices.stack[nodes], spent_ns)
    origin = work.operator[work.rows[which]]
    tied = (origin != NO_SLICE) & (slices.kind[origin] == SliceKind.OPERATOR)
    operators = np.unique(origin[tied])
    if not len(operators):
        return _sampled_launches(facts, which)
    paths = launching_paths(facts.trace, origin[tied], work.duration_ns[which][tied])
    return _heaviest(paths) or lines_of_operators(facts, operators)


def _heaviest(paths: Mapping[tuple[Place, ...], float]) -> tuple[Place, ...]:
    """Return the line with most of the time, with the callers that have most of that."""
    lines: dict[Place, float] = {}
    for path, spent in paths.items():
        lines[path[-1]] = lines.get(path[-1], 0.0) + spent
    if not lines:
        return ()
    line = max(lines, key=lambda place: lines[place])
    mine = (path for path in paths if path[-1] == line)
    return max(mine, key=lambda path: paths[path])[::-1]


def lines_of_operators(facts: Facts, operators: Int64) -> tuple[Place, ...]:
    """Return the program's line that calls most of the given operators, and its callers."""
    slices, samples = facts.trace.slices, facts.trace.samples
    inside = np.append(facts.within(operators), False)  # the last for no slice
    inside[operators] = True
    stacks = samples.stack[inside[samples.slice]] if len(samples) else samples.stack
    weights = samples.duration_ns[inside[samples.slice]] if len(samples) else samples.duration_ns
    if not len(stacks):
        stacks = slices.stack[operators]
        weights = slices.duration_ns[operators]
    return _heaviest_path(facts, stacks, weights)


def _sampled_launches(facts: Facts, which: Bool) -> tuple[Place, ...]:
    """Return the line around launches outside of operators.

    A sample stands for a while: one inside of an operator, or of a framework's phases, is from
    before or after.
    """
    work, stacks = facts.work, facts.ledger.stacks
    sample = samples_at(facts.trace, work.call[which])
    stack = facts.trace.samples.stack[sample] if len(facts.trace.samples) else sample
    seen = np.array(
        [at != NO_SAMPLE and phase_of_stack(stacks[row]) is None
         for at, row in zip(sample.tolist(), stack.tolist(), strict=True)],
        np.bool_,
    )  # fmt: skip
    between = seen & ~_in_operators(facts.trace, sample)
    seen = between if between.any() else seen
    return _heaviest_path(facts, stack[seen], work.duration_ns[which][seen])


def _in_operators(trace: Trace, sample: Int64) -> Bool:
    """Return a mask of the samples that were taken in an operator."""
    if not len(trace.samples):
        return np.zeros(len(sample), np.bool_)
    inside = trace.samples.slice[sample].astype(np.int64)
    is_known = (sample != NO_SAMPLE) & (inside != NO_SLICE)
    in_operator: Bool = is_known & (trace.slices.kind[inside] == SliceKind.OPERATOR)
    return in_operator


def _heaviest_path(
    facts: Facts, stacks: NDArray[Any], weights: NDArray[np.int64]
) -> tuple[Place, ...]:
    rows, where = np.unique(stacks, return_inverse=True)
    sums = np.bincount(where.reshape(-1), weights) if len(rows) else np.zeros(0)
    for at in np.argsort(-sums, kind="stable").tolist():
        if rows[at] != NO_STACK and (path := own_path(facts.trace, int(rows[at]))):
            return path[::-1]
    return ()
