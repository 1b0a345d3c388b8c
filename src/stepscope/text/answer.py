"""The answer as text: tables that fit the terminal; each names the total of its shares."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.analysis.answer import MIN_ROW_SHARE, Answer, Row, answer
from stepscope.analysis.findings.spots import line_words
from stepscope.analysis.host.step_operators import StepOperators
from stepscope.analysis.steps.unit import unit_words
from stepscope.text.layout import Column, printable, text_lines
from stepscope.trace.measures import MEASURES
from stepscope.trace.model import Trace
from stepscope.units import duration_text, percent_text

SORTS = {
    "self_cpu_time_total": "self_ns",
    "cpu_time_total": "total_ns",
    "self_device_time_total": "device_ns",
    "device_time_total": "device_ns",
    "count": "calls",
    "name": "name",
}
_NARROWEST_NAME = 20
_FIGURES = 52  # the width of the columns beside the name
_LONGEST_PLACE = 60


def where_text(result: Answer) -> str:
    """Return where a step's time goes: what, how long, which share, and the hottest line."""
    if not result.where:
        return ""
    heading = f"where {unit_words(result.unit)} goes ({duration_text(result.unit_ns)})"
    lines = _rows(heading, result.where, "mostly at")
    if result.cores is not None and result.cores.waiting_ns >= MIN_ROW_SHARE * result.unit_ns:
        waited = duration_text(result.cores.waiting_ns)
        lines.append(f"and {waited} waiting for a core, which is in no share")
    return "\n".join(lines)


def cores_text(result: Answer) -> str:
    """Say who used the machine's cores, if threads waited long for one."""
    return result.cores.words if result.cores is not None else ""


def lines_text(result: Answer) -> str:
    """Return the lines of the program that cost most, on the host and on devices."""
    lines = []
    if result.lines:
        lines += _rows("the lines that cost most", result.lines, "")
    if result.device is not None and result.device.lines:
        heading = "the lines whose kernels take most"
        lines += [*([""] if lines else []), *_rows(heading, result.device.lines, "", "device time")]
    return "\n".join(lines)


def answer_text(trace: Trace, findings: int = 3) -> str:
    """Return the answer as plain text: the verdict, where a step goes, what to change."""
    result = answer(trace)
    problems = [
        f"{i}. {finding.title}\n   {finding.text}\n   fix: {finding.fix}"
        for i, finding in enumerate(result.findings[:findings], 1)
    ]
    parts = (result.verdict, cores_text(result), where_text(result), lines_text(result), *problems)
    lines = "\n\n".join(part for part in parts if part).split("\n")
    return "\n".join(map(printable, lines))


def operators_text(
    rows: StepOperators, result: Answer, sort_by: str, row_limit: int, width: int
) -> str:
    """Return the operators of an average step."""
    if not len(rows):
        return ""
    if sort_by == "name":
        order = sorted(range(len(rows)), key=lambda i: rows.name[i])
    else:
        values = getattr(rows, SORTS.get(sort_by, "self_ns"))
        order = sorted(range(len(rows)), key=lambda i: -values[i])
    order = order if row_limit < 0 else order[:row_limit]
    per_unit = "" if result.unit == "run" else f" a {result.unit}"
    # In a run, a range around the program contains the start-up, which the answer leaves out.
    whole_ns = max(result.unit_ns, float(rows.self_ns.max()))
    columns = [
        Column(f"operators{per_unit}", [printable(rows.name[i]) for i in order], is_text=True),
        Column("self time", [duration_text(float(rows.self_ns[i])) for i in order]),
        Column(
            f"of {unit_words(result.unit)}",
            [percent_text(float(rows.self_ns[i]), whole_ns) for i in order],
        ),
        Column("with callees", [duration_text(float(rows.total_ns[i])) for i in order]),
        Column("calls", [_count(float(rows.calls[i])) for i in order]),
    ]
    if rows.device_ns.any():
        columns.insert(
            4, Column("device time", [duration_text(float(rows.device_ns[i])) for i in order])
        )
    for measure in MEASURES:
        if measure.name in rows.measures:
            values = rows.measures[measure.name]
            cells = [measure.unit.text(float(values[i])) for i in order]
            columns.append(Column(measure.title.lower(), cells))
    return "\n".join(text_lines(columns, max(width - _FIGURES, _NARROWEST_NAME)))


def _rows(heading: str, rows: Sequence[Row], place: str, time: str = "time") -> list[str]:
    columns = [
        Column(heading, [row.what for row in rows], is_text=True),
        Column(time, [duration_text(row.ns) for row in rows]),
        Column("share", [percent_text(row.share) for row in rows]),
    ]
    if place:
        columns.append(
            Column(place, [line_words(row.place) if row.place else "" for row in rows], True)
        )
    return text_lines(columns, _LONGEST_PLACE)


def _count(calls: float) -> str:
    return f"{calls:,.0f}" if calls >= 10 or calls == int(calls) else f"{calls:.1f}"
