"""Communication between devices during which nothing is computed."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.remedies import Remedy
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.device.communication import collective_table
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.launched import (
    device_finding,
    launching_lines,
    lines_of_operators,
)
from stepscope.analysis.findings.model import DETECTORS, Finding, Severity
from stepscope.analysis.findings.spots import saving, share_words
from stepscope.analysis.work.work import WorkKind
from stepscope.units import duration_text

MIN_SHARE = 0.10  # some communication cannot be hidden: the last bucket, the first layer

_NAMED = 2


@DETECTORS.register
def exposed_communication(facts: Facts) -> Finding | None:
    """Find communication during which no device computes."""
    if not len(facts.work):
        return _on_host(facts)
    talks = facts.work.kind == WorkKind.COMMUNICATION
    exposed_ns = float(facts.device_parts_ns[Part.COMMUNICATION])
    unit_ns = float(facts.device_parts_ns.sum())
    if not talks.any() or exposed_ns < MIN_SHARE * max(unit_ns, 1):
        return None
    whole_ns = max(facts.each_ns(talks), exposed_ns)
    hidden = 1 - exposed_ns / whole_ns
    share = exposed_ns / unit_ns
    unit = facts.ledger.unit
    longest = facts.work.rows[talks][facts.work.duration_ns[talks].argmax()]
    return device_finding(
        facts,
        "exposed-communication",
        title=f"Exposed communication takes {share_words(share, unit)}: {_collectives(facts)}",
        text=(
            f"Devices communicate for {duration_text(whole_ns)} and compute nothing for "
            f"{duration_text(exposed_ns)} of that: {hidden:.0%} of the communication is hidden "
            "behind computation."
        ),
        fix=_fix(facts),
        saves_ns=exposed_ns,
        evidence=facts.on_timeline(int(longest)),
        places=launching_lines(facts, talks),
    )


def _on_host(facts: Facts) -> Finding | None:
    """Find collectives of processors (gloo, MPI) that the program waits for."""
    rows = np.flatnonzero(facts.parts == Part.COMMUNICATION)
    rows = rows[facts.trace.slices.duration_ns[rows] > 0]
    if not facts.steps or not len(rows):
        return None
    rows = facts.in_steps(rows)
    each_ns = facts.breakdown.parts_ns[facts.counted].sum(axis=0) / facts.steps
    exposed_ns, unit_ns = float(each_ns[Part.COMMUNICATION]), float(each_ns.sum())
    if not len(rows) or exposed_ns < MIN_SHARE * unit_ns:
        return None
    whole_ns = max(facts.covered_ns(rows) / facts.steps, exposed_ns)
    share = exposed_ns / unit_ns
    longest = facts.longest(rows)
    return Finding(
        id="exposed-communication",
        title=f"Exposed communication takes {share_words(share, facts.ledger.unit)}: "
        f"{facts.trace.name_of(longest)}",
        text=f"Collectives run for {duration_text(whole_ns)}; for {duration_text(exposed_ns)} of "
        f"that, the step does nothing else."
        f"{saving(exposed_ns, facts.ledger.unit, unit_ns)}",
        share=share,
        evidence=facts.on_timeline(longest),
        fix=_fix(facts),
        severity=Severity.of_share(share),
        saves_ns=exposed_ns,
        of_ns=unit_ns,
        unit=facts.ledger.unit,
        places=lines_of_operators(facts, rows),
    )


def _fix(facts: Facts) -> str:
    return (
        "Start communication earlier and compute in the meantime: "
        f"{facts.advise(Remedy.BUCKETS, '')}prefetching of shards, "
        "async_op=True; or communicate less: gradient accumulation with no_sync(), a smaller type, "
        "larger batches. If ranks are waiting for a slow one, that rank is the cause."
    )


def _collectives(facts: Facts) -> str:
    """Return the collectives that are exposed longest."""
    table = collective_table(facts.trace, facts.work)
    order = np.argsort(-table.exposed_ns, kind="stable")
    names = list(dict.fromkeys(table.collective[int(i)] for i in order if table.exposed_ns[i] > 0))
    return ", ".join(names[:_NAMED])
