"""The module call that every slice belongs to, in the forward and the backward pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.host.backward import forward_operators
from stepscope.analysis.shared import shared
from stepscope.analysis.sums import nearest
from stepscope.analysis.tree import distinct_ids
from stepscope.trace.model import NO_SLICE, Bool, Int64, SliceFlags, SliceKind, Trace
from stepscope.trace.names import MODULE_PREFIX

"""How torch.profiler's Python frames of module calls begin (``nn.Module: Linear_0``)."""


@dataclass(frozen=True, slots=True)
class ModuleCalls:
    """The slices that are module calls, and what belongs to them."""

    trace: Trace
    rows: Int64  # the slices that are module calls, ascending
    parent: Int64  # the call around each, an index of ``rows``; -1 for the call of a whole model
    owner: Int64  # a value for each slice: the call it belongs to, an index of ``rows``, or -1
    is_backward: Bool  # a value for each slice: whether it ran in the backward pass
    are_frames: bool  # they are Python frames of a foreign trace, which know no qualified names

    def __len__(self) -> int:
        return len(self.rows)


def module_of_slices(trace: Trace) -> Int64:
    """Return for every slice the row of the module call it belongs to, NO_SLICE without.

    A module call belongs to itself; everything else to the nearest call around it. A function of
    the backward pass, and what runs in it, belongs to the call of the operator that it is the
    backward of.
    """
    calls = module_calls(trace)
    return np.append(calls.rows, NO_SLICE)[calls.owner]


@shared
def module_calls(trace: Trace) -> ModuleCalls:
    """Find the module calls of a trace and the slices that belong to each."""
    slices = trace.slices
    rows = np.flatnonzero(slices.kind == SliceKind.MODULE)
    are_frames = not len(rows)
    if are_frames:
        rows = _module_frames(trace)
    tied_to = forward_rows(trace)
    is_tied = tied_to != NO_SLICE
    around = np.where(is_tied, tied_to.astype(np.int32), slices.parent)
    index = np.full(len(slices) + 1, -1, np.int64)
    index[rows] = np.arange(len(rows))
    owner = index[nearest(around, index[:-1] >= 0)]
    above = around[rows]
    backward = is_tied | (slices.flags & SliceFlags.BACKWARD != 0)
    is_backward = nearest(slices.parent, backward) != NO_SLICE
    parent = np.append(owner, -1)[above]
    return ModuleCalls(trace, rows, parent, owner, is_backward, are_frames)


def forward_rows(trace: Trace) -> Int64:
    """Return for every slice of the backward pass the row of its forward operator, or NO_SLICE."""
    slices = trace.slices
    has_forward = slices.forward_thread > 0  # torch's thread ids start at 1
    outside = ~(has_forward | (slices.flags & SliceFlags.BACKWARD != 0))
    backward = np.flatnonzero(has_forward)
    found = np.full(len(slices), NO_SLICE, np.int64)
    found[backward] = forward_operators(trace, backward, outside)
    return found


def _module_frames(trace: Trace) -> Int64:
    python = np.flatnonzero(trace.slices.kind == SliceKind.PYTHON)
    names = distinct_ids(trace.slices.name[python])
    wanted = [i for i in names if trace.strings[int(i)].startswith(MODULE_PREFIX)]
    return python[np.isin(trace.slices.name[python], wanted)]
