"""The processes of a run: which one is the program, which are ranks, and which help others."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.record.read_back.recovering import captured_of, trace_of
from stepscope.record.read_back.relations import RunProcess, ancestors
from stepscope.record.stream.left_behind import LeftBehind
from stepscope.record.stream.notes import END, NOTICES, PROCESS
from stepscope.trace.join import merge_parts, named, placed
from stepscope.trace.kinds import SliceKind
from stepscope.trace.names import OPTIMIZER_STEP, REQUEST_CATEGORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.record.read_back.recovering import ProcessCapture
    from stepscope.record.stream.places import StreamFolders
    from stepscope.trace.model import Trace

_FEWEST_OPERATORS = 100  # a process with fewer only starts others


class Member(RunProcess):
    """A process of a run that left a stream."""

    def __init__(self, remains: LeftBehind) -> None:
        self.remains = remains
        self.pid = remains.pid

    def noted(self, name: str) -> dict[str, Any]:
        value = self.remains.meta.get(name, {})
        return value if isinstance(value, dict) else {}

    @property
    def name(self) -> str:
        name = self.noted(PROCESS).get("name")
        return name if isinstance(name, str) and name else f"process {self.pid}"

    @property
    def notices(self) -> list[str]:
        lines = self.noted(NOTICES).get("lines")
        return [str(line) for line in lines] if isinstance(lines, list) else []

    @cached_property
    def recorded(self) -> ProcessCapture:
        return captured_of(self.remains)

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
        return self.noted(END).get("found_program") is not False

    @property
    def operators(self) -> int:
        return int((self.recorded.captured.slices.kind == SliceKind.OPERATOR).sum())


class Family:
    """All processes of a run that left a stream."""

    def __init__(self, folders: StreamFolders, *, is_rank: bool = False, since_ns: int = 0) -> None:
        """Read what they noted of themselves; the whole run may itself be one rank of a job.

        Slices that began before ``since_ns`` are not read.
        """
        self.folders = folders
        self.unreadable: list[str] = []
        self.members = list(self._read(since_ns))
        self._by_pid = {member.pid: member for member in self.members}
        self.ranks: list[Member] = [] if is_rank else self._found_ranks()

    def program(self) -> Member | None:
        """Return the process that the answer is about; None where nothing was recorded.

        It is the one that does the steps, or handles the requests; else the first of all, or, of
        several that a script has started, the busiest.
        """
        if len(self.members) < 2:
            return next(iter(self.members), None)
        for kind in (0, 1):  # steps, then requests
            most = max(self.members, key=lambda member: member.work[kind])
            if most.work[kind]:
                return most
        first = [member for member in self.members if member.parent not in self._by_pid]
        return max(first or self.members, key=lambda member: member.work[2])

    def launcher(self) -> Member | None:
        """Return the process that started the ranks, if it did work of its own."""
        others = [member for member in self.members if self._rank_above(member) is None]
        busy = [member for member in others if member.operators >= _FEWEST_OPERATORS]
        return max(busy, key=lambda member: member.operators, default=None)

    def trace_of(self, member: Member, since_ns: int = 0) -> Trace:
        """Return the trace of a process, with what its helpers recorded, from a moment on."""
        helpers = [helper for helper in self._helpers(member) if _has_recorded(helper)]
        ended = END in member.remains.meta
        recorded = member.recorded.since(since_ns)
        start_ns = recorded.start_ns if recorded.is_ring else since_ns
        recorded = recorded.with_whole_run(member.pid, member.name, ended=ended)
        if helpers:
            parts = [
                named(helper.recorded.since(start_ns).captured, helper.pid, helper.name)
                for helper in helpers
            ]
            own = recorded.captured
            threads = [track.logical_id for track in own.tracks]
            largest = max(own.slices.largest_link(), own.marks.largest_link(), *threads, 0)
            recorded = recorded.with_tables(merge_parts([own, *placed(parts, largest)]))
        return trace_of(member.remains, recorded, children=len(helpers))

    def _read(self, since_ns: int) -> Iterator[Member]:
        for name in self.folders.processes():
            try:
                yield Member(LeftBehind.of(self.folders, name, since_ns))
            except RuntimeError as error:
                self.unreadable.append(f"what process {name} recorded cannot be read: {error}")

    def _found_ranks(self) -> list[Member]:
        """Return the ranks by number: workers of a rank have its place in their environment."""
        by_rank: dict[int, list[Member]] = {}
        for member in self.members:
            above = ancestors(member, self._by_pid)
            if member.rank is not None and all(other.rank != member.rank for other in above):
                by_rank.setdefault(member.rank, []).append(member)
        return [member for rank in sorted(by_rank) for member in _at_work(by_rank[rank])]

    def _helpers(self, member: Member) -> Sequence[Member]:
        others = [other for other in self.members if other is not member]
        if not self.ranks:
            return others
        return [other for other in others if self._rank_above(other) is member]

    def _rank_above(self, member: Member) -> Member | None:
        line = (member, *ancestors(member, self._by_pid))
        return next((process for process in line if process in self.ranks), None)


def _at_work(candidates: Sequence[Member]) -> Sequence[Member]:
    """Return those processes of one rank that did its work: several if the rank was restarted."""
    if len(candidates) < 2:
        return candidates
    busy = [member for member in candidates if member.operators]
    return busy or [max(candidates, key=lambda member: member.work)]


def _has_recorded(member: Member) -> bool:
    captured = member.recorded.captured
    return bool(len(captured.slices) or len(captured.samples))
