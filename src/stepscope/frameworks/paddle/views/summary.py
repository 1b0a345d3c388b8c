"""Writes the summary of a trace as Paddle prints it, character for character.

Only the notes under the tables are worded differently. Our own options (self times, a limit of
rows) change nothing unless they are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from stepscope.frameworks.paddle.memory_events import place_of_device
from stepscope.frameworks.paddle.views.layout import (
    CALLS_WIDTH,
    GPU_HEADER,
    NS_PER_UNIT,
    NUMBERS_WIDTH,
    Cells,
    Lines,
    Style,
    body,
    event_cells,
    event_headers,
    event_layout,
    fitted,
    head,
    left_out,
    more,
    note,
    percent,
)
from stepscope.frameworks.paddle.views.summary_tables import (
    SortedKeys,
    SummaryView,
    summary_tables,
)
from stepscope.frameworks.paddle.views.tables import (
    EventRow,
    EventTable,
    MemoryRow,
    SummaryTables,
)
from stepscope.text.layout import Layout, cut, printable
from stepscope.trace.model import Losses, Trace

_OPERATOR_WIDTH = 52
_KERNEL_WIDTH = 90
# A kernel's name without its parameters, if it is a template: name<arguments>(parameters).
_TEMPLATE = re.compile(r"(?P<kept>.+?<.*>)\(.*\)")

_DEVICE_NOTE = """\
CPU(Process): CPU time of this process on all cores / elapsed time; 100% is one core.
CPU(System): busy time of all cores, for all processes / (busy time + idle time).
GPU: time in which a kernel of this process ran / time of the steps."""
_OVERVIEW_NOTE = """\
Every event is counted under its type: what ran on the host as CPU Time, on a device as GPU Time.
A type may contain another, as Operator contains OperatorInner: ratios may exceed 100% in total.
Within a type, events that overlap on several threads or streams count only once.
"""
_MODEL_NOTE = """\
GPU time is that of all kernels that a phase launched.
Kernels that ran at the same time on different streams are added up here, unlike in the overview.
"""
_DISTRIBUTION_NOTE = """\
Communication: communication events and operators, and the kernels that they launched.
Computation: kernels, except those whose names say that they communicate.
Overlap: the time in which both ran.
"""
_NO_STEP_NOTE = "No step was recorded: the ratios are of the whole recording."


def summary_text(
    trace: Trace,
    sorted_by: SortedKeys = SortedKeys.CPUTotal,
    *,
    op_detail: bool = True,
    thread_sep: bool = False,
    time_unit: str = "ms",
    views: SummaryView | Iterable[SummaryView] | None = None,
    row_limit: int | None = None,
    self_time: bool = False,
) -> str:
    """Return the summary of a trace as ``paddle.profiler`` prints it.

    Beyond Paddle's options, ``row_limit`` limits the rows of a thread or place in each view (rows
    inside an operator do not count) and ``self_time`` adds a column with the self time of events.
    Errors list the valid choices.
    """
    style = _style(time_unit, row_limit, self_time)
    wanted = _wanted_views(views)
    _check_member("sorted_by", sorted_by, SortedKeys)
    tables = summary_tables(trace, sorted_by=sorted_by, op_detail=op_detail, thread_sep=thread_sep)
    lines: list[str] = []
    for view, render in _RENDERERS.items():
        if view in wanted:
            lines += render(tables, style)
    if not len(trace):
        lines.append("No event was recorded.")
    lines += _losses(trace.losses)
    return "".join(f"{line}\n" for line in lines)


def _style(time_unit: str, row_limit: int | None, self_time: bool) -> Style:
    if time_unit not in NS_PER_UNIT:
        units = ", ".join(NS_PER_UNIT)
        raise ValueError(f"time_unit {time_unit!r} is unknown; use one of {units}")
    if row_limit is not None and row_limit < 0:
        raise ValueError(f"row_limit {row_limit} is negative; use None for all rows")
    return Style(time_unit, row_limit, self_time)


def _wanted_views(views: SummaryView | Iterable[SummaryView] | None) -> set[SummaryView]:
    if views is None:
        return set(SummaryView)
    wanted = [views] if isinstance(views, SummaryView) else list(views)
    for view in wanted:
        _check_member("views", view, SummaryView)
    return set(wanted)


def _check_member(option: str, value: object, choices: type[Enum]) -> None:
    if not isinstance(value, choices):
        members = ", ".join(choices.__members__)
        raise TypeError(f"{option}: {value!r} is not a {choices.__name__}; use one of {members}")


def _losses(losses: Losses) -> list[str]:
    if not losses.events:
        return []
    return [f"{losses.events:,} events were dropped; the figures above leave them out."]


def _device_view(tables: SummaryTables, style: Style) -> Iterator[str]:
    del style  # the view has no times
    layout = Layout((30, 20))
    yield from head(layout, "Device Summary", None, ("Device", "Utilization (%)"))
    for device, use in tables.device.rows:
        yield layout.line((device, "-" if use is None else percent(use)))
    yield from note(layout, _DEVICE_NOTE)


def _overview(tables: SummaryTables, style: Style) -> Iterator[str]:
    layout = Layout((25,) * 4)
    headers = ("Event Type", "Calls", "CPU Time", "Ratio (%)")
    yield from head(layout, "Overview Summary", style, headers)
    on_host = [row for row in tables.overview.rows if not row.on_device]
    on_device = [row for row in tables.overview.rows if row.on_device]
    for place, rows in enumerate((on_host, on_device)):
        if place == 1:
            yield from (layout.rule, layout.line(("", "Calls", "GPU Time", "Ratio (%)")))
            yield layout.rule
        for number, row in enumerate(rows):
            indent = "" if place == 0 and number == 0 else "  "
            calls, time = str(row.calls), style.time(row.time_ns)
            yield layout.line((indent + row.event_type, calls, time, percent(row.ratio)))
    text = _OVERVIEW_NOTE if tables.has_steps else f"{_OVERVIEW_NOTE}{_NO_STEP_NOTE}\n"
    yield from note(layout, text)


def _model_view(tables: SummaryTables, style: Style) -> Iterator[str]:
    if not tables.model.rows:
        return
    cells = [event_cells(row, style, "  " * row.level + row.name) for row in tables.model.rows]
    layout = event_layout(15, cells)
    yield from head(layout, "Model Summary", style, ("Name", *event_headers(style)))
    yield from map(layout.line, cells)
    yield from note(layout, _MODEL_NOTE)


def _distribution_view(tables: SummaryTables, style: Style) -> Iterator[str]:
    rows = tables.distribution.rows
    if not rows:
        return
    layout = Layout((25,) * 3)
    yield from head(layout, "Distribution Summary", style, ("Name", "Total Time", "Ratio (%)"))
    for number, row in enumerate(rows):
        indent = "  " if number else ""
        yield layout.line((indent + row.name, style.time(row.time_ns), percent(row.ratio)))
    yield from note(layout, _DISTRIBUTION_NOTE)


def _operator_view(tables: SummaryTables, style: Style) -> Iterator[str]:
    if not tables.operators.rows:
        return

    def cells(row: EventRow) -> Cells:
        name = printable(row.name)
        if row.level:
            name = "  " * row.level + cut(name, _OPERATOR_WIDTH - 2 * row.level)
        flops = "-" if row.level else str(row.flops)
        return (*event_cells(row, style, name), flops)

    lines: Lines = list(_by_thread(tables.operators, style, cells))
    layout = event_layout(_OPERATOR_WIDTH, lines, 10)
    headers = ("Name", *event_headers(style), "FLOPs")
    yield from head(layout, "Operator Summary", style, headers)
    yield from body(layout, lines)
    yield from (layout.rule, "", "")


def _kernel_view(tables: SummaryTables, style: Style) -> Iterator[str]:
    if not tables.kernels.rows:
        return
    cells: list[Cells] = [
        (
            cut(_kernel_name(row.name), _KERNEL_WIDTH),
            str(row.calls),
            style.numbers(row.gpu, row.calls, row.gpu_ratio),
        )
        for row in tables.kernels.rows
    ]
    lines: Lines = [*cells[: style.row_limit], *more(len(cells), style)]
    layout = fitted((_KERNEL_WIDTH, CALLS_WIDTH, NUMBERS_WIDTH), cells)
    yield from head(layout, "Kernel Summary", style, ("Name", "Calls", GPU_HEADER))
    yield from body(layout, lines)
    yield from (layout.rule, "", "")


def _memory_manipulation_view(tables: SummaryTables, style: Style) -> Iterator[str]:
    rows = tables.memory_manipulation.rows
    if not rows:
        return
    cells = [event_cells(row, style, printable(row.name)) for row in rows]
    layout = event_layout(max(len(name) for name, *_ in cells), cells)
    headers = ("Name", *event_headers(style))
    yield from head(layout, "Memory Manipulation Summary", style, headers)
    yield from body(layout, [*cells[: style.row_limit], *more(len(cells), style)])
    yield from (layout.rule, "", "")


def _user_defined_view(tables: SummaryTables, style: Style) -> Iterator[str]:
    if not tables.user_defined.rows:
        return
    lines: Lines = list(
        _by_thread(
            tables.user_defined, style, lambda row: event_cells(row, style, printable(row.name))
        )
    )
    width = max(len(line[0]) for line in lines if not isinstance(line, str))
    layout = event_layout(width, lines)
    headers = ("Name", *event_headers(style))
    yield from head(layout, "UserDefined Summary", style, headers)
    yield from body(layout, lines)
    yield from ("", "")


def _memory_view(tables: SummaryTables, style: Style) -> Iterator[str]:
    layout = Layout((50, 12, *(15,) * 5))
    headers = (
        *("Name", "Type", "Allocation Count", "Free Count"),
        *("Allocation Size", "Free Size", "Increased Size"),
    )
    for place, peak in tables.memory.peaks.items():
        rows = [row for row in tables.memory.rows if row.place == place]
        name = place if place.startswith("Place(") else place_of_device(place)
        yield layout.titled(f"Memory Summary - {name}")
        yield f"Peak Allocated Memory: {peak.allocated_bytes}"
        yield f"Peak Reserved Memory: {peak.reserved_bytes}"
        yield from (layout.rule, layout.line(headers), layout.rule)
        cells = [_memory_cells(row) for row in rows]
        yield from body(layout, [*cells[: style.row_limit], *more(len(cells), style)])
        yield from ("", "")


def _memory_cells(row: MemoryRow) -> Cells:
    counts = (row.allocations, row.frees)
    sizes = (row.allocated_bytes, row.freed_bytes, row.increased_bytes)
    return (printable(row.name), row.type, *map(str, counts), *map(str, sizes))


def _by_thread(
    table: EventTable, style: Style, cells: Callable[[EventRow], Cells]
) -> Iterator[str | Cells]:
    """Yield a title per thread and the cells of its rows, up to the limit."""
    thread, shown, hidden = None, 0, 0
    for row in table.rows:
        if row.level == 0:
            if row.thread != thread:
                yield from left_out(hidden)
                thread, shown, hidden = row.thread, 0, 0
                yield f"Thread: {printable(thread)}"
            shown += 1
            hidden += style.row_limit is not None and shown > style.row_limit
        if not hidden:
            yield cells(row)
    yield from left_out(hidden)


def _kernel_name(name: str) -> str:
    match = _TEMPLATE.match(printable(name))
    return match["kept"] if match else printable(name)


_RENDERERS: dict[SummaryView, Callable[[SummaryTables, Style], Iterator[str]]] = {
    SummaryView.DeviceView: _device_view,
    SummaryView.OverView: _overview,
    SummaryView.ModelView: _model_view,
    SummaryView.DistributedView: _distribution_view,
    SummaryView.OperatorView: _operator_view,
    SummaryView.KernelView: _kernel_view,
    SummaryView.MemoryManipulationView: _memory_manipulation_view,
    SummaryView.UDFView: _user_defined_view,
    SummaryView.MemoryView: _memory_view,
}
