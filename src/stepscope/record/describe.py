"""A trace's description of this process, by the process itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.record.inside.facts import raw_facts
from stepscope.trace.process_facts import facts_of
from stepscope.trace.schema import PRODUCER, TraceInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.trace.schema import Losses


def describe_process(
    *,
    start_ns: int,
    end_ns: int,
    losses: Losses,
    sources: Mapping[str, str],
    overhead_ns: float,
    devices: Sequence[Mapping[str, Any]] = (),
    code_folders: Sequence[str] = (),
    parallelism: Mapping[str, float] | None = None,
    job: Mapping[str, Any] | None = None,
) -> TraceInfo:
    """Describe this process for a trace that ends now; ``job`` is what frameworks say of it."""
    facts = facts_of(raw_facts(), job)
    return TraceInfo(
        **{**facts, "parallelism": {**facts["parallelism"], **(parallelism or {})}},
        producer=PRODUCER,
        start_ns=start_ns,
        end_ns=end_ns,
        sources=sources,
        losses=losses,
        overhead_ns=overhead_ns,
        devices=devices,
        code_folders=code_folders,
    )
