"""The summary as text: torch.profiler's table, character for character."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscope.trace.model import Losses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from stepscope.analysis.averages import Averages, Labels
    from stepscope.trace.model import Int64

_GAP = "  "
_CELL_WIDTH = 12
_NAME_PADDING = 4
_NO_SHAPES = {"", "[]"}
_ALIASES_OF_DEVICE = ("cuda", "xpu", "privateuse1")
_US_PER_UNIT = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0}


@dataclass(frozen=True, slots=True)
class Layout:
    """How much of the averages to show, and how wide."""

    sort_by: str | None = None
    row_limit: int = 100  # negative: all rows
    max_name_width: int | None = 55
    max_shapes_width: int | None = 80
    header: str | None = None
    top_level_only: bool = False
    time_unit: str | None = None  # None: each time in the unit that suits it

    def __post_init__(self) -> None:
        """Refuse a unit that no time can be shown in."""
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


def table(
    rows: Averages,
    layout: Layout | None = None,
    *,
    device: str | None = None,
    losses: Losses | None = None,
) -> str:
    """Lay the averages out as text; empty when there are none."""
    layout = layout or Layout()
    order = sorted_rows(rows, layout.sort_by)
    if not len(rows):
        return ""
    if layout.top_level_only:
        order = order[rows.is_top_level[order]]
    if layout.row_limit >= 0:
        order = order[: layout.row_limit]
    columns = _columns(rows, layout, device)
    rule = _line("-" * column.width for column in columns)
    lines = [
        *_title(layout, len(rule) - len(_GAP)),
        rule,
        _line(column.header.rjust(column.width) for column in columns),
        rule,
        *(_line(column.cell(row).rjust(column.width) for column in columns) for row in order),
        rule,
        *_totals(rows, layout, device),
        *_losses(losses or Losses()),
        "",
    ]
    return "\n".join(lines)


def time_text(us: float, unit: str | None = None) -> str:
    """Return a time with its unit, by default the largest in which it is at least one."""
    if unit is None:
        unit = next((unit for unit, size in _US_PER_UNIT.items() if us >= size), "us")
    return f"{us / _US_PER_UNIT[unit]:.3f}{unit}"


def sorted_rows(rows: Averages, sort_by: str | None) -> NDArray[np.intp]:
    """Return row indices, the largest first, equal ones as they stood; as they stand for None."""
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


def _ranks(labels: Labels | None) -> Int64 | None:
    """Return a number a row that orders rows as their texts do."""
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
    # Not recorded yet: every row has the same, none.
    "cpu_memory_usage": lambda _: None,
    "self_cpu_memory_usage": lambda _: None,
    "device_memory_usage": lambda _: None,
    "self_device_memory_usage": lambda _: None,
    "flops": lambda _: None,
}


def _columns(rows: Averages, layout: Layout, device: str | None) -> list[_Column]:
    columns = [_name_column(rows.key, layout.max_name_width)]
    if rows.overload_name is not None and any(rows.overload_name.texts):
        columns.append(_overload_column(rows.overload_name, layout.max_name_width))
    columns += _cpu_columns(rows, layout.time_unit)
    if rows.self_device_ns.any():
        columns += _device_columns(rows, layout.time_unit, (device or "device").upper())
    columns.append(_Column("# of Calls", _CELL_WIDTH, lambda row: str(rows.count[row])))
    if rows.input_shapes is not None and set(rows.input_shapes.texts) - _NO_SHAPES:
        columns.append(_shapes_column(rows.input_shapes, layout.max_shapes_width))
    return columns


def _cpu_columns(rows: Averages, unit: str | None) -> list[_Column]:
    total_ns = rows.total_self_cpu_ns

    def total_share(row: int) -> str:
        # What ends on another thread overlaps its own thread's work: no share of it.
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


def _name_column(names: Labels, limit: int | None) -> _Column:
    width = max(len(printable(text)) for text in names.texts) + _NAME_PADDING
    width = width if limit is None else min(width, limit)
    return _Column("Name", width, lambda row: _shortened(names[row], limit))


def _overload_column(names: Labels, limit: int | None) -> _Column:
    header = "Overload Name"
    return _Column(header, len(header), lambda row: _shortened(names[row], limit))


def _shapes_column(shapes: Labels, limit: int | None) -> _Column:
    width = max(len(printable(text)) for text in shapes.texts) + _NAME_PADDING
    width = max(width if limit is None else min(width, limit), _CELL_WIDTH)
    return _Column("Input Shapes", width, lambda row: printable(shapes[row])[:limit])


def printable(text: str) -> str:
    """Escape what would break the line or the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _shortened(text: str, limit: int | None) -> str:
    text = printable(text)
    # torch marks a text as cut when only its padding was; so do we, to the character.
    if limit is None or len(text) < limit - 3:
        return text
    return text[: max(limit - 3, 0)] + "..."


def _time(ns: int, unit: str | None) -> str:
    return time_text(ns / 1000, unit)


def _average(rows: Averages, ns: Int64, row: int, unit: str | None) -> str:
    return time_text(ns[row] / rows.count[row] / 1000, unit)


def _share(ns: int, total_ns: int) -> str:
    return f"{ns * 100 / total_ns:.2f}%" if total_ns else "NaN"


def _line(cells: Iterable[str]) -> str:
    return "".join(cell + _GAP for cell in cells)


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
    limit = f"{losses.limit_bytes / 2**20:,.1f} MiB" if losses.limit_bytes else "given"
    which = f"the {losses.policy} ones" if losses.policy else "some"
    return [
        f"{losses.events:,} events were dropped, {which}: recording reached its limit of memory"
        f" ({limit}). The numbers above leave them out."
    ]
