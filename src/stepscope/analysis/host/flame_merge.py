"""From nodes as they are found to a flame graph: one node a path, the smallest merged, and cells.

A cell is what one node holds itself of one thread, running or waiting. Whoever shows the graph adds
up the cells that are asked for: those of a thread, or all that do not wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.sums import distinct, summed
from stepscope.analysis.base.tree import levels
from stepscope.trace.model import Bool, Int32, Int64, UInt8

OTHERS = "(others)"
ROOT = 0
NATIVE = 255  # the kind of a frame of native code; all other kinds are SliceKinds


@dataclass(frozen=True, slots=True)
class Nodes:
    """A tree whose nodes may repeat a path; row 0 is the root, and its own parent."""

    parent: Int64
    code: Int64  # index of ``texts``
    kind: UInt8  # SliceKind or NATIVE
    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Amounts:
    """The own amounts of some events in one metric."""

    metric: str
    node: Int64
    track: NDArray[np.integer[Any]]
    waiting: Bool
    amount: Int64
    in_steps: Int64 | None  # the part of the amount in the steps; None without steps


@dataclass(frozen=True, slots=True)
class Cells:
    """The own amounts of nodes, one row per node, thread, and whether the thread waited."""

    node: Int64
    track: NDArray[np.integer[Any]]
    waiting: Bool
    amounts: Mapping[str, Int64]  # by metric
    in_steps: Mapping[str, Int64]  # the part of each amount in the steps; empty without steps

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """A tree of merged calls: row 0 is the root, callers come before callees."""

    parent: Int64  # row of the caller; the root's is 0
    text: Int64  # index of ``texts``
    texts: Sequence[str]
    kind: UInt8  # SliceKind or NATIVE; PYTHON for frames, OTHER for what stands for several
    own: Mapping[str, Int64]  # each metric's own amount in the node, without its callees
    merged: int  # how many of the smallest nodes became part of an OTHERS
    cells: Cells  # the same by thread, and whether it ran or waited

    def __len__(self) -> int:
        return len(self.parent)


def merged(nodes: Nodes, held_amounts: Sequence[Amounts], most_nodes: int) -> FlameGraph:
    """Join nodes that stand for one path, and merge the smallest if there are many."""
    place, tree = _canonical(nodes)
    cells = _cells([_moved(amounts, place) for amounts in held_amounts])
    target, tree, gone = _without_smallest(tree, _own(cells, len(tree.parent)), most_nodes)
    if gone is not None:
        cells = _cells(
            [
                Amounts(
                    metric,
                    target[cells.node],
                    cells.track,
                    cells.waiting,
                    column,
                    cells.in_steps.get(metric),
                )
                for metric, column in cells.amounts.items()
            ]
        )
    return FlameGraph(
        parent=tree.parent,
        text=tree.code,
        texts=tree.texts,
        kind=tree.kind,
        own=_own(cells, len(tree.parent)),
        merged=gone or 0,
        cells=cells,
    )


def _moved(amounts: Amounts, place: Int64) -> Amounts:
    return Amounts(
        amounts.metric,
        place[amounts.node],
        amounts.track,
        amounts.waiting,
        amounts.amount,
        amounts.in_steps,
    )


def _cells(amounts: Sequence[Amounts]) -> Cells:
    """Sum the amounts of each thread in each node, running or waiting."""
    tracks = max(int(amount.track.max(initial=0)) for amount in amounts) + 1
    # In place: of a big trace, each column is large.
    key = np.concatenate([amount.node for amount in amounts])
    key *= tracks
    key += np.concatenate([amount.track for amount in amounts])
    key *= 2
    key += np.concatenate([amount.waiting for amount in amounts])
    keys, which = distinct(key)
    del key
    ends = np.cumsum([len(amount.node) for amount in amounts])
    parts = np.split(which, ends[:-1])
    return Cells(
        node=keys // 2 // tracks,
        track=keys // 2 % tracks,
        waiting=keys % 2 == 1,
        amounts={
            amount.metric: _summed(part, amount.amount, len(keys))
            for amount, part in zip(amounts, parts, strict=True)
        },
        in_steps={
            amount.metric: _summed(part, amount.in_steps, len(keys))
            for amount, part in zip(amounts, parts, strict=True)
            if amount.in_steps is not None
        },
    )


def _own(cells: Cells, nodes: int) -> dict[str, Int64]:
    return {metric: _summed(cells.node, column, nodes) for metric, column in cells.amounts.items()}


def _summed(node: Int64, amount: Int64, nodes: int) -> Int64:
    counted = np.flatnonzero(amount)
    return summed(node[counted], amount[counted], nodes)


def _canonical(nodes: Nodes) -> tuple[Int64, Nodes]:
    """Join nodes that stand for one path, numbered by depth; also return each node's new number."""
    parent, code, kind = nodes.parent, nodes.code, nodes.kind
    place = np.zeros(len(parent), np.int64)
    parents, codes, kinds = [np.zeros(1, np.int64)], [code[:1]], [kind[:1] * np.uint8(0)]
    count = 1
    for level in list(levels(_depths(parent)))[1:]:
        key = place[parent[level]] * len(nodes.texts) + code[level]
        keys, first, which = np.unique(key, return_index=True, return_inverse=True)
        place[level] = count + which
        parents.append(keys // len(nodes.texts))
        codes.append(keys % len(nodes.texts))
        kinds.append(kind[level[first]])
        count += len(keys)
    tree = Nodes(np.concatenate(parents), np.concatenate(codes), np.concatenate(kinds), nodes.texts)
    return place, tree


def _depths(parent: Int64) -> Int32:
    """Return how far each node is from the root."""
    depth = np.zeros(len(parent), np.int32)
    above, rows = parent, np.arange(len(parent))
    rows = rows[rows != ROOT]
    while len(rows):
        depth[rows] += 1
        rows = rows[above[rows] != ROOT]
        above = parent[above]
    return depth


def _totals(parent: Int64, own: Int64) -> Int64:
    total = own.copy()
    for level in list(levels(_depths(parent)))[:0:-1]:
        np.add.at(total, parent[level], total[level])
    return total


def _without_smallest(
    tree: Nodes, own: Mapping[str, Int64], most_nodes: int
) -> tuple[Int64, Nodes, int | None]:
    """Drop empty nodes, and merge the smallest below each if there are many.

    A node's largest share of any metric decides. It is never above its caller's, so that whoever
    stays has all its callers. Returns where each node went, and how many were merged; None: all
    stayed where they were.
    """
    share = np.zeros(len(tree.parent))
    for column in own.values():
        total = _totals(tree.parent, column)
        np.maximum(share, total / max(int(total[ROOT]), 1), out=share)
    share[ROOT] = 2.0
    order = np.argsort(-share, kind="stable")  # callers before callees with the same share
    full = order[: np.count_nonzero(share)]
    if len(full) == len(tree.parent) <= most_nodes:
        return np.arange(len(tree.parent)), tree, None
    # Each one that stays may need an OTHERS below it.
    kept_nodes = np.sort(full if len(full) <= most_nodes else full[: max(most_nodes // 2, 1)])
    target, tree = _gathered(tree, own, kept_nodes)
    return target, tree, len(full) - len(kept_nodes)


def _gathered(tree: Nodes, own: Mapping[str, Int64], kept_nodes: Int64) -> tuple[Int64, Nodes]:
    """Keep some nodes; move what the others hold to an OTHERS below the nearest kept one."""
    count = len(tree.parent)
    place = np.full(count, -1, np.int64)
    place[kept_nodes] = np.arange(len(kept_nodes))
    near = np.where(place >= 0, np.arange(count), tree.parent)
    while (place[near] < 0).any():
        near = near[near]
    holds = np.zeros(count, np.bool_)
    for column in own.values():
        holds |= column != 0
    gone = np.flatnonzero((place < 0) & holds)
    above, which = np.unique(place[near[gone]], return_inverse=True)
    target = place.copy()
    target[gone] = len(kept_nodes) + which
    target[target < 0] = ROOT  # empty nodes
    others = len(tree.texts)
    return target, Nodes(
        parent=np.concatenate([place[tree.parent[kept_nodes]], above]),
        code=np.concatenate([tree.code[kept_nodes], np.full(len(above), others)]),
        kind=np.concatenate([tree.kind[kept_nodes], np.zeros(len(above), np.uint8)]),
        texts=[*tree.texts, OTHERS],
    )
