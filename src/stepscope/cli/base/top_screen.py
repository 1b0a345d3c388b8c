"""The screen of `stepscope top`: one program, as it is now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from stepscope.analysis.device.busy import device_busy
from stepscope.text.layout import printable
from stepscope.units import duration_text, percent_text, size_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stepscope.analysis.answer import Answer, Row
    from stepscope.trace.model import Trace

_BARS = " ▁▂▃▄▅▆▇█"
_WIDEST = 60  # steps that are drawn
_ROWS = 8


@dataclass(frozen=True, slots=True)
class Looked:
    """The state of a program: its status, and a trace of its last two seconds."""

    status: dict[str, Any]
    answer: Answer
    trace: Trace


def screen(looked: Looked) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    status, answer = looked.status, looked.answer
    title = f"{status['program']}  (process {status['pid']}"
    title += f", rank {status['rank']} of {status['world_size']})" if status["rank"] else ")"
    parts: list[Any] = [Text(printable(title), style="bold"), Text(printable(answer.verdict)), ""]
    parts += [Text(line) for line in _facts(looked)]
    parts += ["", _table(f"where a {answer.unit} goes", answer.where)]
    if answer.lines:
        parts += ["", _table("hottest lines", answer.lines)]
    return Group(*parts)


def _facts(looked: Looked) -> list[str]:
    status, trace = looked.status, looked.trace
    lines = [f"{'memory':10}{size_text(status['memory_bytes'])} resident"]
    durations = [step[2] for step in status["steps"]]
    if not durations and looked.answer.steps is not None:
        steps = looked.answer.steps
        lines.append(f"{'steps':10}median {duration_text(steps.median_ns)}, {steps.how}")
    if durations:
        middle = median(durations)
        last = duration_text(durations[-1])
        slowest = duration_text(max(durations))
        lines.append(
            f"{'steps':10}last {last}, median {duration_text(middle)}, slowest {slowest} "
            f"of the last {len(durations)}"
        )
        lines.append(f"{'':10}{bars(durations[-_WIDEST:])}")
    busy = device_busy(trace)
    window_ns = max(trace.info.end_ns - trace.info.start_ns, 1)
    for device, ns in zip(busy.device, busy.busy_ns.tolist(), strict=True):
        lines.append(f"{'device':10}{device} busy {percent_text(ns, window_ns)} of the time")
    rate = len(trace) * 1e9 / window_ns
    lines.append(f"{'events':10}{rate:,.0f} a second")
    return lines


def bars(values: Sequence[float]) -> str:
    """Return a bar for each value; the largest value has the highest bar."""
    most = max(values)
    steps = len(_BARS) - 1
    return "".join(_BARS[max(round(value / most * steps), 1)] for value in values)


def _table(heading: str, rows: Sequence[Row]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(heading, overflow="ellipsis", no_wrap=True, ratio=1)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    for row in rows[:_ROWS]:
        share = f"{row.share:.1%}"
        table.add_row(Text(printable(row.what)), duration_text(row.ns), share)
    return table
