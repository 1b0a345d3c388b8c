"""What the lines of the user's own files cost: time, device time and memory.

An operator belongs to the innermost line of the user's on its Python stack: the time that torch
spends for ``h = self.a(x)`` is that line's, and not that of a line of torch's own. A function of
the backward pass belongs to the line of its forward operator. Where Python calls were recorded, a
function's own time stands at the line where the function begins, and a module's at no line. Threads
that only wait are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepscope.analysis.base.sums import distinct_pairs, summed
from stepscope.analysis.base.tree import call_tree, distinct_ids
from stepscope.analysis.calls.launches import captured_nodes, launches
from stepscope.analysis.calls.waiting import Doing, doing_of_slices, waiting_tracks
from stepscope.analysis.code.own_lines import (
    NO_LINE,
    IsOwn,
    Place,
    innermost_lines,
    is_own_file,
    known_lines,
    own_lines,
    place_of,
    totals_by_line,
)
from stepscope.analysis.code.stacks import KnownStacks, stack_of_slices
from stepscope.analysis.memory.usage import CPU, with_memory
from stepscope.trace.model import (
    NO_PARENT,
    NO_SLICE,
    Bool,
    Int64,
    SliceFlags,
    SliceKind,
    Trace,
    UInt32,
)

# The line of a module's own code where the trace only has the first lines of functions.
SOMEWHERE = 0


@dataclass(frozen=True, slots=True)
class LineOperators:
    """What ran on each line: one row per line and name, ordered by line, the longest first."""

    line: Int64  # row of SourceLines
    name: UInt32  # string id
    self_ns: Int64
    device_ns: Int64
    allocated_bytes: Int64
    calls: Int64


@dataclass(frozen=True, slots=True)
class SourceLines:
    """One row per line of the user's that did something, ordered by file and line."""

    place: tuple[Place, ...]
    self_ns: Int64  # of the operators and functions whose innermost line of the user's it is
    total_ns: Int64  # of samples with the line anywhere on their stack
    self_by: Mapping[Doing, Int64]  # the self time by what the thread was doing; adds up to it
    device_ns: Int64  # of the work that they launched
    total_device_ns: Int64
    cpu_bytes: Int64  # allocated, without subtracting what was freed
    device_bytes: Int64
    total_bytes: Int64  # on every device, with the line anywhere on the stack
    calls: Int64  # operators that the line called, or calls of the function that begins there
    operators: LineOperators
    of_slice: Int64  # for each slice its row in this table, NO_LINE if none
    elsewhere_ns: int  # the host's time of which no line is known

    def __len__(self) -> int:
        return len(self.place)


def source_lines(trace: Trace, is_own: IsOwn = is_own_file) -> SourceLines | None:
    """Return what the user's lines cost; None where the trace has no such line."""
    stacks = _with_own_calls(trace, stack_of_slices(trace))
    if stacks is None:
        return None
    read = _reader(trace)
    places, line_of_stack = own_lines(stacks.table, trace.strings, is_own, read)
    if not places:
        return None
    costs = _costs(trace)
    nearest = innermost_lines(stacks.table, line_of_stack)
    of_slice = nearest[stacks.rows]

    def own(values: Int64) -> Int64:
        return summed(of_slice, values, len(places))

    def total(values: Int64) -> Int64:
        return totals_by_line(stacks, line_of_stack, len(places), values)

    doing = doing_of_slices(trace)
    total_ns = total(costs.self_ns)
    if (trace.slices.kind == SliceKind.PYTHON).any() and trace.slices.stack.any():
        called_ns = _totals_by_calls(trace, places, read, costs.self_ns)
        total_ns = np.maximum(total_ns, called_ns)
    return SourceLines(
        place=tuple(places),
        self_ns=own(costs.self_ns),
        total_ns=total_ns,
        self_by={what: own(np.where(doing == what, costs.self_ns, 0)) for what in Doing},
        device_ns=own(costs.device_ns),
        total_device_ns=total(costs.device_ns),
        cpu_bytes=own(costs.cpu_bytes),
        device_bytes=own(costs.device_bytes),
        total_bytes=total(costs.cpu_bytes + costs.device_bytes),
        calls=own(_is_call(trace, line_of_stack[stacks.rows] == of_slice)),
        operators=_operators(trace, of_slice, costs),
        of_slice=of_slice,
        elsewhere_ns=int(costs.self_ns[of_slice == NO_LINE].sum()),
    )


class _Costs(NamedTuple):
    self_ns: Int64  # 0 for what ran on a device
    device_ns: Int64  # of the work that it launched itself
    cpu_bytes: Int64
    device_bytes: Int64


def _costs(trace: Trace) -> _Costs:
    slices = trace.slices
    counts = ~slices.on_device & (slices.flags & SliceFlags.ASYNC == 0)
    counts &= ~waiting_tracks(trace)[slices.track]
    device_ns = np.zeros(len(slices), np.int64)
    tree = call_tree(trace)
    launched = launches(tree)
    host = captured_nodes(trace)  # with the stack of the capture
    if launched is not None:
        rows = np.arange(len(tree)) if tree.rows is None else tree.rows
        work = rows[launched.work]
        host = host.copy()
        host[work] = np.where(host[work] == NO_SLICE, rows[launched.host], host[work])
    work = np.flatnonzero(host != NO_SLICE)
    device_ns = summed(host[work], slices.duration_ns[work], len(slices))
    filled = with_memory(trace)
    memory = filled.memory
    asked = (memory.size > 0) & (memory.slice != NO_SLICE)
    is_cpu = np.isin(memory.device, list(filled.strings.ids_of([CPU]).values()))

    def allocated(wanted: Bool) -> Int64:
        return summed(memory.slice[wanted], memory.size[wanted], len(slices))

    return _Costs(
        self_ns=np.where(counts, slices.self_ns, 0),
        device_ns=device_ns,
        cpu_bytes=allocated(asked & is_cpu),
        device_bytes=allocated(asked & ~is_cpu),
    )


def _reader(trace: Trace) -> Callable[[str], Place | None]:
    """Return the reader of a frame; frames of module calls only have their first line."""
    calls = distinct_ids(trace.slices.name[trace.slices.kind == SliceKind.PYTHON]).tolist()
    modules = {text for text in map(trace.strings.__getitem__, calls) if text.endswith("<module>")}

    def read(frame: str) -> Place | None:
        place = place_of(frame)
        return place if place is None or frame not in modules else place._replace(line=SOMEWHERE)

    return read


def _with_own_calls(trace: Trace, stacks: KnownStacks | None) -> KnownStacks | None:
    """Put a Python call's own frame on its stack, since its own time is that of its lines."""
    calls = np.flatnonzero(trace.slices.kind == SliceKind.PYTHON)
    if stacks is None or not len(calls):
        return stacks
    (callers, names), which = distinct_pairs(stacks.rows[calls], trace.slices.name[calls])
    rows = stacks.rows.copy()
    rows[calls] = len(stacks.table) + which
    return KnownStacks(stacks.table.extended(callers, names), rows)


def _totals_by_calls(
    trace: Trace, places: list[Place], read: Callable[[str], Place | None], values: Int64
) -> Int64:
    """Sum by the stacks of calls: only those have the lines where functions begin."""
    stacks = _with_own_calls(trace, stack_of_slices(trace, by_calls=True))
    if stacks is None:
        return np.zeros(len(places), np.int64)
    line = known_lines(stacks.table, trace.strings, places, read)
    return totals_by_line(stacks, line, len(places), values)


def _is_call(trace: Trace, on_own_frame: Bool) -> Int64:
    """Return 1 for outermost operators and for calls of the user's functions."""
    slices = trace.slices
    kind = slices.kind
    inside = (slices.parent != NO_PARENT) & (
        kind.take(slices.parent, mode="clip") == SliceKind.OPERATOR
    )
    called = (kind == SliceKind.OPERATOR) & ~inside
    begun = (kind == SliceKind.PYTHON) & on_own_frame
    return np.asarray(called | begun, np.int64)


def _operators(trace: Trace, of_slice: Int64, costs: _Costs) -> LineOperators:
    on_device = trace.slices.on_device
    rows = np.flatnonzero((of_slice != NO_LINE) & ~on_device)
    (line, name), which = distinct_pairs(of_slice[rows], trace.slices.name[rows])

    def by_name(values: Int64) -> Int64:
        return summed(which, values[rows], len(line))

    self_ns = by_name(costs.self_ns)
    order = np.lexsort((-self_ns, line))
    return LineOperators(
        line=line[order],
        name=name[order],
        self_ns=self_ns[order],
        device_ns=by_name(costs.device_ns)[order],
        allocated_bytes=by_name(costs.cpu_bytes + costs.device_bytes)[order],
        calls=np.bincount(which, minlength=len(line))[order],
    )
