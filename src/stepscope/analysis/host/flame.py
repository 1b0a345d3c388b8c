"""Flame graphs: calls merged by their call path.

A path is what encloses a call, or the Python stack in which it started with the operators around it
that started in the same one. Device work is below the call that launched it. The self values of
all nodes add up to the whole trace; nothing is left out, however small.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from stepscope import _native
from stepscope.analysis.base.intervals import Intervals
from stepscope.analysis.base.tree import CallTree, distinct_ids
from stepscope.analysis.calls.launches import launches
from stepscope.analysis.calls.waiting import waiting_texts
from stepscope.analysis.code.stacks import KnownStacks
from stepscope.analysis.host.averages import Averages
from stepscope.analysis.host.counted import self_within
from stepscope.analysis.host.flame_merge import ROOT, Amounts, FlameGraph, Nodes, merged
from stepscope.analysis.memory.usage import memory_of_slices
from stepscope.analysis.work.kernel_names import kernel_name
from stepscope.trace.model import NO_PARENT, NO_STACK, Bool, Int32, Int64, SliceKind, UInt8

ALL = "all"
NO_LAUNCH = "(unknown launch)"
OUTSIDE = "(outside of all calls)"
MOST_NODES = 50_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def flame_graph(
    tree: CallTree,
    events: Averages,
    stacks: KnownStacks | None = None,
    *,
    steps: Intervals | None = None,
    most_nodes: int = MOST_NODES,
) -> FlameGraph:
    """Merge the calls of ``tree`` by their callers, or by their stacks if given.

    ``events`` has the tree's events one by one. The metrics are those that the trace knows, of
    cpu_ns, device_ns, cpu_bytes and device_bytes; the last two are all that was allocated. Of what
    lies in ``steps`` the cells tell how much that is.
    """
    nodes = _Nodes(tree, events, stacks)
    node = nodes.of_events()
    amounts = [*_times(tree, events, node, steps), *_allocated(tree, nodes, node, steps)]
    return merged(nodes.finished(), amounts, most_nodes)


def _times(
    tree: CallTree, events: Averages, node: Int64, steps: Intervals | None
) -> Iterator[Amounts]:
    """Yield each event's own amounts; device time counts for the work, not its launch."""
    slices = tree.trace.slices
    track = tree.of(slices.track).copy()
    waiting = waiting_texts(events.key.texts)[events.key.codes]
    in_steps = None if steps is None else self_within(tree, steps) * ~events.is_device
    yield Amounts("cpu_ns", node, track, waiting, events.self_cpu_ns, in_steps)
    if tree.is_device is None:
        return
    work = np.flatnonzero(events.is_device & ~events.is_annotation & (events.self_device_ns > 0))
    if not len(work):
        return
    launched = launches(tree)
    if launched is not None:  # a thread's kernels are those that it launched
        track[launched.work] = track[launched.host]
    start_ns = tree.start_ns[work]
    end_ns = start_ns + events.self_device_ns[work]
    yield Amounts(
        "device_ns",
        node[work],
        track[work],
        np.zeros(len(work), np.bool_),
        events.self_device_ns[work],
        None if steps is None else steps.covered(start_ns, end_ns),
    )


def _allocated(
    tree: CallTree, nodes: _Nodes, node: Int64, steps: Intervals | None
) -> Iterator[Amounts]:
    memory = memory_of_slices(tree.trace, without=())
    events = memory.events
    holder = tree.events_around(events.slice)
    at = np.where(holder == NO_PARENT, nodes.outside, node[holder] if len(node) else 0)
    for metric, wanted in (("cpu_bytes", memory.on_cpu), ("device_bytes", ~memory.on_cpu)):
        rows = np.flatnonzero(wanted & (events.size > 0))
        if not len(rows):
            continue
        size = events.size[rows]
        yield Amounts(
            metric,
            at[rows],
            events.track[rows].astype(np.int64),
            np.zeros(len(rows), np.bool_),
            size,
            None if steps is None else np.where(steps.contain(events.time_ns[rows]), size, 0),
        )


def without_address(text: str) -> str:
    """Return a frame without an object's address, which differs between objects of the same code.

    torch.profiler writes ``<built-in method add of Tensor object at 0x7f3c>``.
    """
    return _ADDRESS.sub("", text)


class _Nodes:
    """Nodes under construction; several may still stand for one path."""

    def __init__(self, tree: CallTree, events: Averages, stacks: KnownStacks | None) -> None:
        self._tree, self._stacks = tree, stacks
        self._names = events.key
        self._kind = tree.of(tree.trace.slices.kind)
        self.texts: list[str] = []
        self._code_of: dict[str, int] = {}
        on_device = np.zeros(len(events.key.texts), np.bool_)
        on_device[events.key.codes[events.is_device]] = True
        self._name_codes = np.array(
            [
                self._code(kernel_name(text) if is_work else text)
                for text, is_work in zip(events.key.texts, on_device.tolist(), strict=True)
            ],
            np.int64,
        )
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
        node = np.full(len(tree), ROOT, np.int64)
        below, base = self._places()
        events = np.flatnonzero(on_host)
        around = np.where(below, tree.parent, np.int32(NO_PARENT))
        node[events] = self._add(events, around, base, code)
        launched = launches(tree)
        if launched is not None:
            work = np.flatnonzero(~on_host)
            at = np.full(len(tree), self.no_launch, np.int64)
            at[launched.work] = node[launched.host]
            nowhere = np.full(len(tree), NO_PARENT, np.int32)
            node[work] = self._add(work, nowhere, at, code)
        return node

    def finished(self) -> Nodes:
        return Nodes(
            np.concatenate(self.parents),
            np.concatenate(self.codes),
            np.concatenate(self.kinds),
            self.texts,
        )

    def _places(self) -> tuple[Bool, Int64]:
        """Return a mask of the events below their caller's node, and the nodes of the others."""
        tree = self._tree
        inside: Bool = tree.parent != NO_PARENT
        if self._stacks is None:
            return inside, np.full(len(tree), ROOT, np.int64)
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
        codes[ROOT] = self._code(ALL)
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

    def _add(self, events: Int64, around: Int32, base: Int64, code: Int64) -> Int64:
        """Add a node for each distinct path, and return the node of every event.

        An event stands below that of the one around it, without one below its base.
        """
        node, parent, code, first = _native.paths(events, around, base, code, len(self))
        self._keep(parent, code, self._kind[first])
        return node[events]

    def _keep(self, parent: Int64, code: Int64, kind: UInt8) -> None:
        self.parents.append(parent)
        self.codes.append(code)
        self.kinds.append(kind)
        self._count += len(parent)
