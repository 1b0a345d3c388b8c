"""The bytes of every event, and events for the bytes that belong to none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stepscope.analysis.base.sums import summed, with_children
from stepscope.analysis.base.tree import CallTree, EventMemory
from stepscope.analysis.memory.usage import memory_of_slices
from stepscope.trace.model import (
    NO_PARENT,
    Int32,
    Int64,
    Memory,
    Slices,
    Trace,
)
from stepscope.trace.strings import Strings

MEMORY_NAME = "[memory]"
_MEMORY_CATEGORY = "cpu_instant_event"
_BYTES_OF_INSTANT = "Bytes"  # the argument in which torch's JSON tells the size


def with_memory(tree: CallTree) -> CallTree:
    """Return the tree with the memory of each event, if memory was recorded.

    As in torch.profiler's results, what was allocated or freed outside every event becomes an
    event of its own, ``[memory]``, without a duration.
    """
    trace = tree.trace
    if not len(trace.memory) and _BYTES_OF_INSTANT not in trace.marks.args.integers:
        return tree
    of_slices = memory_of_slices(trace, without=())
    if not len(of_slices.events):
        return tree
    holder = tree.events_around(of_slices.events.slice)
    cpu_bytes = np.where(of_slices.on_cpu, of_slices.events.size, 0)
    device_bytes = of_slices.events.size - cpu_bytes
    without_event = np.flatnonzero(holder == NO_PARENT)
    if len(without_event):
        tree, holder = _with_events(tree, holder, without_event, of_slices.events)
    own_cpu, own_device = (summed(holder, size, len(tree)) for size in (cpu_bytes, device_bytes))
    memory = EventMemory(
        cpu=with_children(tree.parent, own_cpu),
        self_cpu=own_cpu,
        device=with_children(tree.parent, own_device),
        self_device=own_device,
    )
    return replace(tree, memory=memory)


def _with_events(
    tree: CallTree, holder: Int32, without_event: Int64, memory: Memory
) -> tuple[CallTree, Int32]:
    """Insert an event for each of the ``without_event`` rows, and let them hold their bytes."""
    old, added = len(tree), len(without_event)
    at = np.searchsorted(tree.start_ns, memory.time_ns[without_event], side="right")
    moved = np.arange(old, dtype=np.int32)
    moved += np.searchsorted(at, moved, side="right").astype(np.int32)

    def renumbered(events: Int32) -> Int32:
        return np.where(events == NO_PARENT, NO_PARENT, moved.take(events, mode="clip"))

    rows = np.arange(old, dtype=np.uint32) if tree.rows is None else tree.rows
    first_row = len(tree.trace.slices)
    extended = CallTree(
        trace=_with_slices(tree.trace, memory, without_event),
        rows=np.insert(rows, at, np.arange(first_row, first_row + added, dtype=np.uint32)),
        parent=np.insert(renumbered(tree.parent), at, NO_PARENT),
        start_ns=np.insert(tree.start_ns, at, memory.time_ns[without_event]),
        self_ns=np.insert(tree.self_ns, at, 0),
        is_device=None if tree.is_device is None else np.insert(tree.is_device, at, False),
    )
    holder = renumbered(holder) if old else holder.copy()
    holder[without_event] = at + np.arange(added)
    return extended, holder


def _with_slices(trace: Trace, memory: Memory, without_event: Int64) -> Trace:
    """Append slices for those events behind all others, so that rows stay valid."""
    strings, (category, name) = _with_texts(trace.strings, _MEMORY_CATEGORY, MEMORY_NAME)
    added = Slices.of(
        name=np.full(len(without_event), name, np.uint32),
        category=np.full(len(without_event), category, np.uint32),
        start_ns=memory.time_ns[without_event],
        track=memory.track[without_event],
    )
    return replace(trace, slices=Slices.concat([trace.slices, added]), strings=strings)


def _with_texts(strings: Strings, *texts: str) -> tuple[Strings, list[int]]:
    added = Strings.of(["", *texts])
    end = int(strings.offsets[-1])
    offsets = np.concatenate((strings.offsets, end + added.offsets[2:]))
    ids = [len(strings) + i for i in range(len(texts))]
    return Strings(strings.blob[:end] + added.blob, offsets), ids
