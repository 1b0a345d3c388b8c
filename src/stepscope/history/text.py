"""A history as text."""

from __future__ import annotations

from datetime import UTC, datetime

from stepscope.history.changes import History
from stepscope.history.runs import Run
from stepscope.text.layout import Column, printable, text_lines
from stepscope.units import EARLIEST_UNIX_NS, count_text

_WIDEST = 40
_SHOWN = 30


def verdict(history: History) -> str:
    commits = len({run.commit for run in history.runs if run.commit})
    what = f"{count_text(len(history.runs), 'run')}"
    what += f" of {count_text(commits, 'commit')}" if commits else ""
    name = f"{history.program}: " if history.program else ""
    if not history.changes:
        return f"{name}{what}, and no change stands out."
    return f"{name}{what}, {count_text(len(history.changes), 'change')}."


def history_text(history: History) -> str:
    """Return the changes, then the last runs, a row each."""
    lines = [printable(verdict(history)), ""]
    for change in history.changes:
        sign = "worse " if change.is_worse else "better"
        lines.append(printable(f"  {sign}  {change.words}"))
    if history.changes:
        lines.append("")
    shown = history.runs[-_SHOWN:]
    changed = {change.at for change in history.changes}
    first = len(history.runs) - len(shown)
    columns = [
        Column("", [">" if first + i in changed else "" for i in range(len(shown))], is_text=True),
        Column("commit", [printable(run.label) for run in shown], is_text=True),
        Column("branch", [printable(run.branch) for run in shown], is_text=True),
        Column("recorded (UTC)", [when(run) for run in shown], is_text=True),
        Column("steps", [f"{run.steps:,}" for run in shown]),
    ]
    for metric in history.metrics:
        cells = [
            metric.unit.text(run.values[metric.name]) if metric.name in run.values else "-"
            for run in shown
        ]
        columns.append(Column(metric.words, cells))
    lines += text_lines(columns, _WIDEST)
    if first:
        lines.append(f"({count_text(first, 'earlier run')} not shown)")
    lines.append(f"\nRuns are {history.order}.")
    hosts = {run.host for run in history.runs if run.host}
    if len(hosts) > 1:
        machines = f"They come from {len(hosts)} machines: times may differ by machine."
        lines.append(printable(machines))
    return "\n".join(lines)


def when(run: Run) -> str:
    """Return a run's time; empty if its clock is unknown."""
    if run.began_ns < EARLIEST_UNIX_NS:
        return ""
    return datetime.fromtimestamp(run.began_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")
