"""The Python frames in which every slice started, without those of whatever launched the program.

Our own recordings contain them. In traces of torch.profiler they are the ``python_function`` slices
that run when another slice starts. A backward function, with all inside it, runs on a thread of the
autograd engine; it gets the frames of its forward operator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope import _native
from stepscope.analysis.base.labels import Labels
from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import nearest
from stepscope.analysis.base.tree import CallTree, distinct_ids, ids_where, levels
from stepscope.analysis.calls.backward import backward_functions, forward_operators
from stepscope.analysis.calls.launches import Launches, captured_nodes, launches
from stepscope.trace.model import (
    NO_PARENT,
    NO_SLICE,
    NO_STACK,
    Bool,
    Int32,
    SliceKind,
    Slices,
    Stacks,
    Trace,
    UInt32,
)
from stepscope.trace.strings import Strings

_OWN = ("stepscope/cli/", "stepscope/__main__.py")
_RUNPY = ("<frozen runpy>", "runpy.py")

_NONE = -1


@dataclass(frozen=True, slots=True)
class KnownStacks:
    """A stack for each slice of a trace, or for each event of a CallTree."""

    table: Stacks
    rows: UInt32  # rows of ``table``, NO_STACK without

    def frames(self, index: int, strings: Strings, limit: int | None = None) -> tuple[str, ...]:
        """Return the frames of one slice or event, the innermost first."""
        frames = self.table.frames(int(self.rows[index]))[:limit]
        return tuple(strings[frame] for frame in frames)


@shared
def stack_of_slices(trace: Trace, *, by_calls: bool = False) -> KnownStacks | None:
    """Return the stack of every slice; None if the trace has none.

    A recording may have both the frames of its operators, with the line that was running, and all
    calls of Python functions, with the line where each function begins. The former are more exact;
    ``by_calls`` prefers the latter, so that all stacks are of one kind and make one flame graph.
    """
    slices, table = trace.slices, trace.stacks
    rows: UInt32 = slices.stack
    has_stacks = len(table) > 1 and bool(rows.any())
    if has_stacks:
        rows = _inherited(slices, rows)
    if (slices.kind == SliceKind.PYTHON).any():
        table, around = _running_frames(trace)
        first, second = (around, rows) if by_calls else (rows, around)
        rows = np.where(first == NO_STACK, second, first)
    elif not has_stacks:
        return None
    return _without_unseen(table, _of_forward(trace, rows), trace.strings)


def stack_of_events(tree: CallTree, *, by_calls: bool = False) -> KnownStacks | None:
    """Return the stack of every event; device work has that of its launch."""
    stacks = stack_of_slices(tree.trace, by_calls=by_calls)
    if stacks is None:
        return None
    rows = tree.of(stacks.rows)
    device = launches(tree)
    if device is not None:
        rows = rows.copy()
        rows[device.work] = _stacks_of_work(tree, stacks, device)
    return KnownStacks(stacks.table, rows)


def _stacks_of_work(tree: CallTree, stacks: KnownStacks, device: Launches) -> UInt32:
    """Return the stacks of the calls that launched the work, or captured it in a graph."""
    work = device.work if tree.rows is None else tree.rows[device.work]
    node = captured_nodes(tree.trace)[work]
    launched = tree.of(stacks.rows)[device.host]
    return np.where(node == NO_SLICE, launched, stacks.rows[node])


def stack_labels(
    stacks: KnownStacks | None, events: int, strings: Strings, limit: int | None = None
) -> Labels[tuple[str, ...]]:
    """Return the innermost ``limit`` frames of every event, by default all."""
    if stacks is None:
        return Labels(np.zeros(events, np.uint32), ((),))
    present = distinct_ids(stacks.rows)
    code_of: dict[tuple[str, ...], int] = {}
    table = np.zeros(len(stacks.table), np.uint32)
    parent, frame = stacks.table.parent.tolist(), stacks.table.frame.tolist()
    names = {i: strings[i] for i in set(frame)}
    for row in present.tolist():
        frames: list[str] = []
        at = row
        while at and (limit is None or len(frames) < limit):
            frames.append(names[frame[at]])
            at = parent[at]
        table[row] = code_of.setdefault(tuple(frames), len(code_of))
    return Labels(table.take(stacks.rows), tuple(code_of))


def _inherited(slices: Slices, rows: UInt32) -> UInt32:
    """Give operators without a stack that of their caller: no Python ran in between."""
    from_operator = slices.kind.take(slices.parent, mode="clip") == SliceKind.OPERATOR
    bare = (rows == NO_STACK) & from_operator & (slices.parent != NO_PARENT)
    if not bare.any():
        return rows
    rows = rows.copy()
    for level in levels(slices.depth):
        taking = level[bare[level]]
        rows[taking] = rows[slices.parent[taking]]
    return rows


@shared
def _running_frames(trace: Trace) -> tuple[Stacks, UInt32]:
    """Return the stacks of ``python_function`` slices, and the one in which each slice started.

    Only Python slices hold others here: a range that starts in one frame and ends in another
    must not hide from its operators the frames that run at their start.
    """
    slices, table = trace.slices, trace.stacks
    is_python = slices.kind == SliceKind.PYTHON
    around = _frame_around(slices, is_python)
    calls = np.flatnonzero(is_python)
    bottom = np.zeros(len(slices), np.int64)
    node, parent, frame, _ = _native.paths(
        calls, around, bottom, slices.name.astype(np.int64), len(table)
    )
    inside = np.append(node, NO_STACK)  # the stack within each call; row -1 has none
    return table.extended(parent, frame), inside[around].astype(np.uint32)


def _frame_around(slices: Slices, is_python: Bool) -> Int32:
    """Return the Python slice that runs when each slice starts."""
    duration_ns = np.where(is_python, slices.duration_ns, 0)
    order = _native.slice_order(slices.start_ns, duration_ns)
    if order is None:
        order = np.arange(len(slices), dtype=np.uint32)
    frame_rows, *_ = _native.nest(
        slices.start_ns[order], duration_ns[order], slices.track[order], slices.flags[order], None
    )
    around = np.empty_like(frame_rows)
    outer = order.astype(np.int32).take(frame_rows, mode="clip")
    around[order] = np.where(frame_rows == NO_PARENT, NO_PARENT, outer)
    return around


def _of_forward(trace: Trace, rows: UInt32) -> UInt32:
    """Give backward functions and all inside them the stack of their forward operator."""
    slices = trace.slices
    is_backward = backward_functions(trace)
    if not is_backward.any():
        return rows
    function = nearest(slices.parent, is_backward)
    inside = np.flatnonzero(function != _NONE)
    backward = np.flatnonzero(is_backward)
    forward = np.full(len(slices), _NONE, np.int64)
    forward[backward] = forward_operators(trace, backward, function == _NONE)
    source = forward[function[inside]]
    rows = rows.copy()
    rows[inside] = np.where(source == _NONE, NO_STACK, rows[source])
    return rows


def stacks_of_samples(trace: Trace) -> KnownStacks:
    """Return the stack of every sample, without the frames around the program."""
    return _without_unseen(trace.stacks, trace.samples.stack, trace.strings)


def _without_unseen(table: Stacks, rows: UInt32, strings: Strings) -> KnownStacks:
    frames = landmarks().unseen_frames

    def unseen(text: str) -> bool:
        return any(file in text and function in text for file, function in frames)

    hidden = np.isin(table.frame, ids_where(table.frame[1:], strings, unseen))
    hidden |= launcher_rows(table, strings)
    hidden[0] = False
    if not hidden.any():
        return KnownStacks(table, rows)
    seen = np.arange(len(table), dtype=np.uint32)
    climbing = np.flatnonzero(hidden)
    while len(climbing):
        seen[climbing] = table.parent[seen[climbing]]
        climbing = climbing[hidden[seen[climbing]]]
    frame = np.where(hidden, np.uint32(0), table.frame)  # no lookup by row may find it
    return KnownStacks(Stacks(seen[table.parent], frame), seen[rows])


def launcher_rows(table: Stacks, strings: Strings) -> Bool:
    """Return a mask of the frames outside the program: ours and those of ``runpy``.

    With our own ones go all that called them: the script in a virtual environment's ``bin``.
    """
    ours = _in_files(table, strings, _OWN)
    runpy = _in_files(table, strings, _RUNPY)
    marked = np.zeros(len(table), np.bool_)
    if not ours.any() and not runpy.any():
        return marked
    marked[0] = True  # what runpy runs at the outermost place, it runs for the launcher
    parent = table.parent.tolist()
    for row in np.flatnonzero(ours | runpy).tolist():  # callers stand above
        marked[row] = bool(ours[row]) or bool(marked[parent[row]])
    above = np.unique(table.parent[np.flatnonzero(ours)])
    while len(above := above[above > 0]):
        marked[above] = True
        above = np.unique(table.parent[above])
    marked[0] = False
    return marked


def _in_files(table: Stacks, strings: Strings, files: tuple[str, ...]) -> Bool:
    def wanted(frame: str) -> bool:
        file = frame.partition("(")[0]
        return any(
            file.startswith(wanted_file) or f"/{wanted_file}" in file for wanted_file in files
        )

    is_wanted = np.isin(table.frame, ids_where(table.frame[1:], strings, wanted))
    is_wanted[0] = False
    return is_wanted
