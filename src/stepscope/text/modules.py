"""The table of modules as text, CSV and JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.host.modules import ModuleTable
from stepscope.formats.base.files import ExportError, output_file
from stepscope.text.layout import Column, measured_column, printable, rows_left_out, text_lines
from stepscope.trace.measures import Shown
from stepscope.units import percent_text

OUTSIDE = "(outside of modules)"


def module_table_text(
    rows: ModuleTable, *, sort_by: str | None = None, row_limit: int = -1, max_name_width: int = 55
) -> str:
    """Return the table as text: a tree in the order of calls, or flat and sorted by a column.

    ``sort_by`` is a number of ModuleTable, such as ``total_ns`` or ``parameters``, the largest
    first. Columns without a value are left out.
    """
    if not len(rows):
        return ""
    order = _order(rows, sort_by)
    shown = order if row_limit < 0 else order[:row_limit]
    columns = _columns(rows, shown, as_tree=sort_by is None)
    lines = [*text_lines(columns, max_name_width), *rows_left_out(len(order) - len(shown))]
    return "\n".join(lines) + "\n"


def module_cells(rows: ModuleTable) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headings and cells of the tree, for another layout."""
    columns = _columns(rows, list(range(len(rows))), as_tree=True)
    headings = tuple(column.header for column in columns)
    return headings, list(zip(*(column.cells for column in columns), strict=True))


def export_module_table(rows: ModuleTable, path: str | os.PathLike[str]) -> None:
    """Write the table in the format of the suffix: ``.csv``, ``.json``, ``.txt``, also ``.gz``."""
    stem = os.fspath(path).lower().removesuffix(".gz")
    for suffix, render in _RENDERERS.items():
        if stem.endswith(suffix):
            with output_file(path) as file:
                file.write(render(rows).encode("utf-8", "replace"))
            return
    suffixes = ", ".join(_RENDERERS)
    raise ExportError(f"{os.fspath(path)}: unknown table format; use one of {suffixes}")


def _csv(rows: ModuleTable) -> str:
    return rows.to_polars().write_csv()


def _json(rows: ModuleTable) -> str:
    return json.dumps(rows.to_dicts(), ensure_ascii=False, indent=1) + "\n"


_RENDERERS: dict[str, Callable[[ModuleTable], str]] = {
    ".csv": _csv,
    ".json": _json,
    ".txt": module_table_text,
}


def _order(rows: ModuleTable, sort_by: str | None) -> list[int]:
    if sort_by is None:
        return list(range(len(rows)))
    column = getattr(rows, sort_by, None)
    if not isinstance(column, np.ndarray):
        raise AttributeError(
            f"sort_by {sort_by!r} is not a numeric column; use total_ns, self_ns, forward_ns, "
            "backward_ns, calls, operators, device_ns, memory_bytes, flops or parameters"
        )
    return [int(i) for i in np.argsort(-column, kind="stable")]


def _columns(rows: ModuleTable, shown: list[int], *, as_tree: bool) -> list[Column]:
    def texts(header: str, cell: Callable[[int], str]) -> Column:
        return Column(header, [printable(cell(row)) for row in shown], is_text=True)

    def shares(values: NDArray[Any]) -> list[str]:
        return [percent_text(int(values[row]), int(rows.self_ns.sum())) for row in shown]

    indents = _indents(rows) if as_tree else None
    columns = [
        texts("Module", lambda row: _label(rows, row, indents)),
        texts("Class", lambda row: rows.class_name[row]),
    ]
    for measure, values in rows.stated().items():
        if measure.shown is Shown.EVERYWHERE and np.any(values):
            columns.append(measured_column(measure, np.asarray(values)[shown]))
            if measure.name in {"total_ns", "self_ns"}:
                columns.append(Column(f"{measure.title} %", shares(np.asarray(values))))
    return columns


def _label(rows: ModuleTable, row: int, indents: list[int] | None) -> str:
    if not rows.model[row]:
        return OUTSIDE
    if indents is not None:
        return "  " * indents[row] + rows.name[row]
    if rows.depth[row] == 0:
        return rows.name[row]
    return f"{rows.model[row]}: {rows.name[row]}"


def _indents(rows: ModuleTable) -> list[int]:
    """Return each row's indentation; a ModuleList, which is never called, has none."""
    places = set(zip(rows.model, rows.name, strict=True))

    def ancestors(model: str, name: str) -> int:
        parts = name.split(".")
        paths = (".".join(parts[:length]) for length in range(1, len(parts)))
        return 1 + sum((model, path) in places for path in paths)

    return [
        ancestors(model, name) if depth else 0
        for model, name, depth in zip(rows.model, rows.name, rows.depth, strict=True)
    ]
