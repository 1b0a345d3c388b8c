"""The processes of a run: which one is the program, which are ranks, and which help others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.record.stream.left_behind import LeftBehind
from stepscope.record.stream.notes import END, FACTS, NOTICES, PROCESS, SOURCES
from stepscope.record.stream.recovering import captured_of, trace_of
from stepscope.trace.join import merge_parts, named, placed
from stepscope.trace.kinds import SliceKind
from stepscope.trace.names import OPTIMIZER_STEP, REQUEST_CATEGORY
from stepscope.trace.process_facts import place_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.record.stream.places import StreamFolders
    from stepscope.record.stream.recovering import ProcessCapture
    from stepscope.trace.model import Trace

_FEWEST_OPERATORS = 100  # of a process that does more than to start others


@dataclass(frozen=True)
class Member:
    """One process of a run."""

    left: LeftBehind

    @property
    def pid(self) -> int:
        return self.left.pid

    @property
    def parent(self) -> int:
        number = self.left.meta.get(FACTS, {}).get("ppid")
        return number if isinstance(number, int) else 0

    @property
    def name(self) -> str:
        name = self.left.meta.get(PROCESS, {}).get("name")
        return name if isinstance(name, str) and name else f"process {self.pid}"

    @property
    def notices(self) -> list[str]:
        lines = self.left.meta.get(NOTICES, {}).get("lines")
        return [str(line) for line in lines] if isinstance(lines, list) else []

    @cached_property
    def rank(self) -> int | None:
        place = self._place
        return place["rank"] if (place["world_size"] or 1) > 1 else None

    @cached_property
    def recorded(self) -> ProcessCapture:
        return captured_of(self.left)

    @cached_property
    def work(self) -> tuple[int, int, int]:
        """Return the number of steps, of requests and of samples."""
        captured = self.recorded.captured
        slices = captured.slices
        are_steps = [text.startswith(OPTIMIZER_STEP) for text in captured.strings]
        is_step = np.array(are_steps, np.bool_)[slices.name] | (slices.kind == SliceKind.STEP)
        is_request = np.array([text == REQUEST_CATEGORY for text in captured.strings])[
            slices.category
        ]
        return int(is_step.sum()), int(is_request.sum()), len(captured.samples)

    @property
    def has_begun(self) -> bool:
        """Return whether Python found what it was to run."""
        return self.left.meta.get(END, {}).get("found_program") is not False

    @property
    def operators(self) -> int:
        return int((self.recorded.captured.slices.kind == SliceKind.OPERATOR).sum())

    @cached_property
    def _place(self) -> dict[str, Any]:
        job = self.left.meta.get(SOURCES, {}).get("job")
        return place_facts(self.left.meta.get(FACTS, {}), job if isinstance(job, dict) else None)


class Family:
    """All processes of a run that left a stream."""

    def __init__(self, folders: StreamFolders, *, is_rank: bool = False, since_ns: int = 0) -> None:
        """Read what they noted of themselves; the whole run may itself be one rank of a job.

        Slices that began before ``since_ns`` are not read.
        """
        self.folders = folders
        self.unreadable: list[str] = []
        self.members = list(self._read(since_ns))
        self._by_pid = {each.pid: each for each in self.members}
        self.ranks: list[Member] = [] if is_rank else self._found_ranks()

    def program(self) -> Member | None:
        """Return the process that the answer is about; None where nothing was recorded.

        It is the one that does the steps, or handles the requests; else the first of all, or, of
        several that a script has started, the busiest.
        """
        if len(self.members) < 2:
            return next(iter(self.members), None)
        for kind in (0, 1):  # of work
            most = max(self.members, key=lambda each: each.work[kind])
            if most.work[kind]:
                return most
        first = [each for each in self.members if each.parent not in self._by_pid]
        return max(first or self.members, key=lambda each: each.work[2])

    def launcher(self) -> Member | None:
        """Return the process that started the ranks, if it did work of its own."""
        others = [each for each in self.members if self._rank_above(each) is None]
        busy = [each for each in others if each.operators >= _FEWEST_OPERATORS]
        return max(busy, key=lambda each: each.operators, default=None)

    def trace_of(self, member: Member, since_ns: int = 0) -> Trace:
        """Return the trace of a process, with what its helpers recorded, from a moment on."""
        helpers = [each for each in self._helpers(member) if _has_recorded(each)]
        ended = END in member.left.meta
        recorded = member.recorded.since(since_ns)
        start_ns = recorded.start_ns if recorded.is_ring else since_ns
        recorded = recorded.with_whole_run(member.pid, member.name, ended=ended)
        if helpers:
            parts = [
                named(each.recorded.since(start_ns).captured, each.pid, each.name)
                for each in helpers
            ]
            own = recorded.captured
            threads = [track.logical_id for track in own.tracks]
            largest = max(own.slices.largest_link(), own.marks.largest_link(), *threads, 0)
            recorded = recorded.with_tables(merge_parts([own, *placed(parts, largest)]))
        return trace_of(member.left, recorded, children=len(helpers))

    def _read(self, since_ns: int) -> Iterator[Member]:
        for name in self.folders.processes():
            try:
                yield Member(LeftBehind.of(self.folders, name, since_ns))
            except RuntimeError as error:
                self.unreadable.append(f"what process {name} recorded cannot be read: {error}")

    def _found_ranks(self) -> list[Member]:
        """Return the ranks by number: workers of a rank have its place in their environment."""
        found = [
            each
            for each in self.members
            if each.rank is not None and all(above.rank != each.rank for above in self._above(each))
        ]
        by_rank: dict[int, list[Member]] = {}
        for each in found:
            by_rank.setdefault(each.rank or 0, []).append(each)
        return [each for rank in sorted(by_rank) for each in _at_work(by_rank[rank])]

    def _helpers(self, member: Member) -> Sequence[Member]:
        rest = [each for each in self.members if each is not member]
        if not self.ranks:
            return rest
        return [each for each in rest if self._rank_above(each) is member]

    def _rank_above(self, member: Member) -> Member | None:
        return next((each for each in (member, *self._above(member)) if each in self.ranks), None)

    def _above(self, member: Member) -> Iterator[Member]:
        """Yield the ancestors of a process, the nearest first."""
        seen = {member.pid}
        while (parent := self._by_pid.get(member.parent)) is not None and parent.pid not in seen:
            seen.add(parent.pid)
            yield parent
            member = parent


def _at_work(candidates: Sequence[Member]) -> Sequence[Member]:
    """Return those processes of one rank that did its work: several if the rank was restarted."""
    if len(candidates) < 2:
        return candidates
    busy = [each for each in candidates if each.operators]
    return busy or [max(candidates, key=lambda each: each.work)]


def _has_recorded(member: Member) -> bool:
    captured = member.recorded.captured
    return bool(len(captured.slices) or len(captured.samples))
