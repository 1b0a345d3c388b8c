"""Which functions of Python only wait, told by their names, and which threads do nothing else.

A sampled thread says itself whether it ran (``Samples.state``). Of recorded calls only the names
are known: those of the standard library under which a thread waits for another thread, for time to
pass, for a file or for a process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from stepscope.analysis.tree import distinct_ids
from stepscope.trace.model import NO_STACK, Bool, SliceFlags, ThreadState, Trace

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
    found = _PLACE.fullmatch(text)
    if found:
        return found[2] in _FUNCTIONS.get(found[1], ())
    return _BUILT_IN.fullmatch(text) is not None


def waiting_texts(texts: Sequence[str]) -> Bool:
    """Tell which of some names are those of functions that only wait."""
    return np.fromiter(map(is_waiting, texts), np.bool_, len(texts))


def waiting_tracks(trace: Trace) -> Bool:
    """Tell of each track whether its thread only waits; the main thread of a process never does.

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
    """Tell of each track whether it was sampled, and never had a frame of Python or a slice."""
    count = len(trace.tracks)
    samples = trace.samples
    sampled = np.bincount(samples.track, minlength=count) > 0
    framed = np.bincount(samples.track, samples.stack != NO_STACK, count) > 0
    called = np.bincount(trace.slices.track, minlength=count) > 0
    helps: Bool = sampled & ~framed & ~called
    return helps


def _waiting_names(trace: Trace) -> Bool:
    """Tell of each string whether it is the name of a slice that only waits."""
    table = np.zeros(len(trace.strings) + 1, np.bool_)
    for name in distinct_ids(trace.slices.name).tolist():
        table[name] = is_waiting(trace.strings[name])
    return table
