"""The answer as text: tables that fit the terminal, each with one denominator that it names."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.analysis.answer import Answer, Row, answer
from stepscope.analysis.findings.spots import line_words
from stepscope.analysis.host.step_operators import StepOperators
from stepscope.analysis.steps.unit import unit_words
from stepscope.text.layout import Column, printable, text_lines
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


def where_text(found: Answer) -> str:
    """Return where a step's time goes: what, how long, which share, and the hottest line."""
    if not found.where:
        return ""
    heading = f"where {unit_words(found.unit)} goes ({duration_text(found.unit_ns)})"
    return "\n".join(_rows(heading, found.where, "mostly at"))


def lost_text(found: Answer) -> str:
    """Return the time that other programs on the machine added, which no figure contains."""
    if not found.lost_ns:
        return ""
    return (
        f"Other programs use this machine's cores, which adds {duration_text(found.lost_ns)} to "
        f"{unit_words(found.unit)}: that is left out here."
    )


def lines_text(found: Answer) -> str:
    """Return the lines of the program that cost most, on the host and on devices."""
    lines = []
    if found.lines:
        lines += _rows("the lines that cost most", found.lines, "")
    if found.device is not None and found.device.lines:
        heading = "the lines whose kernels take most"
        lines += [*([""] if lines else []), *_rows(heading, found.device.lines, "", "device time")]
    return "\n".join(lines)


def told_text(trace: Trace, findings: int = 3) -> str:
    """Return the answer as plain text: the verdict, where a step goes, what to change."""
    found = answer(trace)
    problems = [
        f"{i}. {each.title}\n   {each.text}\n   fix: {each.fix}"
        for i, each in enumerate(found.findings[:findings], 1)
    ]
    parts = (found.verdict, lost_text(found), where_text(found), lines_text(found), *problems)
    lines = "\n\n".join(part for part in parts if part).split("\n")
    return "\n".join(map(printable, lines))


def operators_text(
    rows: StepOperators, found: Answer, sort_by: str, row_limit: int, width: int
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
    each = "" if found.unit == "run" else f" a {found.unit}"
    columns = [
        Column(f"operators{each}", [printable(rows.name[i]) for i in order], is_text=True),
        Column("self time", [duration_text(float(rows.self_ns[i])) for i in order]),
        Column(
            f"of {unit_words(found.unit)}",
            [percent_text(float(rows.self_ns[i]), found.unit_ns) for i in order],
        ),
        Column("with callees", [duration_text(float(rows.total_ns[i])) for i in order]),
        Column("calls", [_count(float(rows.calls[i])) for i in order]),
    ]
    if rows.device_ns.any():
        columns.insert(
            4, Column("device time", [duration_text(float(rows.device_ns[i])) for i in order])
        )
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
