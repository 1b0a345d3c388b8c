"""A Trace as Paddle's result tree sees it: host events, the calls under them, what those launched.

Paddle keeps a tree of host events for each thread. Calls of the device's runtime hang beside it,
and work on the device hangs under the call that launched it. Here all of that is columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.device.launches import launched_work
from stepscope.analysis.host.event_types import event_types
from stepscope.analysis.tree import ids_where, levels
from stepscope.trace.event_types import TracerEventType
from stepscope.trace.model import DEVICE_KINDS, NO_PARENT, SliceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.trace.model import Int32, Int64, Trace, UInt8

    Bool = NDArray[np.bool_]

NO_ROW = -1

_WORK_KINDS = (SliceKind.KERNEL, SliceKind.MEMCPY, SliceKind.MEMSET)
_LAUNCHERS = (SliceKind.OPERATOR, SliceKind.RANGE, SliceKind.STEP)
_EXTERNAL_ID = "External id"
_SPAN_CATEGORY = "Trace"  # Kineto's word for a slice that stands for a whole recording


@dataclass(frozen=True, slots=True)
class Tree:
    """The host events of all threads; all columns but ``rows`` have one value a slice."""

    rows: Int64
    parent: Int32  # the host event around a host event or a call, NO_PARENT without
    visit: Int64  # place in the order in which Paddle walks, NO_ROW for what is no host event
    by_depth: tuple[Int64, ...]  # the rows again, the outermost first

    def inside(self, marked: Bool) -> Bool:
        """Tell which host events have a marked one above them, at any distance."""
        inside = np.zeros(len(marked), np.bool_)
        for rows in self.by_depth[1:]:
            nested = rows[self.parent[rows] != NO_PARENT]
            above = self.parent[nested]
            inside[nested] = inside[above] | marked[above]
        return inside

    def summed_up(self, own: Int64) -> Int64:
        """Return what every host event has of its own together with all below it."""
        total = own.copy()
        if own.any():
            for rows in self.by_depth[:0:-1]:
                below = rows[self.parent[rows] != NO_PARENT]
                np.add.at(total, self.parent[below], total[below])
        return total


@dataclass(frozen=True, slots=True)
class Work:
    """Kernels, copies and fills, one value each."""

    rows: Int64
    host: Int64  # the host event that launched it, NO_ROW where the trace does not tell
    seen: Int64  # place in the order in which Paddle meets them
    device: Int64  # the number of the device

    def take(self, which: Int64 | Bool) -> Work:
        """Return some of them."""
        return Work(self.rows[which], self.host[which], self.seen[which], self.device[which])


@dataclass(frozen=True, slots=True)
class Forest:
    """Host events, runtime calls and device work of a trace."""

    trace: Trace
    types: UInt8  # TracerEventType of every slice
    tree: Tree
    hosts_by_type: Mapping[int, Int64]  # the host events of each type that there is
    call_rows: Int64  # calls of the device's runtime
    work: Work
    # Of every slice: device time launched in it, children included; without copies and fills, with
    # them, and with them but without what the children launched.
    kernel_ns: Int64
    device_ns: Int64
    self_device_ns: Int64

    def of_type(self, *wanted: TracerEventType) -> Int64:
        """Return the host events of some types."""
        found = [self.hosts_by_type[one] for one in wanted if one in self.hosts_by_type]
        if len(found) == 1:
            return found[0]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def kernels(self) -> Work:
        """Return the work that is no copy and no fill."""
        return self.work.take(self.types[self.work.rows] == TracerEventType.Kernel)


def forest_of(trace: Trace) -> Forest:
    """Tell hosts, calls and device work apart, and tie them together."""
    slices = trace.slices
    is_call = slices.kind == SliceKind.RUNTIME
    tree = _tree(trace, ~(is_call | _is_on_device(trace) | _is_span(trace)))
    call_rows = np.flatnonzero(is_call)
    work = _work(trace, tree)
    types = event_types(trace)
    own_kernel_ns, own_ns = np.zeros((2, len(slices)), np.int64)
    tied = np.flatnonzero(work.host != NO_ROW)
    duration_ns = slices.duration_ns[work.rows[tied]]
    is_kernel = types[work.rows[tied]] == TracerEventType.Kernel
    np.add.at(own_ns, work.host[tied], duration_ns)
    np.add.at(own_kernel_ns, work.host[tied], np.where(is_kernel, duration_ns, 0))
    return Forest(
        trace=trace,
        types=types,
        tree=tree,
        hosts_by_type=rows_by_value(types, tree.rows),
        call_rows=call_rows,
        work=work,
        kernel_ns=tree.summed_up(own_kernel_ns),
        device_ns=tree.summed_up(own_ns),
        self_device_ns=own_ns,
    )


def rows_by_value(column: UInt8, rows: Int64) -> dict[int, Int64]:
    """Split some rows by what a column has there; they stay in order."""
    values = column[rows]
    order = rows[np.argsort(values, kind="stable")]
    counts = np.bincount(values)
    present = np.flatnonzero(counts)
    parts = np.split(order, np.cumsum(counts[present])[:-1]) if len(present) else []
    return dict(zip(present.tolist(), parts, strict=True))


def track_order(trace: Trace) -> Int64:
    """Return the place of every track: Paddle lists threads by their numbers."""

    def key(row: int) -> tuple[int, int, int]:
        track = trace.tracks[row]
        return _number(track.tid), _number(track.pid), row

    place = np.zeros(len(trace.tracks), np.int64)
    place[sorted(range(len(trace.tracks)), key=key)] = np.arange(len(trace.tracks))
    return place


def _number(text: str) -> int:
    """Return the number that a text begins with, 0 without one."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits) if digits else 0


def _is_on_device(trace: Trace) -> Bool:
    table = np.zeros(256, np.bool_)
    table[list(DEVICE_KINDS)] = True
    on_device: Bool = table[trace.slices.kind]
    return on_device


def _is_span(trace: Trace) -> Bool:
    category = trace.slices.category
    spans = ids_where(category, trace.strings, _SPAN_CATEGORY.__eq__)
    return np.isin(category, spans) if len(spans) else np.zeros(len(category), np.bool_)


def _tree(trace: Trace, is_host: Bool) -> Tree:
    slices = trace.slices
    parent = slices.parent.copy()
    lost = np.flatnonzero(parent != NO_PARENT)
    while len(lost := lost[~is_host[parent[lost]]]):
        parent[lost] = parent[parent[lost]]
        lost = lost[parent[lost] != NO_PARENT]
    rows = np.flatnonzero(is_host)
    by_depth = tuple(rows[level] for level in levels(slices.depth[rows]))
    return Tree(rows, parent, _visits(trace, rows, parent, by_depth), by_depth)


def _visits(trace: Trace, rows: Int64, parent: Int32, by_depth: tuple[Int64, ...]) -> Int64:
    """Number host events as Paddle walks: thread by thread, a parent first, its last child next.

    That is the reverse of a post-order, whose numbers follow from those of the pre-order, the count
    of descendants and the depth. Rows of one track already stand in pre-order.
    """
    depth, below = np.zeros((2, len(parent)), np.int64)
    for level in by_depth[1:]:
        nested = level[parent[level] != NO_PARENT]
        depth[nested] = depth[parent[nested]] + 1
    for level in by_depth[:0:-1]:
        nested = level[parent[level] != NO_PARENT]
        np.add.at(below, parent[nested], below[nested] + 1)
    place = track_order(trace)[trace.slices.track[rows]].astype(np.uint32)
    by_thread = rows[np.argsort(place, kind="stable")]
    counts = np.bincount(place)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    last = np.repeat(np.cumsum(counts), counts) - 1
    visit = np.full(len(parent), NO_ROW, np.int64)
    pre_order = np.arange(len(rows))
    visit[by_thread] = last + first - pre_order - below[by_thread] + depth[by_thread]
    return visit


def _work(trace: Trace, tree: Tree) -> Work:
    rows = np.flatnonzero(np.isin(trace.slices.kind, _WORK_KINDS))
    tied, calls = launched_work(trace)
    call = np.full(len(rows), NO_ROW, np.int64)
    call[np.searchsorted(rows, tied)] = calls
    host = _value_at(tree.parent, call)
    if (host == NO_ROW).any():
        host = np.where(host == NO_ROW, _by_external_id(trace, rows), host)
    order = np.lexsort((rows, call, _value_at(tree.visit, host)))
    seen = np.empty(len(rows), np.int64)
    seen[order] = np.arange(len(rows))
    return Work(rows, host, seen, _devices(trace, rows))


def _by_external_id(trace: Trace, rows: Int64) -> Int64:
    """Return the operator whose id the work bears: torch's way where a call was not recorded."""
    args = trace.slices.args
    if _EXTERNAL_ID not in args.integers:
        return np.full(len(rows), NO_ROW, np.int64)
    external = args.dense(_EXTERNAL_ID, len(trace.slices), 0)
    ops = np.flatnonzero(np.isin(trace.slices.kind, _LAUNCHERS) & (external > 0))
    return _looked_up(external[rows], external[ops], ops)


def _looked_up(wanted: Int64, keys: Int64, values: Int64) -> Int64:
    """Return the first value under each wanted key, NO_ROW where there is none."""
    if not len(keys):
        return np.full(len(wanted), NO_ROW, np.int64)
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    found = order[at]
    return np.where(keys[found] == wanted, values[found], NO_ROW)


def _value_at(column: Int32 | Int64, rows: Int64) -> Int64:
    """Return a column's values at some rows; NO_ROW at NO_ROW."""
    if not len(column):
        return np.full(len(rows), NO_ROW, np.int64)
    return np.where(rows == NO_ROW, NO_ROW, column[rows]).astype(np.int64)


def _devices(trace: Trace, rows: Int64) -> Int64:
    """Return the number of the device of each piece of work: told, else that of its process."""
    of_track = np.array([_number(track.pid) for track in trace.tracks], np.int64)
    told = trace.slices.args.integers.get("device")
    device = of_track[trace.slices.track[rows]] if len(rows) else np.zeros(0, np.int64)
    if told is None:
        return device
    dense = trace.slices.args.dense("device", len(trace.slices), NO_ROW)[rows]
    return np.where(dense == NO_ROW, device, dense)
