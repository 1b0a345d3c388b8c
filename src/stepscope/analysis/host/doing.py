"""What a thread is doing: Python code, native code, an operator, or nothing, because it waits."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from stepscope.analysis.host.waiting import WAITING_STATES, is_waiting
from stepscope.analysis.tree import distinct_ids, levels
from stepscope.trace.model import NO_SLICE, Bool, Int64, SliceKind, ThreadState, Trace, UInt8


class Doing(IntEnum):
    """What a thread does at a moment."""

    PYTHON = 0
    NATIVE = 1  # functions written in C that are no operators: NumPy, PIL, a parser
    OPERATOR = 2
    WAITING = 3  # for the GIL, a lock, a file, the clock ...


def doing_of_samples(trace: Trace) -> UInt8:
    """Return what each sampled thread was doing.

    An operator whose thread is blocked waits for its own helpers (OpenMP's, a device): that is the
    operator's time. A thread that could run, but has no core, is at what its innermost frame is.
    """
    samples = trace.samples
    doing = np.full(len(samples), Doing.PYTHON, np.uint8)
    doing[(samples.state == ThreadState.NATIVE) | _in_native_code(trace)] = Doing.NATIVE
    doing[np.isin(samples.state, WAITING_STATES)] = Doing.WAITING
    runs_python = (samples.state == ThreadState.PYTHON) | (samples.state == ThreadState.GIL)
    in_operator = operator_of_slices(trace)[samples.slice] != NO_SLICE
    doing[in_operator & ~runs_python] = Doing.OPERATOR
    return doing


def _in_native_code(trace: Trace) -> Bool:
    """Tell whose innermost frame is that of a function written in C."""
    frame = trace.stacks.frame[trace.samples.stack]
    native = np.zeros(len(trace.strings) + 1, np.bool_)
    for text in np.unique(frame).tolist():
        native[text] = is_native(trace.strings[text])
    return native[frame]


def doing_of_slices(trace: Trace) -> UInt8:
    """Return what the thread of each slice does in the slice's own time, told by its name."""
    slices, strings = trace.slices, trace.strings
    doing = np.full(len(slices), Doing.PYTHON, np.uint8)
    native = np.zeros(len(strings) + 1, np.bool_)
    waits = native.copy()
    for name in distinct_ids(slices.name).tolist():
        text = strings[name]
        native[name] = is_native(text)
        waits[name] = is_waiting(text)
    is_python = slices.kind == SliceKind.PYTHON
    doing[is_python & native[slices.name]] = Doing.NATIVE
    doing[np.isin(slices.kind, (SliceKind.OPERATOR, SliceKind.RUNTIME))] = Doing.OPERATOR
    doing[waits[slices.name]] = Doing.WAITING
    return doing


def is_native(frame: str) -> bool:
    """Tell whether a frame is that of a function written in C."""
    return frame.startswith(("<built-in ", "<native "))


def operator_of_slices(trace: Trace) -> Int64:
    """Return the innermost operator that each slice is or runs in with no Python in between.

    NO_SLICE where there is none, and in one more row at the end, which stands for no slice.
    """
    slices = trace.slices
    found = np.full(len(slices) + 1, NO_SLICE, np.int64)
    is_operator = slices.kind == SliceKind.OPERATOR
    passes = ~np.isin(slices.kind, (SliceKind.PYTHON, SliceKind.MODULE))
    for level in levels(slices.depth):
        around = np.where(passes[level], found[slices.parent[level]], NO_SLICE)
        found[level] = np.where(is_operator[level], level, around)
    return found
