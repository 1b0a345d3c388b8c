"""Samples the Python stacks of all threads, and what they wait for, every millisecond.

A native thread reads the interpreter's structures without the GIL; see ``docs/sampler.md``. It
counts failed reads, and stays within its share of a core: with many threads, it samples less often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from stepscope import _native
from stepscope.frameworks.python.operations import native_text, operations
from stepscope.frameworks.python.options import CPU_BUDGET, DEFAULT_INTERVAL_NS, SAMPLE
from stepscope.frameworks.python.paths import set_paths
from stepscope.notices import notify
from stepscope.record.limits import native_limit
from stepscope.record.source import Burden, Source, Stage
from stepscope.record.threads import thread_names
from stepscope.trace.keys import BYTES
from stepscope.trace.names import RESIDENT_MEMORY
from stepscope.units import count_text, duration_text, percent_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured, Marks
    from stepscope.trace.table import Int64

_COUNTS = (
    *("looks", "torn", "passes", "cpu_ns", "wall_ns", "lost"),
    *("sees_waits", "one_by_one"),
)


class Sampler(Source):
    """Samples all threads from a native thread."""

    name = "sampler"
    burden = Burden.SAMPLES
    stage = Stage.PYTHON
    when = SAMPLE

    def __init__(
        self,
        interval_ns: int = DEFAULT_INTERVAL_NS,
        limit: MemoryLimit | None = None,
        *,
        budget: float = CPU_BUDGET,
        way: str = "best",
    ) -> None:
        """``way`` is how memory is read: best, readv or file."""
        self._interval_ns = interval_ns
        self._limit = limit
        self._budget = budget
        self._way = way
        self._native: _native.Sampler | None = None
        self._older: list[Captured] = []  # samples that were read while sampling continued
        self._names: Mapping[int, str] = {}
        self._obstacle = ""
        self.counts: Mapping[str, Any] = {}  # of the last recording: work done, and its cost

    @classmethod
    def made_for(cls, options: RecordOptions, limit: MemoryLimit | None) -> Source:
        return cls(options[SAMPLE], limit)

    def prepare(self) -> None:
        self.code_folders = set_paths()
        operations()

    def start(self) -> None:
        self._older = []
        self._begin()

    def _begin(self) -> None:
        native = _native.Sampler(
            interval_ns=self._interval_ns,
            budget=self._budget,
            way=self._way,
            operations=operations(),
            **native_limit(self._limit),
        )
        self._obstacle = native.start()
        if self._obstacle:
            notify(f"what threads do is not sampled: {self._obstacle}")
            return
        self._native = native

    def progress(self) -> tuple[int, int]:
        """Return how often it looked for running threads so far, and how many it found."""
        return self._native.progress() if self._native is not None else (0, 0)

    def stop(self) -> None:
        if self._native is not None:
            self._native.stop()
            self._names = thread_names()

    def collect(self) -> Captured | None:
        return self.hand_over()()

    def hand_over(self) -> Callable[[], Captured | None]:
        native, self._native = self._native, None
        older, self._older = self._older, []
        names = self._names
        return lambda: _merged([*older, *self._columns(native, names)])

    def so_far(self) -> Captured | None:
        native, self._native = self._native, None
        if native is None:
            return None
        self._begin()
        native.stop()
        self._older += self._columns(native, thread_names())
        if age_ns := native_limit(self._limit)["age_ns"]:
            since_ns = _native.now_ns() - age_ns
            self._older = [part for part in self._older if part.samples.time_ns[-1] >= since_ns]
        return _merged(self._older)

    def _columns(
        self, native: _native.Sampler | None, names: Mapping[int, str]
    ) -> Sequence[Captured]:
        sampled = native.collect(native_text) if native is not None else None
        if not sampled:
            return ()
        self.counts = sampled["counts"]
        self.lost += self.counts["lost"]
        return (_captured(sampled, names),) if len(sampled["samples"]["time_ns"]) else ()

    @classmethod
    def recover(cls, remains: LeftBehind) -> Captured | None:
        import numpy as np

        from stepscope.trace.model import ThreadState, WaitReason

        # Never open a file that another user's stream names.
        sampled = remains.native.sampled(native_text if remains.folders.is_ours else _no_text)
        samples = sampled["samples"]
        is_valid = np.isin(samples["state"], tuple(ThreadState))
        is_valid &= np.isin(samples["wait"], tuple(WaitReason))  # a damaged stream has others
        if not is_valid.any():
            return None
        samples = {name: column[is_valid] for name, column in samples.items()}
        return _captured({**sampled, "samples": samples}, remains.thread_names)

    @classmethod
    def described_by(cls, remains: LeftBehind) -> str:
        counts = _noted_counts(remains)
        return _described(counts) if counts else super().described_by(remains)

    @classmethod
    def lost_by(cls, remains: LeftBehind) -> int:
        return _noted_counts(remains).get("lost", 0)

    def describe_running(self) -> str:
        if self._obstacle:
            return self.describe()
        return f"every {duration_text(self._interval_ns)} or less often"

    def describe(self) -> str:
        return f"none: {self._obstacle}" if self._obstacle else _described(self.counts)


def _noted_counts(remains: LeftBehind) -> dict[str, int]:
    """Return the counts that a process's native sampler noted; empty if any is malformed."""
    counts = {name: remains.meta.get(Sampler.name, {}).get(name) for name in _COUNTS}
    fits = all(type(count) is int and 0 <= count < 1 << 63 for count in counts.values())
    return cast("dict[str, int]", counts) if fits else {}


def _no_text(_instruction: int, _file: str, _place: object) -> str:
    return ""


def _merged(parts: Sequence[Captured]) -> Captured | None:
    from stepscope.trace.join import merge_parts

    return merge_parts(parts) if len(parts) > 1 else next(iter(parts), None)


def _described(counts: Mapping[str, Any]) -> str:
    if not counts.get("passes"):
        return "nothing was sampled"
    every_ns = counts["wall_ns"] / counts["passes"]
    cost = percent_text(counts["cpu_ns"], counts["wall_ns"])
    words = [f"every {duration_text(every_ns)}, using {cost} of a core"]
    if counts["torn"]:
        words.append(f"{count_text(counts['torn'], 'sample')} of {counts['looks']:,} not readable")
    if counts["lost"]:
        words.append(f"{count_text(counts['lost'], 'sample')} lost")
    if counts["one_by_one"]:
        words.append("read from /proc/self/mem, as process_vm_readv is not allowed")
    if not counts["sees_waits"]:
        words.append("what threads wait for is not shown by the kernel")
    return "; ".join(words)


def _captured(sampled: Mapping[str, Any], names: Mapping[int, str]) -> Captured:
    from stepscope.record.capture import thread_track
    from stepscope.trace.model import NO_THREAD, Stacks
    from stepscope.trace.schema import Captured, Samples, Slices
    from stepscope.trace.strings import Strings

    stacks = sampled["stacks"]
    texts = {text: i for i, text in enumerate(stacks["texts"])}
    marks = _memory_marks(sampled["resident"], texts)
    return Captured(
        Slices.empty(),
        tuple(
            thread_track(thread, NO_THREAD, names.get(thread) or name)
            for thread, name in sampled["threads"]
        ),
        Strings.of(texts),
        stacks=Stacks(stacks["parent"], stacks["frame"]),
        marks=marks,
        samples=Samples.of(**sampled["samples"]),
    )


def _memory_marks(resident: tuple[Int64, Int64], texts: dict[str, int]) -> Marks:
    """Return the process's memory as a counter; its texts are added to ``texts``."""
    import numpy as np

    from stepscope.trace.model import Args, IntColumn
    from stepscope.trace.schema import Marks

    time_ns, size = resident

    def id_of(text: str) -> int:
        return texts.setdefault(text, len(texts))

    return Marks.of(
        phase=np.full(len(time_ns), ord("C"), np.uint8),
        category=np.full(len(time_ns), id_of("memory"), np.uint32),
        name=np.full(len(time_ns), id_of(RESIDENT_MEMORY), np.uint32),
        time_ns=time_ns,
        track=np.zeros(len(time_ns), np.uint32),
        args=Args({BYTES: IntColumn(np.arange(len(size), dtype=np.uint32), size)}),
    )
