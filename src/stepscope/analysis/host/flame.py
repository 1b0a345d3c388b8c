"""Flame graphs: calls merged by their call path.

A path is what encloses a call, or the Python stack in which it started with the operators around it
that started in the same one. Device work is below the call that launched it. The self values of
all nodes add up to the whole trace; nothing is left out, however small.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.device.launches import launches
from stepscope.analysis.memory.usage import memory_of_slices
from stepscope.analysis.tree import distinct_ids, levels
from stepscope.trace.model import NO_PARENT, NO_STACK, SliceKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.host.averages import Averages
    from stepscope.analysis.host.stacks import KnownStacks
    from stepscope.analysis.tree import CallTree
    from stepscope.trace.model import Int32, Int64, UInt8

    Bool = NDArray[np.bool_]

ALL = "all"
OTHERS = "(others)"
NO_LAUNCH = "(unknown launch)"
OUTSIDE = "(outside of all calls)"
MOST_NODES = 50_000
_ROOT = 0
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """A tree of merged calls: row 0 is the root, callers come before callees."""

    parent: Int64  # row of the caller, 0 for the root itself
    text: Int64  # index of ``texts``
    texts: Sequence[str]
    kind: UInt8  # SliceKind; PYTHON for frames, OTHER for what stands for several
    own: Mapping[str, Int64]  # by metric: what a node holds itself, without its callees
    merged: int  # how many of the smallest nodes became part of an OTHERS

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.parent)


def flame_graph(
    tree: CallTree,
    each: Averages,
    stacks: KnownStacks | None = None,
    *,
    most_nodes: int = MOST_NODES,
) -> FlameGraph:
    """Merge the calls of ``tree`` by what encloses them, or by their stacks where given.

    ``each`` has the tree's events one by one. The metrics are those that the trace knows, of
    cpu_ns, device_ns, cpu_bytes and device_bytes; the last two are all that was allocated.
    """
    nodes = _Nodes(tree, each, stacks)
    node = nodes.of_events()
    own = {
        metric: nodes.sums(node, amount) for metric, amount in _event_metrics(tree, each).items()
    }
    own |= _allocated(tree, nodes, node)
    own = {metric: column for metric, column in own.items() if column.any() or metric == "cpu_ns"}
    return _without_smallest(_canonical(nodes, own), most_nodes)


def _event_metrics(tree: CallTree, each: Averages) -> dict[str, Int64]:
    """Return what every event adds itself; device time counts for the work, not the launcher."""
    metrics = {"cpu_ns": each.self_cpu_ns}
    if tree.is_device is not None:
        is_work = each.is_device & ~each.is_annotation
        metrics["device_ns"] = np.where(is_work, each.self_device_ns, 0)
    return metrics


def _allocated(tree: CallTree, nodes: _Nodes, node: Int64) -> dict[str, Int64]:
    known = memory_of_slices(tree.trace, without=())
    size = np.maximum(known.events.size, 0)
    if not size.any():
        return {}
    holder = tree.events_around(known.events.slice)
    at = np.where(holder == NO_PARENT, nodes.outside, node[holder])
    amounts = {"cpu_bytes": known.on_cpu, "device_bytes": ~known.on_cpu}
    return {
        metric: nodes.sums(at, np.where(counted, size, 0)) for metric, counted in amounts.items()
    }


def _summed(node: Int64, amount: Int64, nodes: int) -> Int64:
    counted = np.flatnonzero(amount)
    # float64 holds whole ns exactly up to 104 days, and bytes up to 9 PB
    return np.bincount(node[counted], amount[counted], minlength=nodes).astype(np.int64)


def without_address(text: str) -> str:
    """Return a frame without the address of its object: the next one's is another, its code not.

    torch.profiler writes ``<built-in method add of Tensor object at 0x7f3c>``.
    """
    return _ADDRESS.sub("", text)


class _Nodes:
    """Nodes as they are found; several may still stand for one path."""

    def __init__(self, tree: CallTree, each: Averages, stacks: KnownStacks | None) -> None:
        self._tree, self._stacks = tree, stacks
        self._names = each.key
        self._kind = tree.of(tree.trace.slices.kind)
        self.texts: list[str] = []
        self._code_of: dict[str, int] = {}
        self._name_codes = np.array([self._code(text) for text in each.key.texts], np.int64)
        self.parents: list[Int64] = []
        self.codes: list[Int64] = []
        self.kinds: list[UInt8] = []
        self._count = 0
        self._add_frames()
        self.no_launch, self.outside = self._special(NO_LAUNCH), self._special(OUTSIDE)

    def __len__(self) -> int:
        return self._count

    def of_events(self) -> Int64:
        """Return the node of every event, callers first; device work comes below its launch."""
        tree = self._tree
        on_host = np.ones(len(tree), np.bool_) if tree.is_device is None else ~tree.is_device
        code = self._name_codes[self._names.codes]
        node = np.full(len(tree), _ROOT, np.int64)
        below, base = self._places()
        for level in levels(tree.of(tree.trace.slices.depth)):
            events = level[on_host[level]]
            at = np.where(below[events], node[tree.parent[events]], base[events])
            node[events] = self._add(at, code[events], self._kind[events])
        found = launches(tree)
        if found is not None:
            work = np.flatnonzero(~on_host)
            at = np.full(len(tree), self.no_launch, np.int64)
            at[found.work] = node[found.host]
            node[work] = self._add(at[work], code[work], self._kind[work])
        return node

    def sums(self, node: Int64, amount: Int64) -> Int64:
        return _summed(node, amount, len(self))

    def _places(self) -> tuple[Bool, Int64]:
        """Return which events stand below the one around them, and where all others do."""
        tree = self._tree
        inside: Bool = tree.parent != NO_PARENT
        if self._stacks is None:
            return inside, np.full(len(tree), _ROOT, np.int64)
        rows = self._stacks.rows
        # A Python function is a frame of the stacks already; nothing needs to stand below it twice.
        is_python = self._kind == SliceKind.PYTHON
        around = np.where(inside, tree.parent, 0)
        same = (rows[around] == rows) & ~is_python[around] if len(rows) else inside
        return inside & (same | (rows == NO_STACK)), rows.astype(np.int64)

    def _add_frames(self) -> None:
        """Make row 0 the root, and give each stack the node with its row number."""
        if self._stacks is None:
            self._special(ALL)
            return
        table, strings = self._stacks.table, self._tree.trace.strings
        code = np.zeros(int(table.frame.max(initial=0)) + 1, np.int64)
        for frame in distinct_ids(table.frame[1:]).tolist():
            code[frame] = self._code(strings[frame])
        codes = code[table.frame]
        codes[_ROOT] = self._code(ALL)
        kinds = np.full(len(table), SliceKind.PYTHON, np.uint8)
        self._keep(table.parent.astype(np.int64), codes, kinds)

    def _code(self, text: str) -> int:
        text = without_address(text)
        code = self._code_of.setdefault(text, len(self.texts))
        if code == len(self.texts):
            self.texts.append(text)
        return code

    def _special(self, text: str) -> int:
        kind = np.full(1, SliceKind.OTHER, np.uint8)
        self._keep(np.zeros(1, np.int64), np.full(1, self._code(text)), kind)
        return len(self) - 1

    def _add(self, parent: Int64, code: Int64, kind: UInt8) -> Int64:
        """Add a node for each distinct pair, and return that of every pair."""
        _, first, which = np.unique(
            parent * len(self.texts) + code, return_index=True, return_inverse=True
        )
        start = len(self)
        self._keep(parent[first], code[first], kind[first])
        added: Int64 = start + which
        return added

    def _keep(self, parent: Int64, code: Int64, kind: UInt8) -> None:
        self.parents.append(parent)
        self.codes.append(code)
        self.kinds.append(kind)
        self._count += len(parent)


def _canonical(nodes: _Nodes, own: dict[str, Int64]) -> FlameGraph:
    """Make one node of all that stand for one path, and number them by depth."""
    parent, code = np.concatenate(nodes.parents), np.concatenate(nodes.codes)
    kind = np.concatenate(nodes.kinds)
    place = np.zeros(len(parent), np.int64)
    parents, codes, kinds = [np.zeros(1, np.int64)], [code[:1]], [kind[:1] * np.uint8(0)]
    count = 1
    for level in list(levels(_depths(parent)))[1:]:
        key = place[parent[level]] * len(nodes.texts) + code[level]
        distinct, first, which = np.unique(key, return_index=True, return_inverse=True)
        place[level] = count + which
        parents.append(distinct // len(nodes.texts))
        codes.append(distinct % len(nodes.texts))
        kinds.append(kind[level[first]])
        count += len(distinct)
    return FlameGraph(
        parent=np.concatenate(parents),
        text=np.concatenate(codes),
        texts=nodes.texts,
        kind=np.concatenate(kinds),
        own={metric: _summed(place, column, count) for metric, column in own.items()},
        merged=0,
    )


def _depths(parent: Int64) -> Int32:
    """Return how far each node is from the root, which is its own parent."""
    depth = np.zeros(len(parent), np.int32)
    above, rows = parent, np.arange(len(parent))
    rows = rows[rows != _ROOT]
    while len(rows):
        depth[rows] += 1
        rows = rows[above[rows] != _ROOT]
        above = parent[above]
    return depth


def totals(graph: FlameGraph, metric: str) -> Int64:
    """Return what each node holds with all below it."""
    total = graph.own[metric].copy()
    for level in list(levels(_depths(graph.parent)))[:0:-1]:
        np.add.at(total, graph.parent[level], total[level])
    return total


def _without_smallest(graph: FlameGraph, most_nodes: int) -> FlameGraph:
    """Drop nodes that hold nothing, and make one of the smallest below each where there are many.

    A node's largest share of any metric decides. It is never above its caller's, so that whoever
    stays has all its callers.
    """
    share = np.zeros(len(graph))
    for metric in graph.own:
        total = totals(graph, metric)
        np.maximum(share, total / max(int(total[_ROOT]), 1), out=share)
    share[_ROOT] = 2.0
    order = np.argsort(-share, kind="stable")  # a caller before its callees of the same share
    full = order[: np.count_nonzero(share)]
    if len(full) == len(graph) <= most_nodes:
        return graph
    # Each one that stays may need an OTHERS below it.
    kept = np.sort(full if len(full) <= most_nodes else full[: max(most_nodes // 2, 1)])
    return _gathered(graph, kept, len(full) - len(kept))


def _gathered(graph: FlameGraph, kept: Int64, merged: int) -> FlameGraph:
    """Keep some nodes, and what the others hold in an OTHERS below the nearest that stays."""
    place = np.full(len(graph), -1, np.int64)
    place[kept] = np.arange(len(kept))
    near = np.where(place >= 0, np.arange(len(graph)), graph.parent)
    while (place[near] < 0).any():
        near = near[near]
    holds = np.zeros(len(graph), np.bool_)
    for column in graph.own.values():
        holds |= column != 0
    gone = np.flatnonzero((place < 0) & holds)
    above, which = np.unique(place[near[gone]], return_inverse=True)
    target = place.copy()
    target[gone] = len(kept) + which
    target[target < 0] = _ROOT  # of those that hold nothing
    others = len(graph.texts)
    size = len(kept) + len(above)
    return FlameGraph(
        parent=np.concatenate([place[graph.parent[kept]], above]),
        text=np.concatenate([graph.text[kept], np.full(len(above), others)]),
        texts=[*graph.texts, OTHERS],
        kind=np.concatenate([graph.kind[kept], np.zeros(len(above), np.uint8)]),
        own={metric: _summed(target, column, size) for metric, column in graph.own.items()},
        merged=merged,
    )
