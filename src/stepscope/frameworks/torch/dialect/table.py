"""torch.profiler's table of averages, character for character."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscope import units
from stepscope.arguments import text_or_none, whole
from stepscope.text import layout as text_layout
from stepscope.text.layout import printable
from stepscope.trace.model import Losses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from stepscope.analysis.base.labels import Labels
    from stepscope.analysis.host.averages import Averages
    from stepscope.trace.model import Int64

_CELL_WIDTH = 12
_NAME_PADDING = 4
_NO_SHAPES = {"", "[]"}
_ALIASES_OF_DEVICE = ("cuda", "xpu", "privateuse1")
_US_PER_UNIT = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0}
_BYTES_PER_UNIT = {"GB": 2**30, "MB": 2**20, "KB": 2**10}
_FLOPS_UNITS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


@dataclass(frozen=True, slots=True)
class Layout:
    """Which averages to show, and how wide."""

    sort_by: str | None = None
    row_limit: int = 100  # negative for all rows
    max_source_width: int | None = 75
    max_name_width: int | None = 55
    max_shapes_width: int | None = 80
    header: str | None = None
    top_level_only: bool = False
    time_unit: str | None = None  # None: the unit that suits each time

    def __post_init__(self) -> None:
        whole("row_limit", self.row_limit, "-1 for all rows")
        for name, width in (
            ("max_src_column_width", self.max_source_width),
            ("max_name_column_width", self.max_name_width),
            ("max_shapes_column_width", self.max_shapes_width),
        ):
            if width is not None and whole(name, width, "or None for any width") < 1:
                raise ValueError(f"{name}={width}: give 1 or more, or None for any width")
        text_or_none("header", self.header)
        text_or_none("sort_by", self.sort_by)
        if self.time_unit is not None and self.time_unit not in _US_PER_UNIT:
            units = ", ".join(_US_PER_UNIT)
            raise ValueError(
                f"time_unit {self.time_unit!r} is unknown; use one of {units}, or None"
            )


@dataclass(frozen=True, slots=True)
class _Column:
    header: str
    width: int
    cell: Callable[[int], str]
    is_source: bool = False  # left-aligned, with a line per frame


def table(
    rows: Averages,
    layout: Layout | None = None,
    *,
    device: str | None = None,
    losses: Losses | None = None,
) -> str:
    """Format the averages as text; empty if there are none."""
    layout = layout or Layout()
    order = sorted_rows(rows, layout.sort_by)
    if not len(rows):
        return ""
    if layout.top_level_only:
        order = order[rows.is_top_level[order]]
    if layout.row_limit >= 0:
        order = order[: int(layout.row_limit)]
    columns = _columns(rows, layout, device)
    lines_of = text_layout.Layout(
        tuple(column.width for column in columns), tuple(column.is_source for column in columns)
    )
    cells = (line for row in order for line in _row_cells(rows, row, columns))
    lines = [
        *_title(layout, lines_of.length),
        lines_of.rule,
        lines_of.line(column.header for column in columns),
        lines_of.rule,
        *map(lines_of.line, cells),
        lines_of.rule,
        *_totals(rows, layout, device),
        *_losses(losses or Losses()),
        "",
    ]
    return "\n".join(lines)


def table_cells(
    rows: Averages, layout: Layout, *, device: str | None = None
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headings and cells of the table, for another layout."""
    order = sorted_rows(rows, layout.sort_by)[: layout.row_limit if layout.row_limit >= 0 else None]
    columns = _columns(rows, layout, device) if len(rows) else []
    cells = [tuple(column.cell(row) for column in columns) for row in order.tolist()]
    return tuple(column.header for column in columns), cells


def time_text(us: float, unit: str | None = None) -> str:
    """Return a time with its unit, by default the largest in which it is at least one."""
    if unit is None:
        unit = next((unit for unit, size in _US_PER_UNIT.items() if us >= size), "us")
    return f"{us / _US_PER_UNIT[unit]:.3f}{unit}"


def size_text(size: int) -> str:
    """Return bytes with their unit, the largest in which they are at least one."""
    for unit, unit_bytes in _BYTES_PER_UNIT.items():
        if abs(size) >= unit_bytes:
            return f"{size / unit_bytes:.2f} {unit}"
    return f"{size} B"


def sorted_rows(rows: Averages, sort_by: str | None) -> NDArray[np.intp]:
    """Return row indices, the largest first; ties, and all rows for None, keep their order."""
    if sort_by is None:
        return np.arange(len(rows))
    column = sort_by
    for alias in _ALIASES_OF_DEVICE:
        column = column.replace(alias, "device")
    if column not in _SORT_COLUMNS:
        columns = ", ".join(_SORT_COLUMNS)
        raise AttributeError(f"sort_by {sort_by!r} is not a column; use one of {columns}")
    values = _SORT_COLUMNS[column](rows)
    if values is None:
        return np.arange(len(rows))
    return np.argsort(-values, kind="stable")


def _ranks(labels: Labels[str] | None) -> Int64 | None:
    """Return a number per row that sorts rows by their text."""
    if labels is None:
        return None
    rank = np.empty(len(labels.texts), np.int64)
    rank[sorted(range(len(labels.texts)), key=labels.texts.__getitem__)] = np.arange(len(rank))
    return rank[labels.codes]


_SORT_COLUMNS: dict[str, Callable[[Averages], Int64 | NDArray[np.float64] | None]] = {
    "cpu_time_total": lambda rows: rows.cpu_ns,
    "self_cpu_time_total": lambda rows: rows.self_cpu_ns,
    "cpu_time": lambda rows: rows.cpu_ns / rows.count,
    "device_time_total": lambda rows: rows.device_ns,
    "self_device_time_total": lambda rows: rows.self_device_ns,
    "device_time": lambda rows: rows.device_ns / rows.count,
    "count": lambda rows: rows.count,
    "key": lambda rows: _ranks(rows.key),
    "name": lambda rows: _ranks(rows.key),
    "input_shapes": lambda rows: _ranks(rows.input_shapes),
    "overload_name": lambda rows: _ranks(rows.overload_name),
    # None if not recorded: all rows are equal then.
    "cpu_memory_usage": lambda rows: rows.cpu_bytes,
    "self_cpu_memory_usage": lambda rows: rows.self_cpu_bytes,
    "device_memory_usage": lambda rows: rows.device_bytes,
    "self_device_memory_usage": lambda rows: rows.self_device_bytes,
    "flops": lambda rows: rows.flops,
    "flops_per_second": lambda rows: rows.flops_per_second,
}


def _columns(rows: Averages, layout: Layout, device: str | None) -> list[_Column]:
    columns = [_name_column(rows.key, layout.max_name_width)]
    if rows.overload_name is not None and any(rows.overload_name.texts):
        columns.append(_overload_column(rows.overload_name, layout.max_name_width))
    columns += _cpu_columns(rows, layout.time_unit)
    if rows.self_device_ns.any():
        columns += _device_columns(rows, layout.time_unit, (device or "device").upper())
    columns += _memory_columns(rows, (device or "device").upper())
    columns.append(_Column("# of Calls", _CELL_WIDTH, lambda row: str(rows.count[row])))
    if rows.input_shapes is not None and set(rows.input_shapes.texts) - _NO_SHAPES:
        columns.append(_shapes_column(rows.input_shapes, layout.max_shapes_width))
    if rows.stack is not None and any(rows.stack.texts):
        columns.append(_source_column(rows.stack, layout.max_source_width))
    if rows.flops is not None and rows.flops.any():
        columns.append(_flops_column(rows.flops))
    return columns


def _cpu_columns(rows: Averages, unit: str | None) -> list[_Column]:
    total_ns = rows.total_self_cpu_ns

    def total_share(row: int) -> str:
        # Its end on another thread overlaps this thread's work, so it has no share of it.
        return "0" if rows.is_async[row] else _share(rows.cpu_ns[row], total_ns)

    return [
        _Column("Self CPU %", _CELL_WIDTH, lambda row: _share(rows.self_cpu_ns[row], total_ns)),
        _Column("Self CPU", _CELL_WIDTH, lambda row: _time(rows.self_cpu_ns[row], unit)),
        _Column("CPU total %", _CELL_WIDTH, total_share),
        _Column("CPU total", _CELL_WIDTH, lambda row: _time(rows.cpu_ns[row], unit)),
        _Column("CPU time avg", _CELL_WIDTH, lambda row: _average(rows, rows.cpu_ns, row, unit)),
    ]


def _device_columns(rows: Averages, unit: str | None, device: str) -> list[_Column]:
    total_ns = rows.total_self_device_ns
    self_ns, ns = rows.self_device_ns, rows.device_ns
    return [
        _Column(f"Self {device}", _CELL_WIDTH, lambda row: _time(self_ns[row], unit)),
        _Column(f"Self {device} %", _CELL_WIDTH, lambda row: _share(self_ns[row], total_ns)),
        _Column(f"{device} total", _CELL_WIDTH, lambda row: _time(ns[row], unit)),
        _Column(f"{device} time avg", _CELL_WIDTH, lambda row: _average(rows, ns, row, unit)),
    ]


def _memory_columns(rows: Averages, device: str) -> Iterator[_Column]:
    bytes_of = {"CPU Mem": rows.cpu_bytes, "Self CPU Mem": rows.self_cpu_bytes}
    if rows.self_device_bytes is not None and (rows.self_device_bytes > 0).any():
        bytes_of[f"{device} Mem"] = rows.device_bytes
        bytes_of[f"Self {device} Mem"] = rows.self_device_bytes
    for header, sizes in bytes_of.items():
        if sizes is not None:
            yield _Column(header, _CELL_WIDTH, _size_cell(sizes))


def _size_cell(sizes: Int64) -> Callable[[int], str]:
    return lambda row: size_text(int(sizes[row]))


def _flops_column(flops: Int64) -> _Column:
    """Show all rows in the unit of the smallest, as torch does."""
    smallest = int(flops[flops > 0].min())
    power = min(int(math.log10(smallest) / 3), len(_FLOPS_UNITS) - 1)
    scale = 10.0 ** (-3 * power)

    def cell(row: int) -> str:
        return f"{flops[row] * scale:8.3f}" if flops[row] > 0 else "--"

    return _Column(f"Total {_FLOPS_UNITS[power]}", _CELL_WIDTH, cell)


def _source_column(stacks: Labels[tuple[str, ...]], limit: int | None) -> _Column:
    longest = max(len(printable(frame)) for frames in stacks.texts for frame in frames)
    width = longest + _NAME_PADDING
    width = width if limit is None else min(width, limit)

    def cell(row: int) -> str:
        return _source_text(stacks[row][0], width) if stacks[row] else ""

    return _Column("Source Location", width, cell, is_source=True)


def _source_text(frame: str, width: int) -> str:
    """Cut a frame at its start: its end has the file's name, the line and the function."""
    frame = printable(frame)
    if len(frame) <= width:
        return frame
    end = frame[len(frame) - width :]
    return f"...{end[3:]}" if len(end) > 3 else end


def _row_cells(rows: Averages, row: int, columns: list[_Column]) -> Iterator[list[str]]:
    """Yield the cells of a row; with sources, a line per further frame and an empty line follow."""
    yield [column.cell(row) for column in columns]
    source = next((column for column in columns if column.is_source), None)
    if source is None or rows.stack is None:
        return
    for frame in (*rows.stack[row][1:], ""):
        text = _source_text(frame, source.width)
        yield [text if column is source else "" for column in columns]


def _name_column(names: Labels[str], limit: int | None) -> _Column:
    width = max(len(printable(text)) for text in names.texts) + _NAME_PADDING
    width = width if limit is None else min(width, limit)
    return _Column("Name", width, lambda row: _shortened(names[row], limit))


def _overload_column(names: Labels[str], limit: int | None) -> _Column:
    header = "Overload Name"
    return _Column(header, len(header), lambda row: _shortened(names[row], limit))


def _shapes_column(shapes: Labels[str], limit: int | None) -> _Column:
    width = max(len(printable(text)) for text in shapes.texts) + _NAME_PADDING
    width = max(width if limit is None else min(width, limit), _CELL_WIDTH)
    return _Column("Input Shapes", width, lambda row: printable(shapes[row])[:limit])


def _shortened(text: str, limit: int | None) -> str:
    text = printable(text)
    # torch marks a text as cut even if only its padding was; so do we, to be equal.
    if limit is None or len(text) < limit - 3:
        return text
    return text[: max(limit - 3, 0)] + "..."


def _time(ns: int, unit: str | None) -> str:
    return time_text(ns / 1000, unit)


def _average(rows: Averages, ns: Int64, row: int, unit: str | None) -> str:
    return time_text(ns[row] / rows.count[row] / 1000, unit)


def _share(ns: int, total_ns: int) -> str:
    return f"{int(ns) * 100 / total_ns:.2f}%" if total_ns else "NaN"


def _title(layout: Layout, width: int) -> list[str]:
    lines = []
    if layout.header is not None:
        lines += ["=" * width, layout.header]
    if layout.top_level_only:
        lines += ["=" * width, "This report only display top-level ops statistics"]
    return lines


def _totals(rows: Averages, layout: Layout, device: str | None) -> list[str]:
    lines = [f"Self CPU time total: {_time(rows.total_self_cpu_ns, layout.time_unit)}"]
    if rows.self_device_ns.any():
        total = _time(rows.total_self_device_ns, layout.time_unit)
        lines.append(f"Self {(device or 'device').upper()} time total: {total}")
    return lines


def _losses(losses: Losses) -> list[str]:
    if not losses.events:
        return []
    if losses.fell_off:
        earlier = units.count_text(losses.events, "earlier event")
        return [f"{earlier} dropped: only the most recent part of the recording is kept."]
    limit = units.size_text(losses.limit_bytes) if losses.limit_bytes else "given"
    which = f"the {losses.policy} ones" if losses.policy else "some"
    return [
        f"{losses.events:,} events were dropped, {which}: recording reached its memory limit"
        f" ({limit}). The numbers above exclude them."
    ]
