"""Which host event launched which device slice, and the device time under every host event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import around, summed, with_children
from stepscope.analysis.base.tree import CallTree
from stepscope.trace.keys import CAPTURED_NODE, EXTERNAL_ID
from stepscope.trace.kinds import CALL_KINDS, WORK_KINDS
from stepscope.trace.model import NO_CORRELATION, NO_PARENT, Int64, SliceKind, Trace, UInt8

_EXTERNAL_ID_KEYS = (EXTERNAL_ID, "external id")  # the second: device work of early Kinetos
_NO_LAUNCH = -1


@dataclass(frozen=True, slots=True)
class Launches:
    """Device work as host events see it; all indices are events of one CallTree."""

    work: Int64  # kernels, copies and fills whose launching event is known, ascending
    host: Int64  # the operator or range that launched work[i]
    device_ns: Int64  # one value per event: its own time on the device, or what ran under it
    self_device_ns: Int64  # the same, less what its children launched

    def work_of(self, event: int) -> Int64:
        """Return the device events that a host event launched itself."""
        own: Int64 = self.work[self.host == event]
        return own


@shared
def launches(tree: CallTree) -> Launches | None:
    """Tie device work to the innermost event around its launch; None without device work."""
    if tree.is_device is None:
        return None
    slices = tree.trace.slices
    kind = tree.of(slices.kind)
    work = np.flatnonzero(np.isin(kind, WORK_KINDS))
    host = _launching_event(tree, kind, work)
    work, host = work[host != _NO_LAUNCH], host[host != _NO_LAUNCH]
    on_device_ns = np.where(tree.is_device, tree.of(slices.duration_ns), 0)
    self_device_ns = on_device_ns + summed(host, on_device_ns[work], len(tree))
    return Launches(work, host, with_children(tree.parent, self_device_ns), self_device_ns)


def along_calls(tree: CallTree, own: Int64) -> tuple[Int64, Int64]:
    """Return what each event and its launches have, with that of the calls inside and without."""
    launched = launches(tree)
    if launched is not None:
        own = own + summed(launched.host, own[launched.work], len(tree))
    return with_children(tree.parent, own), own


@shared
def launched_work(trace: Trace) -> tuple[Int64, Int64]:
    """Return the rows of device work with a known launch, and of their launching calls."""
    work = np.flatnonzero(np.isin(trace.slices.kind, WORK_KINDS))
    call = launching_calls(trace, work)
    is_known = call != _NO_LAUNCH
    return work[is_known], call[is_known]


def device_name(trace: Trace) -> str | None:
    """Return torch's word for the trace's device type, None without devices."""
    slices = trace.slices
    on_device = np.flatnonzero(slices.on_device)
    if not len(on_device):
        return None
    calls = np.flatnonzero(slices.kind == SliceKind.RUNTIME)
    rows = (*on_device[:1], *calls[:1])
    words = {trace.strings[int(slices.category[row])].partition("_")[0] for row in rows}
    return next((word for word in ("mtia", "xpu", "privateuse1") if word in words), "cuda")


def launching_calls(trace: Trace, work: Int64) -> Int64:
    """Return the runtime call that launched each piece of device work, NO_SLICE if unknown.

    They share a correlation. All that a replayed CUDA graph runs shares that of the one launch.
    """
    kind, correlation = trace.slices.kind, trace.slices.correlation
    calls = np.flatnonzero((kind == SliceKind.RUNTIME) & (correlation != NO_CORRELATION))
    return _matched(correlation[work], correlation[calls], calls)


@shared
def captured_nodes(trace: Trace) -> Int64:
    """Return for every slice that a CUDA graph ran the event that captured it.

    It is NO_SLICE for all others, and where the capture was not seen.
    """
    slices = trace.slices
    node = np.full(len(slices), _NO_LAUNCH, np.int64)
    numbers = slices.args.integers.get(CAPTURED_NODE)
    if numbers is None:
        return node
    rows = numbers.rows.astype(np.int64)
    is_work = np.isin(slices.kind[rows], WORK_KINDS)
    nodes, of_nodes = rows[~is_work], numbers.values[~is_work]
    node[rows[is_work]] = _matched(numbers.values[is_work], of_nodes, nodes)
    return node


def origin_calls(trace: Trace, work: Int64) -> Int64:
    """Return the call that launched each piece of device work, or captured it in a graph."""
    node = captured_nodes(trace)[work]
    return np.where(node == _NO_LAUNCH, launching_calls(trace, work), node)


def _launching_event(tree: CallTree, kind: UInt8, work: Int64) -> Int64:
    """Return the host event that launched each piece of work, _NO_LAUNCH if unknown."""
    correlation = tree.of(tree.trace.slices.correlation)
    calls = np.flatnonzero((kind == SliceKind.RUNTIME) & (correlation != NO_CORRELATION))
    call = _matched(correlation[work], correlation[calls], calls)
    host = np.where(call == _NO_LAUNCH, _NO_LAUNCH, _enclosing_op(tree, kind, call))
    if (host == _NO_LAUNCH).any():
        numbered = _numbered_operators(tree.of(_external_ids(tree.trace)), correlation, kind, work)
        host = np.where(host == _NO_LAUNCH, numbered, host)
    return host


def capturing_operators(tree: CallTree) -> tuple[Int64, Int64]:
    """Return the slices that CUDA graphs ran, and the operators that captured them.

    It is the innermost operator or range around the capture, else the event of the capture itself.
    """
    nodes = captured_nodes(tree.trace)
    work = np.flatnonzero(nodes != _NO_LAUNCH)
    slice_of = np.arange(len(tree)) if tree.rows is None else tree.rows
    event_of = np.full(len(nodes), _NO_LAUNCH, np.int64)
    event_of[slice_of] = np.arange(len(tree))
    work = work[event_of[nodes[work]] != _NO_LAUNCH]
    host = _enclosing_op(tree, tree.of(tree.trace.slices.kind), event_of[nodes[work]])
    return work, np.where(host == NO_PARENT, nodes[work], slice_of[host])


def launching_operators(trace: Trace, work: Int64) -> Int64:
    """Return the operator whose number each piece of device work carries, NO_SLICE without.

    It is torch's way where a call was not recorded.
    """
    slices = trace.slices
    return _numbered_operators(_external_ids(trace), slices.correlation, slices.kind, work)


def _numbered_operators(external: Int64, correlation: Int64, kind: UInt8, work: Int64) -> Int64:
    ops = np.flatnonzero(np.isin(kind, CALL_KINDS) & (external > 0))
    # Some Kinetos wrote the correlation again, which is no operator's number.
    wanted = np.where(external[work] == correlation[work], _NO_LAUNCH, external[work])
    return _matched(wanted, external[ops], ops)


def _external_ids(trace: Trace) -> Int64:
    """Return the number by which device work names its operator, 0 if none."""
    external = np.zeros(len(trace.slices), np.int64)
    for key in _EXTERNAL_ID_KEYS:
        if key in trace.slices.args.integers:
            column = trace.slices.args.integers[key]
            external[column.rows] = column.values
    return external


def _enclosing_op(tree: CallTree, kind: UInt8, call: Int64) -> Int64:
    """Return the innermost operator or range around each runtime call, else what is around it.

    The call is part of the launch, and so are the Python frames of whoever wrote the operator.
    """
    op = around(tree.parent, call, np.isin(kind, CALL_KINDS))
    return np.where(op == NO_PARENT, tree.parent[call], op)


def _matched(wanted: Int64, keys: Int64, values: Int64) -> Int64:
    """Return the index of each wanted key; _NO_LAUNCH if it is not among the keys."""
    if not len(keys):
        return np.full(len(wanted), _NO_LAUNCH, np.int64)
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    candidate = order[at]
    return np.where(keys[candidate] == wanted, values[candidate], _NO_LAUNCH)
