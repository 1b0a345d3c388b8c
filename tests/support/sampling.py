"""What the tests of the sampler share: a recording of samples, and what they show."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from recording import SOURCE_DIR, run_python
from stepscope.frameworks.python.sampler import Sampler
from stepscope.record.recorder import Recorder
from stepscope.trace.kinds import ThreadState, WaitReason

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from stepscope.record.limits import MemoryLimit
    from stepscope.trace.model import Trace

EVERY_NS = 200_000  # often, so that tests are short


class Seen(NamedTuple):
    """One sample, spelled out."""

    thread: str
    state: ThreadState
    wait: WaitReason
    frames: tuple[str, ...]  # the innermost first
    duration_ns: int


class Sampling:
    """A recording under way, and the trace when it has ended."""

    def __init__(self, limit: MemoryLimit | None = None, **options: Any) -> None:
        self.source = Sampler(EVERY_NS, limit, **{"budget": 1.0, **options})
        self._recorder = Recorder([self.source], limit)
        self._trace: Trace | None = None

    def start(self) -> None:
        self._recorder.prepare()
        self._recorder.start()

    def stop(self) -> None:
        self._trace = self._recorder.stop()

    def has_seen(self, times: int) -> bool:
        """Tell whether so many stacks were read of threads that ran."""
        return self.source.progress()[1] >= times

    def look_again(self, times: int) -> None:
        """Wait until all threads have been looked at some times more."""
        begun = self.source.progress()[0]
        while self.source.progress()[0] < begun + times:
            time.sleep(0.001)

    @property
    def trace(self) -> Trace:
        assert self._trace is not None
        return self._trace


@contextlib.contextmanager
def sampling(limit: MemoryLimit | None = None, **options: Any) -> Iterator[Sampling]:
    """Sample what is done inside."""
    recording = Sampling(limit, **options)
    recording.start()
    try:
        yield recording
    finally:
        recording.stop()


def seen(trace: Trace, thread: str = "") -> list[Seen]:
    """Return the samples of a thread, or of all."""
    samples, strings = trace.samples, trace.strings
    assert not samples.wait[samples.state != ThreadState.BLOCKED].any()
    assert (samples.duration_ns >= 0).all()
    return [
        Seen(
            trace.tracks[int(samples.track[row])].thread_name,
            ThreadState(int(samples.state[row])),
            WaitReason(int(samples.wait[row])),
            tuple(strings[i] for i in trace.stacks.frames(int(samples.stack[row]))),
            int(samples.duration_ns[row]),
        )
        for row in range(len(samples))
        if not thread or trace.tracks[int(samples.track[row])].thread_name == thread
    ]


def run_sampling(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own that may import this module."""
    return run_python(code, PYTHONPATH=f"{SOURCE_DIR}:{Path(__file__).parent}")
