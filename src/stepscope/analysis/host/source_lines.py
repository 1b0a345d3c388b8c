"""What the lines of the user's own files cost: time, device time and memory.

An operator belongs to the innermost line of the user's on its Python stack: the time that torch
spends for ``h = self.a(x)`` is that line's, and not that of a line of torch's own. A function of
the backward pass belongs to the line of its forward operator. Where Python calls were recorded, a
function's own time stands at the line where the function begins.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscope.analysis.device.launches import launches
from stepscope.analysis.distinct import distinct_pairs
from stepscope.analysis.host.stacks import KnownStacks, stack_of_slices
from stepscope.analysis.memory.usage import CPU, with_memory
from stepscope.analysis.tree import call_tree
from stepscope.trace.model import DEVICE_KINDS, NO_PARENT, NO_SLICE, SliceFlags, SliceKind, Stacks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepscope.trace.model import Int64, Trace, UInt32
    from stepscope.trace.strings import Strings

    IsOwn = Callable[[str], bool]

NO_LINE = -1

_PLACE = re.compile(r"(.+)\((\d+)\): (.*)", re.DOTALL)  # ``model.py(12): Model.forward``
_LIBRARY_PARTS = ("site-packages/", "dist-packages/", "lib/python3")
_LIBRARIES = frozenset(
    {
        "accelerate",
        "autograd",
        "deepspeed",
        "einops",
        "flax",
        "functorch",
        "jax",
        "jaxlib",
        "lightning",
        "numpy",
        "paddle",
        "pytorch_lightning",
        "scipy",
        "stepscope",
        "tensorflow",
        "torch",
        "torchaudio",
        "torchgen",
        "torchvision",
        "tqdm",
        "triton",
    }
)
"""Common libraries; every other file counts as the user's."""


class Place(NamedTuple):
    """Where a frame is."""

    file: str
    line: int
    function: str


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
    total_ns: Int64  # of those that have the line anywhere on their stack
    device_ns: Int64  # of the work that they launched
    total_device_ns: Int64
    cpu_bytes: Int64  # allocated; what was given back is not taken off
    device_bytes: Int64
    total_bytes: Int64  # on every device, with the line anywhere on the stack
    calls: Int64  # operators that the line called, or calls of the function that begins there
    operators: LineOperators
    of_slice: Int64  # a value for each slice: the row here, NO_LINE without
    elsewhere_ns: int  # the host's time of which no line is known

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.place)


def place_of(frame: str) -> Place | None:
    """Return where a frame is, None for one that is in no file (``<built-in function len>``)."""
    found = _PLACE.fullmatch(frame)
    if not found or found[1].startswith("nn.Module: "):
        return None
    return Place(found[1], int(found[2]), found[3])


def is_own_file(path: str) -> bool:
    """Tell by its name whether a file is the user's, not Python's, torch's or a library's.

    Recorders leave out the folder that a module was imported from, so a library's file begins
    with the library's name.
    """
    path = path.replace("\\", "/")
    if path.startswith("<"):
        return path.startswith("<ipython-input")
    if any(part in path for part in _LIBRARY_PARTS):
        return False
    first = path.partition("/")[0].removesuffix(".py")
    return first not in _LIBRARIES and first not in sys.stdlib_module_names


def source_lines(trace: Trace, is_own: IsOwn = is_own_file) -> SourceLines | None:
    """Return what the user's lines cost; None where the trace has no such line."""
    known = _with_own_calls(trace, stack_of_slices(trace))
    if known is None:
        return None
    places, line_of_stack = _lines(known.table, trace.strings, is_own)
    if not places:
        return None
    costs = _costs(trace)
    nearest = _innermost(known.table, line_of_stack)
    of_slice = nearest[known.rows]

    def own(values: Int64) -> Int64:
        return _summed(len(places), of_slice, values)

    def total(values: Int64) -> Int64:
        return _totals(known, line_of_stack, len(places), values)

    total_ns = total(costs.self_ns)
    if (trace.slices.kind == SliceKind.PYTHON).any() and trace.slices.stack.any():
        called_ns = _totals_by_calls(trace, places, costs.self_ns)
        total_ns = np.maximum(total_ns, called_ns)
    return SourceLines(
        place=tuple(places),
        self_ns=own(costs.self_ns),
        total_ns=total_ns,
        device_ns=own(costs.device_ns),
        total_device_ns=total(costs.device_ns),
        cpu_bytes=own(costs.cpu_bytes),
        device_bytes=own(costs.device_bytes),
        total_bytes=total(costs.cpu_bytes + costs.device_bytes),
        calls=own(_is_call(trace, line_of_stack[known.rows] == of_slice)),
        operators=_operators(trace, of_slice, costs),
        of_slice=of_slice,
        elsewhere_ns=int(costs.self_ns[of_slice == NO_LINE].sum()),
    )


class _Costs(NamedTuple):
    """A value for each slice."""

    self_ns: Int64  # 0 for what ran on a device
    device_ns: Int64  # of the work that it launched itself
    cpu_bytes: Int64
    device_bytes: Int64


def _costs(trace: Trace) -> _Costs:
    slices = trace.slices
    counts = ~np.isin(slices.kind, DEVICE_KINDS) & (slices.flags & SliceFlags.ASYNC == 0)
    device_ns = np.zeros(len(slices), np.int64)
    tree = call_tree(trace)
    launched = launches(tree)
    if launched is not None:
        rows = np.arange(len(tree)) if tree.rows is None else tree.rows
        amount = slices.duration_ns[rows[launched.work]]
        np.add.at(device_ns, rows[launched.host], amount)
    known = with_memory(trace)
    memory = known.memory
    asked = (memory.size > 0) & (memory.slice != NO_SLICE)
    is_cpu = np.isin(memory.device, list(known.strings.ids_of([CPU]).values()))

    def allocated(wanted: NDArray[np.bool_]) -> Int64:
        return _summed(len(slices), memory.slice[wanted], memory.size[wanted])

    return _Costs(
        self_ns=np.where(counts, slices.self_ns, 0),
        device_ns=device_ns,
        cpu_bytes=allocated(asked & is_cpu),
        device_bytes=allocated(asked & ~is_cpu),
    )


def _with_own_calls(trace: Trace, known: KnownStacks | None) -> KnownStacks | None:
    """Put a Python call's own frame on its stack: its own time is that of its own lines."""
    calls = np.flatnonzero(trace.slices.kind == SliceKind.PYTHON)
    if known is None or not len(calls):
        return known
    (callers, names), which = distinct_pairs(known.rows[calls], trace.slices.name[calls])
    rows = known.rows.copy()
    rows[calls] = len(known.table) + which
    table = Stacks(
        np.concatenate([known.table.parent, callers]), np.concatenate([known.table.frame, names])
    )
    return KnownStacks(table, rows)


def _lines(table: Stacks, strings: Strings, is_own: IsOwn) -> tuple[list[Place], Int64]:
    """Return the user's lines in order, and for each stack that of its innermost frame."""
    found: dict[tuple[str, int], Place] = {}
    own_file: dict[str, bool] = {}
    for frame in np.unique(table.frame).tolist():
        place = place_of(strings[frame])
        if place is None:
            continue
        if place.file not in own_file:
            own_file[place.file] = is_own(place.file)
        if own_file[place.file]:
            found.setdefault((place.file, place.line), place)
    places = [found[key] for key in sorted(found)]
    return places, _known_lines(table, strings, places)


def _known_lines(table: Stacks, strings: Strings, places: list[Place]) -> Int64:
    """Return for each stack the row of its innermost frame's line, NO_LINE where it has none."""
    row_of = {(place.file, place.line): row for row, place in enumerate(places)}
    line_of_string = np.full(len(strings) + 1, NO_LINE, np.int64)
    for frame in np.unique(table.frame).tolist():
        place = place_of(strings[frame])
        if place is not None:
            line_of_string[frame] = row_of.get((place.file, place.line), NO_LINE)
    line = line_of_string[table.frame]
    line[0] = NO_LINE
    return line


def _innermost(table: Stacks, line: Int64) -> Int64:
    """Return for each stack the line of its innermost frame that has one."""
    line = line.copy()
    at = np.arange(len(table))
    climbing = np.flatnonzero((line == NO_LINE) & (at > 0))
    while len(climbing):
        at[climbing] = table.parent[at[climbing]]
        found = line[at[climbing]]
        line[climbing] = found
        climbing = climbing[(found == NO_LINE) & (at[climbing] > 0)]
    return line


def _totals(known: KnownStacks, line: Int64, lines: int, values: Int64) -> Int64:
    """Sum a value of slices for every line on their stacks, once for a line that is on it twice."""
    table = known.table
    parent = table.parent.astype(np.int64)
    of_stack = _summed(len(table), known.rows, values)
    within = of_stack.copy()  # of each stack and all that continue it
    at = np.flatnonzero(of_stack)
    amount = of_stack[at]
    while len(at):
        at = parent[at]
        at, amount = at[at > 0], amount[at > 0]
        np.add.at(within, at, amount)
    rows = np.flatnonzero(line != NO_LINE)
    again = np.zeros(len(table), bool)  # the line is also further out: counted there
    at, climbing = parent[rows], rows
    while len(climbing := climbing[at > 0]):
        at = at[at > 0]
        again[climbing] |= line[at] == line[climbing]
        at = parent[at]
    rows = rows[~again[rows]]
    return _summed(lines, line[rows], within[rows])


def _totals_by_calls(trace: Trace, places: list[Place], values: Int64) -> Int64:
    """Sum by the stacks of calls: only those have the lines where functions begin."""
    known = _with_own_calls(trace, stack_of_slices(trace, by_calls=True))
    if known is None:
        return np.zeros(len(places), np.int64)
    line = _known_lines(known.table, trace.strings, places)
    return _totals(known, line, len(places), values)


def _is_call(trace: Trace, on_own_frame: NDArray[np.bool_]) -> Int64:
    """Return 1 for operators that no operator called, and for calls of the user's functions."""
    slices = trace.slices
    kind = slices.kind
    inside = (slices.parent != NO_PARENT) & (
        kind.take(slices.parent, mode="clip") == SliceKind.OPERATOR
    )
    called = (kind == SliceKind.OPERATOR) & ~inside
    begun = (kind == SliceKind.PYTHON) & on_own_frame
    return np.asarray(called | begun, np.int64)


def _operators(trace: Trace, of_slice: Int64, costs: _Costs) -> LineOperators:
    on_device = np.isin(trace.slices.kind, DEVICE_KINDS)
    rows = np.flatnonzero((of_slice != NO_LINE) & ~on_device)
    (line, name), which = distinct_pairs(of_slice[rows], trace.slices.name[rows])

    def summed(values: Int64) -> Int64:
        return _summed(len(line), which, values[rows])

    self_ns = summed(costs.self_ns)
    order = np.lexsort((-self_ns, line))
    return LineOperators(
        line=line[order],
        name=name[order],
        self_ns=self_ns[order],
        device_ns=summed(costs.device_ns)[order],
        allocated_bytes=summed(costs.cpu_bytes + costs.device_bytes)[order],
        calls=np.bincount(which, minlength=len(line))[order],
    )


def _summed(size: int, at: NDArray[np.integer[Any]], values: Int64) -> Int64:
    """Return the sums of the values that go to each place; NO_LINE is none."""
    total = np.zeros(size, np.int64)
    there = at.astype(np.int64) >= 0
    np.add.at(total, at[there], values[there])
    return total
