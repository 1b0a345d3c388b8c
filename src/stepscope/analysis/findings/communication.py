"""Communication between devices that nothing is computed beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.device.communication import collective_table
from stepscope.analysis.device.work import WorkKind
from stepscope.analysis.findings.launched import device_finding, launching_lines
from stepscope.analysis.findings.model import DETECTORS
from stepscope.analysis.findings.spots import share_words
from stepscope.analysis.steps.parts import Part
from stepscope.units import duration_text

if TYPE_CHECKING:
    from stepscope.analysis.findings.facts import Facts
    from stepscope.analysis.findings.model import Finding

MIN_SHARE = 0.10
"""Of a step; some communication cannot be hidden: the last bucket, the first layer."""

_NAMED = 2


@DETECTORS.register
def exposed_communication(facts: Facts) -> Finding | None:
    """Find communication during which no device computes."""
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
            f"Devices communicate for {duration_text(whole_ns)}, and for "
            f"{duration_text(exposed_ns)} of that compute nothing meanwhile: {hidden:.0%} of the "
            "communication is hidden behind computation."
        ),
        fix=(
            "Start it earlier and compute meanwhile: smaller gradient buckets (bucket_cap_mb), "
            "prefetching of shards, async_op=True; or communicate less: gradient accumulation "
            "with no_sync(), a smaller type, larger batches. If ranks wait for a slow one, the "
            "time is its."
        ),
        saves_ns=exposed_ns,
        evidence=facts.on_timeline(int(longest)),
        places=launching_lines(facts, talks),
    )


def _collectives(facts: Facts) -> str:
    """Return the collectives that are exposed longest."""
    table = collective_table(facts.trace, facts.work)
    order = np.argsort(-table.exposed_ns, kind="stable")
    names = list(dict.fromkeys(table.collective[int(i)] for i in order if table.exposed_ns[i] > 0))
    return ", ".join(names[:_NAMED])
