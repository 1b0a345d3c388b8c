"""The differential flame graph: the call paths of a usual step, before and after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.labels import shown_name
from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.base.sums import distinct_pairs, summed
from stepscope.analysis.base.tree import levels
from stepscope.analysis.compare.model import Diff
from stepscope.analysis.compare.side import Run, Side
from stepscope.analysis.compare.sorting import BETWEEN
from stepscope.analysis.host.flame import without_address
from stepscope.analysis.work.kernel_names import kernel_name
from stepscope.analysis.work.work import device_work
from stepscope.trace.model import NO_PARENT, NO_SLICE, Int64

LEAST_SHARE = 0.0005  # a path that takes less of a step on both sides is part of its caller

ROOT = 0

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlameNode:
    """A call path and its total time in a usual step of each side."""

    name: str
    parent: int  # -1 for the root
    before_ns: int
    after_ns: int


def diff_flame(diff: Diff) -> list[FlameNode]:
    """Return the nodes of both sides' paths, parents first; those of a parent by name."""
    names = _new_names(diff)
    sides = [_paths(diff.before, names), _paths(diff.after, {})]
    total: dict[Path, list[float]] = {(): [0.0, 0.0]}
    for number, paths in enumerate(sides):
        for path, ns in paths.items():
            for length in range(len(path) + 1):
                total.setdefault(path[:length], [0.0, 0.0])[number] += ns
    least = LEAST_SHARE * max(diff.before_ns, diff.after_ns, 1)
    kept_paths = sorted(path for path, both in total.items() if max(both) >= least or not path)
    row = {path: i for i, path in enumerate(kept_paths)}
    whole = f"a {diff.unit}" if diff.unit != "run" else "the run"
    return [
        FlameNode(
            path[-1] if path else whole,
            row[path[:-1]] if path else -1,
            round(total[path][0]),
            round(total[path][1]),
        )
        for path in kept_paths
    ]


def _new_names(diff: Diff) -> dict[str, str]:
    """Return the new names of renamed modules, by their former ones."""
    for table in diff.tables:
        if table.by == "module":
            return {row.was: row.what for row in table.rows if row.was}
    return {}


def _paths(side: Side, names: dict[str, str]) -> dict[Path, float]:
    sums: dict[Path, float] = {}
    for run in side.runs:
        with shared_analyses():
            for path, ns in _paths_of_run(run).items():
                renamed = tuple(names.get(name, name) for name in path)
                sums[renamed] = sums.get(renamed, 0.0) + ns
    return {path: ns / max(side.chosen, 1) for path, ns in sums.items()}


def _paths_of_run(run: Run) -> dict[Path, int]:
    """Return the own time of each path of names."""
    node, parents, texts = _nodes(run)
    usual = run.usual
    at = np.append(node, ROOT)[usual.owner]
    ns = summed(at, usual.ns, len(parents))
    times: dict[Path, int] = {}
    for i in np.flatnonzero(ns).tolist():
        path: list[str] = [BETWEEN] if i == ROOT else []
        up = i
        while up != ROOT:
            path.append(texts[up])
            up = parents[up]
        key = tuple(reversed(path))
        times[key] = times.get(key, 0) + int(ns[i])
    return times


def _nodes(run: Run) -> tuple[Int64, list[int], list[str]]:
    """Return the node of every slice, and each node's parent and name; the first is the root."""
    trace = run.trace
    slices, strings = trace.slices, trace.strings
    node = np.full(len(slices) + 1, ROOT, np.int64)
    parents, texts = [ROOT], [""]
    work = device_work(trace)
    is_work = np.zeros(len(slices), np.bool_)
    is_work[work.rows] = True
    up = slices.parent.astype(np.int64)
    groups = [rows[~is_work[rows]] for rows in levels(slices.depth)]
    if len(work):  # below what launched it, whatever its depth
        up[work.rows] = work.operator[work.rows]
        groups.append(work.rows)
    for rows in groups:
        above = np.where(up[rows] == NO_PARENT, ROOT, node[up[rows]])
        (around, name), code = distinct_pairs(above, slices.name[rows])
        first = len(parents)
        shown = {
            name_id: without_address(shown_name(strings[name_id])) for name_id in set(name.tolist())
        }
        parents += around.tolist()
        texts += [shown[name_id] for name_id in name.tolist()]
        node[rows] = first + code
    if len(work):
        for i in np.unique(node[work.rows]).tolist():
            texts[i] = kernel_name(texts[i])
    node[NO_SLICE] = ROOT
    return node[:-1], parents, texts
