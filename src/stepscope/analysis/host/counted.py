"""Calls as tables should add them up: a moment of a thread counts once for a name.

``key_averages()`` adds the durations of all calls of a name, as torch.profiler does; a function
that calls itself then takes longer than the program. Here a call inside a call of its own name adds
nothing to the total, and what lies outside of a window of time does not count at all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope import _native
from stepscope.analysis.distinct import distinct
from stepscope.analysis.host.averages import Averages
from stepscope.analysis.intervals import Intervals
from stepscope.analysis.shared import shared
from stepscope.analysis.tree import CallTree
from stepscope.trace.model import Bool, Int32, Int64

_INCLUSIVE = ("device_ns", "cpu_bytes", "device_bytes")  # sums over a call and all inside it


def counted_columns(
    each: Averages, tree: CallTree, within: Intervals | None = None
) -> Iterator[tuple[str, Int64]]:
    """Yield the columns of single events whose totals may be added: nested calls count once.

    Of a call inside another of its group, ``cpu_ns``, ``device_ns`` and the bytes are 0; where two
    overlap, as those of asyncio tasks do, the moments that both have are the first one's.
    ``within`` cuts all times of the host to what lies in these intervals. They come one at a time:
    of a big trace, each is large.
    """
    end_ns = _ends(tree)
    from_ns, outermost = uncovered(each, tree)
    total_ns = end_ns - from_ns if within is None else within.covered(from_ns, end_ns)
    total_ns[each.is_device] = 0
    yield "cpu_ns", total_ns
    del total_ns
    if within is not None:
        yield "self_cpu_ns", np.where(each.is_device, 0, self_within(tree, within))
    for name in _INCLUSIVE:
        column = getattr(each, name)
        if column is not None:
            yield name, np.where(outermost | each.is_device, column, 0)


@shared
def self_within(tree: CallTree, within: Intervals) -> Int64:
    """Return how much of each event's own time lies in some intervals."""
    return own_within(tree.start_ns, _ends(tree), tree.parent, tree.self_ns, within)


def own_within(
    start_ns: Int64, end_ns: Int64, parent: Int32, own_ns: Int64, within: Intervals
) -> Int64:
    """Return how much of the own time of nested calls lies in some intervals."""
    covered_ns = within.covered(start_ns, end_ns)
    rest_ns = covered_ns - _native.summed_at(parent, covered_ns, len(parent))
    # What ends on another thread has no own time; children that overlap leave none, either.
    own: Int64 = np.clip(rest_ns, 0, np.maximum(own_ns, 0))
    return own


def _key(each: Averages, tree: CallTree) -> Int64:
    key = tree.of(tree.trace.slices.track).astype(np.int64)  # and then in place: it may be large
    key *= 4
    key += each.is_annotation
    key += each.is_device.astype(np.uint8) * np.uint8(2)
    key *= max(len(each.key.texts), 1)
    key += each.key.codes
    for extra in (each.input_shapes, each.overload_name, each.stack):
        if extra is not None:
            key = np.unique(key, return_inverse=True)[1] * len(extra.texts) + extra.codes
    return key


@shared
def _ends(tree: CallTree) -> Int64:
    return tree.start_ns + tree.of(tree.trace.slices.duration_ns)


@shared
def uncovered(each: Averages, tree: CallTree) -> tuple[Int64, Bool]:
    """Return where each call's part that no earlier one of its key covers begins, and who has one.

    Calls stand in the order of their starts, the longer first: the inner ones come later.
    """
    keys, key = distinct(_key(each, tree))
    from_ns, outermost = _native.uncovered(key, len(keys), tree.start_ns, _ends(tree))
    return from_ns, outermost.view(np.bool_)
