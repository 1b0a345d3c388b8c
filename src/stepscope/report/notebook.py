"""The overview for a notebook: a few static tables that need no script and no style sheet."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from stepscope.analysis.answer import Answer, answer
from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.steps.unit import unit_words
from stepscope.report.base.overview import Overview, TopRow, overview_of, source_of
from stepscope.trace.model import Trace
from stepscope.units import duration_text, percent_text, size_text

_LONGEST_NAME = 80
_FINDINGS = 5
_LEFT = "text-align:left"


def overview_html(trace: Trace) -> str:
    """Return the facts of a trace, its steps and its top operators and kernels, as HTML."""
    overview = overview_of(trace)
    with shared_analyses():
        result = answer(trace)
    tables = [_table("", _facts(trace, overview, result))]
    if result.findings:
        tables.append(_findings(result))
    if overview.operators:
        tables.append(
            _top(f"top operators of {unit_words(result.unit)}", overview.operators, result.unit_ns)
        )
    if overview.kernels:
        tables.append(_top("top kernels", overview.kernels, overview.busy_ns))
    return f"<div>{''.join(tables)}</div>"


def report_link_html(report: Path | None) -> str:
    """Return a link to a profiler's report, or how to write one."""
    if report is None:
        return f"<div>{_escaped('export_html(path) writes the whole report.')}</div>"
    if not report.exists():
        return ""
    # A notebook is served from its folder, so files below have relative addresses.
    below = report.is_relative_to(Path.cwd())
    address = quote(str(report.relative_to(Path.cwd()))) if below else report.as_uri()
    name = _escaped(str(report))
    return f'<div>report: <a href="{_escaped(address)}" target="_blank">{name}</a></div>'


def table_html(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]], note: str = "") -> str:
    tail = f"<div>{_escaped(note)}</div>" if note else ""
    return f"<div>{_table('', rows, headings)}{tail}</div>"


def nothing_html(why: str) -> str:
    return f"<div>{_escaped(why)}</div>"


def _facts(trace: Trace, overview: Overview, result: Answer) -> Iterator[tuple[str, str]]:
    yield "verdict", result.verdict
    places = f"{overview.threads:,} threads" + (
        f", {overview.streams:,} streams" * bool(overview.streams)
    )
    yield "trace", f"{overview.events:,} events in {duration_text(overview.window_ns)} ({places})"
    if trace.info.losses.events:
        yield "LOST", f"{trace.info.losses.events:,} events: the sums do not include them"
    yield from source_of(trace).items()
    yield from _steps(result)
    for device in overview.devices:
        share = percent_text(device.busy_ns, device.window_ns)
        yield f"device {device.name}", f"busy {duration_text(device.busy_ns)} ({share})"
    for peak in overview.peaks:
        yield f"peak memory, {peak.device}", size_text(peak.bytes)
    if overview.overhead_ns:
        yield "profiling overhead", f"about {duration_text(overview.overhead_ns)}"


def _findings(result: Answer) -> str:
    rows = [
        (
            finding.title,
            f"{finding.share:.0%}",
            finding.fix,
            f"{place.file}:{place.line}" if place else "",
        )
        for finding in result.findings[:_FINDINGS]
        for place in [finding.places[0] if finding.places else None]
    ]
    return _table("findings", rows, ("", "share", "what to do", "where"))


def _steps(result: Answer) -> Iterator[tuple[str, str]]:
    if result.steps is not None:
        median = duration_text(result.steps.median_ns)
        yield f"{result.steps.unit}s", f"{result.steps.count:,}, median {median}"
    shares = ", ".join(f"{row.what} {row.share:.0%}" for row in result.where)
    if shares:
        yield f"where {unit_words(result.unit)} goes", shares


def _top(title: str, rows: Iterable[TopRow], whole_ns: float) -> str:
    cells = [
        (
            row.name,
            duration_text(row.self_ns),
            percent_text(row.self_ns, whole_ns),
            f"{row.count:,.0f}" if row.count >= 10 else f"{row.count:.3g}",
        )
        for row in rows
    ]
    return _table(title, cells, ("", "self time", "share", "calls"))


def _table(title: str, rows: Iterable[tuple[str, ...]], headings: tuple[str, ...] = ()) -> str:
    head = "".join(f'<th style="{_LEFT}">{_escaped(text)}</th>' for text in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    caption = f'<caption style="{_LEFT}">{_escaped(title)}</caption>' if title else ""
    return f"<table>{caption}{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def _cell(text: str) -> str:
    short = text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"
    indent = "&nbsp;" * (len(short) - len(short.lstrip(" ")))  # a browser drops spaces
    return (
        f'<td style="{_LEFT}" title="{_escaped(text)}">{indent}{_escaped(short.lstrip(" "))}</td>'
    )


def _escaped(text: str) -> str:
    # Lone surrogates cannot be sent to a browser.
    return html.escape(text.encode("utf-8", "replace").decode())
