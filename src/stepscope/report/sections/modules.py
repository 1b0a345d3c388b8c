"""The modules of a model as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.host.modules import ModuleTable, module_table
from stepscope.report.base.payload import Payload, add_headings, add_table
from stepscope.report.base.steady import steady_time
from stepscope.report.sections.calls import calls_of
from stepscope.text.modules import OUTSIDE
from stepscope.trace.measures import Measure
from stepscope.trace.model import Trace
from stepscope.units import TEXT

_LABEL = Measure("label", "Module", TEXT)


def add_modules(trace: Trace, payload: Payload) -> None:
    """Add the table ``modules`` of a trace that has some: parents first, ``depth`` is the tree.

    It is about the whole run; ``modules.steps`` has the same rows, of the steady steps.
    """
    if "module" not in calls_of(trace).groupings:
        return
    _add(payload, "modules", module_table(trace))
    steps = steady_time(trace)
    if steps is not None:
        _add(payload, "modules.steps", module_table(trace, within=steps))


def _add(payload: Payload, name: str, table: ModuleTable) -> None:
    order, depth = _tree(table)
    columns: dict[str, Sequence[str] | NDArray[Any]] = {
        "label": _labels(table, order, depth),
        "depth": np.array(depth, np.int64),
    }
    shown = table.take(np.array(order)).on_pages()
    columns |= {measure.name: column for measure, column in shown.items() if np.any(column)}
    add_table(payload, name, columns)
    add_headings(payload, name, [_LABEL, *shown])
    payload.add_value(f"{name}.time", int(table.self_ns.sum()))
    payload.add_value(f"{name}.device_time", int(table.self_device_ns.sum()))


def _tree(table: ModuleTable) -> tuple[list[int], list[int]]:
    """Return the rows with children below their parents, and the depth of each.

    The table is in the order of first calls. A module may first be called from another place than
    where its name puts it, and a ModuleList, which nobody calls, has no row of its own.
    """
    row_of = {
        (model, name if depth else ""): row
        for row, (model, name, depth) in enumerate(
            zip(table.model, table.name, table.depth, strict=True)
        )
    }
    inside: dict[int, list[int]] = {}
    for (model, name), row in row_of.items():
        inside.setdefault(_around(row_of, model, name), []).append(row)
    order, depths = [], []
    waiting = [(row, 0) for row in reversed(inside[-1])]
    while waiting:
        row, depth = waiting.pop()
        order.append(row)
        depths.append(depth)
        waiting += [(inner, depth + 1) for inner in reversed(inside.get(row, []))]
    return order, depths


def _labels(table: ModuleTable, order: list[int], depth: list[int]) -> list[str]:
    """Return the names without the prefix that the parent row shows."""
    labels, around = [], [""]
    for row, level in zip(order, depth, strict=True):
        name = table.name[row]
        del around[level + 1 :]
        labels.append(name.removeprefix(around[level]) if table.model[row] else OUTSIDE)
        around.append(f"{name}." if level else "")  # a model's name is no prefix
    return labels


def _around(row_of: dict[tuple[str, str], int], model: str, name: str) -> int:
    """Return the row of the nearest enclosing module, -1 for a model."""
    while name:
        name = name.rpartition(".")[0]
        if (model, name) in row_of:
            return row_of[model, name]
    return -1
