"""How Paddle's tables are laid out: widths, rules, titles and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stepscope.frameworks.paddle.views.tables import EventRow, Span
from stepscope.text.layout import Layout

Cells = tuple[str, ...]
Lines = list[str | Cells]  # lines without columns, or the cells of a row

NS_PER_UNIT = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
CALLS_WIDTH = 6
NUMBERS_WIDTH = 40
_CPU_HEADER = "CPU Total / Avg / Max / Min / Ratio(%)"
GPU_HEADER = "GPU Total / Avg / Max / Min / Ratio(%)"
_SELF_HEADER = "CPU Self / GPU Self"
_NO_CPU = "- / - / - / - / -"


@dataclass(frozen=True, slots=True)
class Style:
    """The unit of times, and how much is shown."""

    time_unit: str
    row_limit: int | None
    self_time: bool

    def time(self, ns: float) -> str:
        return f"{ns / NS_PER_UNIT[self.time_unit]:.2f}"

    def numbers(self, span: Span | None, calls: int, ratio: float) -> str:
        if span is None:
            return _NO_CPU
        if not calls:
            return f"{self.time(span.total_ns)} / - / - / - / {percent(ratio)}"
        times = (span.total_ns, span.total_ns / calls, span.max_ns, span.min_ns)
        return " / ".join([*map(self.time, times), percent(ratio)])

    def own(self, row: EventRow) -> str:
        cpu = self.time(row.cpu.self_ns) if row.cpu and row.calls else "-"
        return f"{cpu} / {self.time(row.gpu.self_ns) if row.calls else '-'}"


def head(layout: Layout, title: str, style: Style | None, headers: Sequence[str]) -> Iterator[str]:
    yield layout.titled(title)
    if style is not None:
        yield f"Time unit: {style.time_unit}"
    yield from (layout.rule, layout.line(headers), layout.rule)


def note(layout: Layout, text: str) -> Iterator[str]:
    yield from (layout.rule, "Note:", text, "-" * layout.length, "", "")


def percent(ratio: float) -> str:
    return f"{ratio * 100:.2f}"


def event_headers(style: Style) -> Cells:
    return ("Calls", _CPU_HEADER, GPU_HEADER, *([_SELF_HEADER] if style.self_time else []))


def event_cells(row: EventRow, style: Style, name: str) -> Cells:
    return (
        name,
        str(row.calls) if row.calls else "-",
        style.numbers(row.cpu, row.calls, row.cpu_ratio),
        style.numbers(row.gpu, row.calls, row.gpu_ratio),
        *([style.own(row)] if style.self_time else []),
    )


def event_layout(name_width: int, lines: Sequence[str | Cells], *fixed: int) -> Layout:
    """Fit the columns of numbers to their widest cell; the other columns keep their widths."""
    cells = [line for line in lines if not isinstance(line, str)]
    own = len(cells[0]) - 4 - len(fixed)
    least = (name_width, CALLS_WIDTH, NUMBERS_WIDTH, NUMBERS_WIDTH)
    return fitted((*least, *(len(_SELF_HEADER),) * own, *fixed), cells, len(fixed))


def fitted(least: tuple[int, ...], cells: Iterable[Cells], fixed: int = 0) -> Layout:
    """Widen all columns but the name and the last ``fixed`` ones to their widest cell."""
    widths = list(least)
    for line in cells:
        for column in range(1, len(widths) - fixed):
            widths[column] = max(widths[column], len(line[column]))
    return Layout(tuple(widths))


def body(layout: Layout, lines: Iterable[str | Cells]) -> Iterator[str]:
    """Yield rows as lines, and titles between rules."""
    for line in lines:
        if not isinstance(line, str):
            yield layout.line(line)
        elif line.startswith("Thread: "):
            yield layout.titled(line)
        else:
            yield line


def more(rows: int, style: Style) -> Iterator[str]:
    """Yield a line with the number of rows above the limit, if any."""
    yield from left_out(0 if style.row_limit is None else rows - style.row_limit)


def left_out(rows: int) -> Iterator[str]:
    """Yield a line with the number of hidden rows, if any."""
    if rows > 0:
        yield f"... {rows:,} more"
