"""The Recorder: sources and a window over the native buffers; start to stop makes a Trace."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from stepscope import _native
from stepscope.record.window import Window, range_overhead_ns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.record import MemoryLimit
    from stepscope.record.capture import Recorded
    from stepscope.record.source import Source
    from stepscope.trace.model import Losses, Trace
    from stepscope.trace.schema import Captured


class Recorder:
    """Records the events of its sources between start and stop."""

    def __init__(
        self,
        sources: Sequence[Source],
        limit: MemoryLimit | None = None,
        *,
        keep_cycles: bool = False,
    ) -> None:
        """Take the sources; with ``keep_cycles``, ``trace`` holds all cycles, not only the last."""
        self._sources = tuple(sources)
        self._limit = limit
        self._keep_cycles = keep_cycles
        self._cycles: list[Trace] = []
        self._window: Window | None = None
        self._on: list[Source] = []  # the sources that are started
        self._parts: list[Captured] = []  # what sources kept of their own before a pause
        self._paused_ns: int | None = None
        self._pauses_ns: list[tuple[int, int]] = []
        self._pid = os.getpid()
        self.spent_ns = {"prepare": 0, "start": 0, "stop": 0}  # by this recorder itself, last time

    @property
    def sources(self) -> tuple[Source, ...]:
        """Return what records."""
        return self._sources

    @property
    def trace(self) -> Trace | None:
        """Return what was recorded; None before the first cycle has ended."""
        if len(self._cycles) > 1:
            from stepscope.trace.join import join_traces

            self._cycles = [join_traces(self._cycles)]
        return self._cycles[0] if self._cycles else None

    @property
    def active(self) -> bool:
        """Tell whether events are being recorded now; in a forked child they are not."""
        return self._window is not None and os.getpid() == self._pid

    def open(self) -> None:
        """Tell the sources that a run begins, which may have steps that are not recorded."""
        for source in self._sources:
            source.open()

    def close(self) -> None:
        """Tell the sources that the run has ended."""
        for source in self._sources:
            source.close()

    def prepare(self) -> None:
        """Do all slow work, so that ``start`` is quick."""
        with self._timed("prepare"):
            for source in self._sources:
                source.prepare()

    def start(self) -> None:
        """Begin a cycle; when a source cannot start, all others are stopped."""
        if self.active:
            raise RuntimeError("this profiler is already recording: stop it before it starts again")
        self._pid = os.getpid()
        self._on = []  # a forked child may have its parent's
        self._window = Window(self._limit)
        self._parts, self._pauses_ns, self._paused_ns = [], [], None
        try:
            with self._timed("start"):
                self._start_sources()
        except BaseException:
            self.abandon()
            raise
        self._window.restart()

    def stop(self) -> Trace | None:
        """End the cycle and return its trace; None when there is no cycle."""
        window = self._window if self.active else None
        self._window = None
        if window is None:
            return None
        with self._timed("stop"):
            try:
                self._stop_sources()
            finally:
                recorded = window.close()
            self._end_pause(recorded.end_ns)
            self._collect()
            trace = self._built(recorded)
        self._cycles = [*self._cycles, trace] if self._keep_cycles else [trace]
        return trace

    def pause(self) -> None:
        """Leave out what starts from now on; what is already running is kept."""
        if self.active and self._paused_ns is None:
            self._paused_ns = _native.now_ns()
            self._stop_sources()
            self._collect()

    def resume(self) -> None:
        """Record again what starts from now on."""
        if self.active and self._paused_ns is not None:
            self._start_sources()
            self._end_pause(_native.now_ns())

    def abandon(self) -> None:
        """Turn everything off after a failure."""
        window, self._window = self._window, None
        try:
            self._stop_sources()
        finally:
            if window is not None:
                window.close()

    def note_thread_names(self) -> None:
        """Remember the names of the threads that run now."""
        if self._window is not None:
            self._window.note_thread_names()

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        before = _native.now_ns()
        try:
            yield
        finally:
            self.spent_ns[part] = _native.now_ns() - before

    def _start_sources(self) -> None:
        for source in self._sources:
            source.start()
            self._on.append(source)

    def _stop_sources(self) -> None:
        with ExitStack() as each:  # one that fails does not keep the others running
            while self._on:
                each.callback(self._on.pop(0).stop)

    def _collect(self) -> None:
        self._parts += [part for source in self._sources if (part := source.collect()) is not None]

    def _end_pause(self, now_ns: int) -> None:
        if self._paused_ns is not None:
            self._pauses_ns.append((self._paused_ns, now_ns))
            self._paused_ns = None

    def _built(self, recorded: Recorded) -> Trace:
        from stepscope.trace.build import build, started_outside
        from stepscope.trace.describe import describe_process
        from stepscope.trace.join import merge_parts

        captured = merge_parts([recorded.captured, *self._parts])
        self._parts = []
        for source in self._sources:
            captured = source.refine(captured)
        costs = [cost for source in self._sources if (cost := source.overhead_ns())]
        info = describe_process(
            start_ns=recorded.start_ns,
            end_ns=recorded.end_ns,
            losses=self._losses(recorded.losses),
            sources={each.name: says for each in self._sources if (says := each.describe())},
            overhead_ns=max(costs, default=0.0) or range_overhead_ns(),
            devices=[device for source in self._sources for device in source.devices],
            parallelism=dict(chain.from_iterable(s.parallelism().items() for s in self._sources)),
            code_folders=[folder for source in self._sources for folder in source.code_folders],
            job=dict(chain.from_iterable(each.job().items() for each in self._sources)),
        )
        return build(started_outside(captured, self._pauses_ns), info)

    def _losses(self, own: Losses) -> Losses:
        """Add what was lost elsewhere: in child processes, or by the device's collector."""
        from stepscope.record.limits import Keep
        from stepscope.trace.model import Losses

        lost = sum(source.lost for source in self._sources)
        if not lost:
            return own
        if self._limit is None:
            return replace(own, events=own.events + lost)
        policy = "oldest" if self._limit.keep is Keep.NEWEST else "newest"
        return Losses(own.events + lost, policy, self._limit.bytes)
