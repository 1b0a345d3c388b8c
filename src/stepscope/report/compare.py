"""A comparison as HTML: in a notebook, and as a file with pages of its own."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.compare.flame import diff_flame
from stepscope.analysis.compare.model import Diff, DiffTable
from stepscope.analysis.compare.side import Side
from stepscope.report.base.payload import Payload
from stepscope.report.build import write_page
from stepscope.report.notebook import nothing_html, table_html
from stepscope.report.pages import Page
from stepscope.report.sections.events import add_events
from stepscope.report.sections.timeline import add_timeline
from stepscope.text.diff import HEADINGS, facts_lines, other_lines, row_note, shown_lines
from stepscope.trace.model import Trace
from stepscope.trace.table import Remap

_ROWS = 10
_MOST_ROWS = 500  # rows of a table of the page; the others are summed
_MOST_SLICES = 200_000  # slices of one step: the first ones of a longer step

PAGES = (
    Page("stepscope/diff/overview.js", lambda _trace, _payload: None),
    Page("stepscope/diff/flame.js", lambda _trace, _payload: None),
    Page("stepscope/diff/timelines.js", lambda _trace, _payload: None),
)


def diff_html(diff: Diff) -> str:
    lines = shown_lines(diff.tables[0], _ROWS, "all")
    rows = [(line.what, *line.figures(diff), line.note) for line in lines]
    notes = [*facts_lines(diff), *other_lines(diff)]
    heading = f"what changed in a {diff.unit}"
    table = table_html((heading, *HEADINGS, ""), rows)
    return nothing_html(diff.verdict) + table + "".join(nothing_html(line) for line in notes)


def export_diff_html(diff: Diff, path: str | os.PathLike[str]) -> None:
    """Write a comparison as one HTML file that needs no network."""
    payload = Payload()
    payload.add_value("diff", _page_values(diff))
    nodes = diff_flame(diff)
    payload.add_value("diff.flame.names", [node.name for node in nodes])
    for name in ("parent", "before_ns", "after_ns"):
        column = np.array([getattr(node, name) for node in nodes], np.int64)
        payload.add_column(f"diff.flame.{name}", column)
    for word, side in (("before", diff.before), ("after", diff.after)):
        times = side.step_times
        payload.add_column(f"diff.{word}.ns", np.concatenate(times))
        run = np.repeat(np.arange(len(times)), [len(run_times) for run_times in times])
        payload.add_column(f"diff.{word}.run", run)
        with shared_analyses():
            _add_step(side, _Prefixed(payload, f"{word}/"))
    write_page(path, "Stepscope comparison", payload, PAGES)


def _page_values(diff: Diff) -> dict[str, Any]:
    return {
        "verdict": diff.verdict,
        "is_real": diff.step.is_real,
        "change": diff.step.change,
        "unit": diff.unit,
        "before_ns": diff.before_ns,
        "after_ns": diff.after_ns,
        "facts": list(facts_lines(diff)),
        "others": list(other_lines(diff)),
        "labels": [[run.label for run in side.runs] for side in (diff.before, diff.after)],
        "tables": [_table(table) for table in diff.tables],
    }


def _table(table: DiffTable) -> dict[str, Any]:
    rows = [
        [row.what, row.before_ns, row.after_ns, row_note(row)] for row in table.rows[:_MOST_ROWS]
    ]
    rest = table.rows[_MOST_ROWS:]
    if rest:
        sums = sum(row.before_ns for row in rest), sum(row.after_ns for row in rest)
        rows.append([f"{len(rest):,} other rows", *sums, ""])
    return {"by": table.by, "title": table.title, "rows": rows}


class _Prefixed(Payload):
    """A payload that puts the side before each name, since the page has two traces."""

    def __init__(self, payload: Payload, prefix: str) -> None:
        super().__init__()
        self._under, self._prefix = payload, prefix

    def add_value(self, name: str, value: Any) -> None:
        self._under.add_value(f"{self._prefix}{name}", value)

    def add_column(self, name: str, values: NDArray[Any], *, ascending: bool = False) -> None:
        self._under.add_column(f"{self._prefix}{name}", values, ascending=ascending)


def _add_step(side: Side, payload: Payload) -> None:
    """Add the events of the side's most usual step, which begins at 0."""
    times = np.concatenate(side.step_times)
    if not len(times):
        return
    nearest = int(np.argmin(np.abs(times - np.median(times))))
    for run in side.runs:
        if nearest < len(run.windows):
            steps = run.windows
            start_ns, end_ns = int(steps.start_ns[nearest]), int(steps.end_ns[nearest])
            cut = _cut(run.trace, start_ns, end_ns)
            payload.add_value("label", run.label)
            payload.add_value("duration", end_ns - start_ns)
            add_events(cut, payload)
            add_timeline(cut, payload)
            return
        nearest -= len(run.windows)


def _cut(trace: Trace, start_ns: int, end_ns: int) -> Trace:
    """Return only the slices that begin within these times."""
    slices = trace.slices
    inside = (slices.start_ns >= start_ns) & (slices.start_ns < end_ns)
    inside[np.flatnonzero(inside)[_MOST_SLICES:]] = False
    place = np.append(np.where(inside, np.cumsum(inside) - 1, -1), -1)[:-1]
    taken = slices.take(inside).remap(Remap(slice=place))
    # Slices whose callers began earlier become outermost.
    top = taken.depth.copy()
    inner = np.flatnonzero(taken.parent >= 0)
    for row in inner.tolist():
        top[row] = top[taken.parent[row]]
    taken = replace(taken, depth=taken.depth - top)
    info = replace(trace.info, start_ns=start_ns, end_ns=end_ns)
    return Trace(taken, trace.tracks, trace.strings, trace.stacks, info=info)
