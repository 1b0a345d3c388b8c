"""The overview: what was profiled, how long steps took and where their time went, the findings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from stepscope.analysis.answer import answer
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.findings import Finding
from stepscope.analysis.steps.breakdown import step_breakdown
from stepscope.analysis.steps.causes import WAITS, Cause
from stepscope.analysis.steps.cores import ready_in_steps
from stepscope.analysis.steps.phases import without_compilation
from stepscope.analysis.steps.steps import steady_steps
from stepscope.report.base.overview import metadata_of, overview_of, source_of
from stepscope.report.base.payload import Payload
from stepscope.report.base.steady import opening
from stepscope.report.sections.events import origin_of
from stepscope.trace.model import Bool, Int64, Trace

_MOMENTS = ("from", "to", "at")  # keys of a finding's evidence that are times on the trace's clock
# The page's colours of causes; all waiting has one colour.
_CAUSE_IDS = {cause.words: "waiting" if cause in WAITS else cause.name.lower() for cause in Cause}
_FEWEST_TO_COMPARE = 4
_SLOW = 1.25  # a slow step takes this many times the median, and ...
_SPREADS = 4.0  # ... exceeds it by this many median deviations


def add_overview(trace: Trace, payload: Payload) -> None:
    info, origin_ns = trace.info, origin_of(trace)
    values: dict[str, Any] = asdict(overview_of(trace))
    for peak in values["peaks"]:
        peak["time_ns"] -= origin_ns
    payload.add_value("overview", values)
    payload.add_value("overview.source", source_of(trace))
    payload.add_value("overview.metadata", metadata_of(trace))
    payload.add_value("overview.losses", asdict(info.losses) if info.losses.events else None)
    payload.add_value("overview.anomalies", dict(info.anomalies))
    began_ns = info.start_ns + info.wall_offset_ns
    payload.add_value("overview.began_ms", began_ns // 1_000_000 if info.wall_offset_ns else None)
    _add_answer(trace, payload, origin_ns)
    _add_steps(trace, payload)


def _add_answer(trace: Trace, payload: Payload, origin_ns: int) -> None:
    """Add the verdict, where a step goes, the lines that cost most, start-up and the findings."""
    result = answer(trace)
    values = result.to_json()
    for row in values["where"]:
        row["id"] = _CAUSE_IDS.get(row["what"], "other")
    payload.add_value("answer", values | {"findings": None})
    payload.add_value("findings", [_finding(finding, origin_ns) for finding in result.findings])


def _finding(finding: Finding, origin_ns: int) -> dict[str, Any]:
    """Return what the page shows of a problem, with its evidence as a link."""
    state = {
        key: str(value - origin_ns if key in _MOMENTS else value)
        for key, value in finding.evidence.items()
        if key != "page"
    }
    page = finding.evidence.get("page", "")
    return finding.to_json() | {"link": {"page": page, "state": state}, "evidence": None}


def slow_steps(duration_ns: Int64, is_whole: Bool) -> Bool:
    """Return which steps took a quarter longer than the median, and more than the usual spread."""
    slow = np.zeros(len(duration_ns), np.bool_)
    if is_whole.sum() >= _FEWEST_TO_COMPARE:
        median = float(np.median(duration_ns[is_whole]))
        spread = float(np.median(np.abs(duration_ns[is_whole] - median)))
        slow = is_whole & (duration_ns > max(_SLOW * median, median + _SPREADS * spread))
    return slow


def _add_steps(trace: Trace, payload: Payload) -> None:
    rows = step_breakdown(trace)
    worth_ns = without_compilation(trace, rows.start_ns, rows.duration_ns)
    payload.add_column("steps.number", rows.step)
    payload.add_column("steps.start", rows.start_ns - origin_of(trace))
    payload.add_column("steps.duration", rows.duration_ns)
    payload.add_value(
        "steps.parts", [{"id": part.name.lower(), "name": part.words} for part in Part]
    )
    payload.add_column("steps.without_compilation", worth_ns)
    payload.add_column("steps.is_whole", rows.is_whole)
    payload.add_column("steps.ready", ready_in_steps(trace).astype(np.int64))
    payload.add_column("steps.is_slow", slow_steps(worth_ns, rows.is_whole))
    for part in Part:
        payload.add_column(f"steps.{part.name.lower()}", rows.parts_ns[:, part])
    payload.add_column("steps.is_steady", steady_steps(trace))
    first = opening(trace)
    if first is not None:
        shown = {"from": first[0] - origin_of(trace), "to": first[1] - origin_of(trace)}
        payload.add_value("timeline.opening", shown)
