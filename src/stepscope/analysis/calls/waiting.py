"""What threads do: run Python, native code or an operator, or wait; and which do nothing but wait.

A sampled thread says itself whether it ran (``Samples.state``). Of recorded calls only the names
are known: those of the standard library under which a thread waits for another thread, for time to
pass, for a file or for a process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

import numpy as np

from stepscope.analysis.base.tree import distinct_ids, levels
from stepscope.trace.model import (
    NO_SLICE,
    NO_STACK,
    Bool,
    Int64,
    SliceFlags,
    SliceKind,
    ThreadState,
    Trace,
    UInt8,
)

WAITING_STATES = (ThreadState.GIL, ThreadState.BLOCKED)

ONLY_WAITS = 0.98  # a thread that waits for this share of its time only wakes up to look around

_FUNCTIONS = {
    "threading.py": {"wait", "wait_for", "join", "acquire", "_wait_for_tstate_lock"},
    "queue.py": {"get", "put", "join"},
    "selectors.py": {"select"},
    "socket.py": {"accept", "readinto"},
    "subprocess.py": {"wait", "_wait", "_try_wait", "communicate", "_communicate"},
    "concurrent/futures/_base.py": {"result", "wait", "as_completed"},
    "multiprocessing/connection.py": {
        "wait", "poll", "_poll", "recv", "_recv", "recv_bytes", "_recv_bytes", "accept",
    },
    "multiprocessing/popen_fork.py": {"wait", "poll"},
    "multiprocessing/process.py": {"join"},
    "multiprocessing/queues.py": {"get", "put"},
    "multiprocessing/synchronize.py": {"wait", "acquire"},
}  # fmt: skip
_PLACE = re.compile(r"(?:.*/lib/python3[^/]*/)?(.+)\(\d+\): (?:.*\.)?(\w+)")
_BUILT_IN = re.compile(
    r"<(?:built-in (?:method|function)|native call) (?:.*\.)?"
    r"(?:sleep|acquire|select|poll|waitpid|wait4|accept|recv|recv_into)\b.*>|time\.sleep"
)


@lru_cache(maxsize=100_000)
def is_waiting(text: str) -> bool:
    """Tell whether a function only waits: ``threading.py(324): Condition.wait``."""
    match = _PLACE.fullmatch(text)
    if match:
        return match[2] in _FUNCTIONS.get(match[1], ())
    return _BUILT_IN.fullmatch(text) is not None


def waiting_texts(texts: Sequence[str]) -> Bool:
    """Return a mask of the names that are functions that only wait."""
    return np.fromiter(map(is_waiting, texts), np.bool_, len(texts))


def waiting_tracks(trace: Trace) -> Bool:
    """Return a mask of the tracks whose thread only waits; main threads never do.

    By its samples where there are any, else by the time of its calls.
    """
    count = len(trace.tracks)
    samples, slices = trace.samples, trace.slices
    ran_ns, waited_ns = np.zeros(count), np.zeros(count)
    waits = np.isin(samples.state, WAITING_STATES)
    ran_ns += np.bincount(samples.track[~waits], samples.duration_ns[~waits], count)
    waited_ns += np.bincount(samples.track[waits], samples.duration_ns[waits], count)
    sampled = (ran_ns + waited_ns) > 0
    called = ~slices.on_device & (slices.flags & SliceFlags.ASYNC == 0)
    rows = np.flatnonzero(called & ~sampled[slices.track])
    waits = _waiting_names(trace)[slices.name[rows]]
    own_ns, track = slices.self_ns[rows], slices.track[rows]
    ran_ns += np.bincount(track[~waits], own_ns[~waits], count)
    waited_ns += np.bincount(track[waits], own_ns[waits], count)
    is_main = np.array([track.pid == track.tid != "0" for track in trace.tracks], np.bool_)
    only: Bool = (waited_ns > 0) & (waited_ns >= ONLY_WAITS * (ran_ns + waited_ns)) & ~is_main
    return only


def helper_tracks(trace: Trace) -> Bool:
    """Return a mask of sampled tracks that never had a Python frame or a slice."""
    count = len(trace.tracks)
    samples = trace.samples
    sampled = np.bincount(samples.track, minlength=count) > 0
    framed = np.bincount(samples.track, samples.stack != NO_STACK, count) > 0
    called = np.bincount(trace.slices.track, minlength=count) > 0
    helps: Bool = sampled & ~framed & ~called
    return helps


def _waiting_names(trace: Trace) -> Bool:
    """Return a mask of the strings that are names of slices that only wait."""
    table = np.zeros(len(trace.strings) + 1, np.bool_)
    for name in distinct_ids(trace.slices.name).tolist():
        table[name] = is_waiting(trace.strings[name])
    return table


class Doing(IntEnum):
    """What a thread does at a moment."""

    PYTHON = 0
    NATIVE = 1  # native functions that are no operators: NumPy, PIL, a parser
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
    """Return a mask of the samples whose innermost frame is native code."""
    frame = trace.stacks.frame[trace.samples.stack]
    native = np.zeros(len(trace.strings) + 1, np.bool_)
    for text in np.unique(frame).tolist():
        native[text] = is_native(trace.strings[text])
    return native[frame]


def doing_of_slices(trace: Trace) -> UInt8:
    """Return what each slice's thread does in the slice's own time, by its name."""
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
    """Tell whether a frame is that of a native function."""
    return frame.startswith(("<built-in ", "<native "))


def operator_of_slices(trace: Trace) -> Int64:
    """Return the innermost operator that each slice is or runs in, without Python in between.

    NO_SLICE where there is none, and in one more row at the end, which stands for no slice.
    """
    slices = trace.slices
    operator = np.full(len(slices) + 1, NO_SLICE, np.int64)
    is_operator = slices.kind == SliceKind.OPERATOR
    passes = ~np.isin(slices.kind, (SliceKind.PYTHON, SliceKind.MODULE))
    for level in levels(slices.depth):
        around = np.where(passes[level], operator[slices.parent[level]], NO_SLICE)
        operator[level] = np.where(is_operator[level], level, around)
    return operator
