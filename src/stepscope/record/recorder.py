"""The Recorder: sources and a window over the native buffers; start to stop makes a Trace."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from stepscope import _native
from stepscope.record.cycle import Cycle
from stepscope.record.running import RUNNING
from stepscope.record.window import Window, range_overhead_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.source import Source
    from stepscope.record.window import HeldEvents
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
        """Take the sources; with ``keep_cycles``, ``trace`` holds all cycles."""
        self._sources = tuple(sources)
        self._limit = limit
        self._keep_cycles = keep_cycles
        self._cycles: list[Cycle] = []
        self._window: Window | None = None
        self._on: list[Source] = []  # started sources
        self._parts: list[Captured] = []  # events that sources kept themselves until a pause
        self._paused_ns: int | None = None
        self._pauses_ns: list[tuple[int, int]] = []
        self._looking = threading.Lock()
        self._pid = os.getpid()
        self.spent_ns = {"prepare": 0, "start": 0, "stop": 0}  # in the last call of each method

    @property
    def is_ring(self) -> bool:
        """Return whether only the last part of a recording is kept."""
        return self._limit is not None and self._limit.is_ring

    @property
    def sources(self) -> tuple[Source, ...]:
        return self._sources

    @property
    def trace(self) -> Trace | None:
        """Return what was recorded; None before the first cycle has ended."""
        return self.cycle.trace if self.cycle is not None else None

    @property
    def cycle(self) -> Cycle | None:
        """Return the last cycle, whose trace may not be built yet."""
        if len(self._cycles) > 1:
            cycles = tuple(self._cycles)
            self._cycles = [Cycle(partial(_joined, cycles), sum(map(len, cycles)))]
        return self._cycles[0] if self._cycles else None

    @property
    def active(self) -> bool:
        """Tell whether events are being recorded now; in a forked child they are not."""
        return self._window is not None and os.getpid() == self._pid

    @property
    def is_parents(self) -> bool:
        """Return whether this is a forked child's copy of a recorder that records in the parent."""
        return self._window is not None and os.getpid() != self._pid

    def open(self) -> None:
        """Tell the sources that a run begins; not all of its steps may be recorded."""
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
        self._on = []  # a forked child may have its parent's list
        self._window = Window(self._limit)
        self._parts, self._pauses_ns, self._paused_ns = [], [], None
        try:
            with self._timed("start"):
                self._start_sources()
        except BaseException:
            self.abandon()
            raise
        self._window.restart()
        RUNNING.add(self)

    def stop(self) -> Trace | None:
        """End the cycle and return its trace; None when there is no cycle."""
        cycle = self.finish()
        return None if cycle is None else cycle.trace

    def finish(self) -> Cycle | None:
        """End the cycle; its trace is built on first use. None without a cycle."""
        window = self._window if self.active else None
        self._window = None
        RUNNING.remove(self)
        if window is None:
            return None
        with self._timed("stop"):
            try:
                self._stop_sources()
            finally:
                events = window.end()
            self._end_pause(_native.now_ns())
            parts, self._parts = self._parts, []
            later = [source.hand_over() for source in self._sources]
            make = partial(self._built, events, parts, later, self._pauses_ns, self._cost_ns())
            cycle = Cycle(make, len(events))
        self._cycles = [*self._cycles, cycle] if self._keep_cycles else [cycle]
        return cycle

    def snapshot(self) -> Cycle | None:
        """Return what was recorded so far, of a ring what it holds; the recording goes on.

        What other processes record is not part of it.
        """
        window = self._window if self.active else None
        if window is None:
            return None
        with self._looking:
            events = window.look()
            later = [partial(_same, source.so_far()) for source in self._sources]
            pauses_ns = list(self._pauses_ns)
        make = partial(self._built, events, list(self._parts), later, pauses_ns, 0.0)
        return Cycle(make, len(events))

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
        RUNNING.remove(self)
        try:
            self._stop_sources()
        finally:
            if window is not None:
                window.end()

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
        with ExitStack() as stops:  # also if one of them fails
            while self._on:
                stops.callback(self._on.pop(0).stop)

    def _collect(self) -> None:
        self._parts += [part for source in self._sources if (part := source.collect()) is not None]

    def _end_pause(self, now_ns: int) -> None:
        if self._paused_ns is not None:
            self._pauses_ns.append((self._paused_ns, now_ns))
            self._paused_ns = None

    def _cost_ns(self) -> float:
        """Return the calibrated cost of an event, measured without a recording."""
        costs = [cost for source in self._sources if (cost := source.overhead_ns())]
        return max(costs, default=0.0) or range_overhead_ns()

    def _built(
        self,
        events: HeldEvents,
        parts: Sequence[Captured],
        later: Sequence[Callable[[], Captured | None]],
        pauses_ns: Sequence[tuple[int, int]],
        cost_ns: float,
    ) -> Trace:
        from stepscope.record.facts import raw_facts
        from stepscope.trace.build import build, since, started_outside
        from stepscope.trace.join import merge_parts
        from stepscope.trace.process_facts import facts_of
        from stepscope.trace.schema import PRODUCER, TraceInfo

        recorded = events.recorded()
        collected = [part for make in later if (part := make()) is not None]
        fallen_off = 0
        if self.is_ring:
            recent = [since(part, recorded.start_ns) for part in collected]
            fallen_off = sum(len(part.slices) for part in collected)
            fallen_off -= sum(len(part.slices) for part in recent)
            collected = recent
        captured = merge_parts([recorded.captured, *parts, *collected])
        for source in self._sources:
            captured = source.refine(captured)
        job = dict(chain.from_iterable(source.job().items() for source in self._sources))
        threads = dict(chain.from_iterable(s.parallelism().items() for s in self._sources))
        facts = facts_of(raw_facts(), job)
        info = TraceInfo(
            **{**facts, "parallelism": {**facts["parallelism"], **threads}},
            producer=PRODUCER,
            start_ns=recorded.start_ns,
            end_ns=recorded.end_ns,
            sources={source.name: says for source in self._sources if (says := source.describe())},
            losses=self._losses(recorded.losses, fallen_off),
            overhead_ns=cost_ns,
            devices=[device for source in self._sources for device in source.devices],
            code_folders=[folder for source in self._sources for folder in source.code_folders],
        )
        return build(started_outside(captured, pauses_ns), info)

    def _losses(self, own: Losses, fallen_off: int) -> Losses:
        """Add what was lost elsewhere: in child processes, or by the device's collector."""
        from stepscope.record.limits import native_limit
        from stepscope.trace.model import Losses

        lost = fallen_off + sum(source.lost for source in self._sources)
        if not lost:
            return own
        if self._limit is None:
            return replace(own, events=own.events + lost)
        limit = native_limit(self._limit)
        return Losses.at_limit(
            own.events + lost,
            limit["limit_bytes"],
            keep_newest=limit["keep_newest"],
            is_ring=self.is_ring,
        )


def _joined(cycles: Sequence[Cycle]) -> Trace:
    from stepscope.trace.join import join_traces

    return join_traces([cycle.trace for cycle in cycles])


def _same(part: Captured | None) -> Captured | None:
    return part
