"""Sampled stacks for tools that know only frames: a wait reason becomes the last frame."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.sums import distinct_pairs
from stepscope.trace.kinds import ThreadState, WaitReason
from stepscope.trace.model import Trace
from stepscope.trace.table import UInt32

_WAITS = {ThreadState.GIL: "<waits for the GIL>", ThreadState.READY: "<waits for a core>"}
_BLOCKED = {
    WaitReason.UNKNOWN: "<blocked>",
    WaitReason.SLEEP: "<sleeps>",
    WaitReason.LOCK: "<waits for a lock>",
    WaitReason.FILE: "<waits for a file>",
    WaitReason.SOCKET: "<waits for a socket>",
    WaitReason.PIPE: "<waits for a pipe>",
    WaitReason.PROCESS: "<waits for a process>",
    WaitReason.POLL: "<waits for events>",
}


class SampledStacks:
    """The distinct stacks of a trace's samples, each with its thread's wait reason, if any."""

    def __init__(self, trace: Trace) -> None:
        samples = trace.samples
        doing = samples.state.astype(np.uint32) * len(WaitReason) + samples.wait
        (self._stack, self._doing), self.of_sample = distinct_pairs(samples.stack, doing)
        self._trace = trace
        self._frames: dict[int, tuple[str, ...]] = {0: ()}

    def __len__(self) -> int:
        return len(self._stack)

    def frames(self, number: int) -> tuple[str, ...]:
        """Return the frames of a stack, the outermost first."""
        frames = self._callers(int(self._stack[number]))
        waits = _wait_text(*divmod(int(self._doing[number]), len(WaitReason)))
        return (*frames, waits) if waits else frames

    def _callers(self, row: int) -> tuple[str, ...]:
        if row not in self._frames:
            stacks, strings = self._trace.stacks, self._trace.strings
            numbers: list[int] = stacks.frames(row)
            self._frames[row] = tuple(strings[number] for number in reversed(numbers))
        return self._frames[row]


def _wait_text(state: int, wait: int) -> str:
    if state == ThreadState.BLOCKED:
        return _BLOCKED[WaitReason(wait)]
    return _WAITS.get(ThreadState(state), "")


def thread_titles(trace: Trace) -> list[str]:
    """Return each track's title: ``MainThread (4711)``, with the process if there are several."""
    several = len({track.pid for track in trace.tracks}) > 1
    return [
        " ".join(
            [
                *([f"{track.process_name} {track.pid}"] if several else []),
                f"{track.thread_name} ({track.tid})" if track.thread_name else track.tid,
            ]
        )
        for track in trace.tracks
    ]


def rows_by_track(track: UInt32) -> dict[int, UInt32]:
    """Return the rows of each track that has any, in order."""
    if not len(track):
        return {}
    order = np.argsort(track, kind="stable").astype(np.uint32)
    numbers, begins = np.unique(track[order], return_index=True)
    parts = np.split(order, begins[1:])
    return dict(zip(numbers.tolist(), parts, strict=True))
