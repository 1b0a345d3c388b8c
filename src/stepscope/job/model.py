"""A Job: the usable ranks of one run, matched and on one clock, and the files left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stepscope.analysis.steps.unit import WHOLE_RUN
from stepscope.arguments import file_path
from stepscope.errors import StepscopeError
from stepscope.job.clocks import Clocks, aligned
from stepscope.job.executors import reduced_by
from stepscope.job.meetings import Meetings, job_steps, matched
from stepscope.job.names import rank_files
from stepscope.job.summary import RankSummary
from stepscope.trace.model import Bool, Float64, Int64
from stepscope.trace.store import is_stored_trace

_APART_NS = 60_000_000_000
"""Recordings of one run overlap, or nearly: hosts' clocks differ by less than a minute."""

_NOT_A_RANK = "does not state a rank, nor does its name"


class LeftOut(NamedTuple):
    """A file that the job does not use, and why."""

    path: str
    rank: int | None
    reason: str


@dataclass(frozen=True)
class Job:
    """The ranks of one run. All analyses of ``stepscope.job`` are functions of this."""

    folder: str
    ranks: tuple[RankSummary, ...]  # ascending
    left_out: tuple[LeftOut, ...]
    missing: tuple[int, ...]  # ranks without a usable file
    world_size: int
    meetings: Meetings  # on the job's clock
    clocks: Clocks
    step_numbers: tuple[Int64, ...]  # the job's number of each rank's steps

    def __len__(self) -> int:
        """Return the number of ranks."""
        return len(self.ranks)

    def __repr__(self) -> str:
        """Say in a few words what it holds."""
        events = sum(rank.events for rank in self.ranks)
        return (
            f"<Job of {len(self)} of {self.world_size} ranks, {events:,} events, "
            f"{len(self.meetings):,} collectives, {len(self.steps)} steps>"
        )

    @cached_property
    def number(self) -> Int64:
        """Return the global rank of each."""
        return np.array([rank.rank for rank in self.ranks], np.int64)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Return the host of each, "" where it is not known."""
        return tuple(rank.host for rank in self.ranks)

    @cached_property
    def steps(self) -> Int64:
        """Return the steps that at least half of the ranks have, ascending."""
        count = Counter(step for own in self.step_numbers for step in set(own.tolist()))
        enough = (len(self.ranks) + 1) // 2
        return np.array(sorted(step for step, n in count.items() if n >= enough), np.int64)

    @cached_property
    def unit(self) -> str:
        """Return the word for a step."""
        units = Counter(rank.work.unit for rank in self.ranks if rank.work is not None)
        return units.most_common(1)[0][0] if units else WHOLE_RUN

    def by_step(self, column: Callable[[RankSummary], Any]) -> Float64:
        """Return a figure of each rank (row) and step (column), NaN where it has none."""
        figures = np.full((len(self), len(self.steps)), np.nan)
        for i, (rank, own) in enumerate(zip(self.ranks, self.step_numbers, strict=True)):
            at = np.searchsorted(self.steps, own)
            at = np.minimum(at, max(len(self.steps) - 1, 0))
            is_step = self.steps[at] == own if len(self.steps) else np.zeros(len(own), np.bool_)
            figures[i, at[is_step]] = np.asarray(column(rank), np.float64)[is_step]
        return figures

    @cached_property
    def step_ns(self) -> Float64:
        """Return how long each step of each rank took."""
        return self.by_step(lambda rank: rank.work.end_ns - rank.work.start_ns)  # type: ignore[union-attr]

    @cached_property
    def own_ns(self) -> Float64:
        """Return each step of each rank less its exposed communication."""
        return self.by_step(lambda rank: rank.work.own_ns)  # type: ignore[union-attr]

    @cached_property
    def steady(self) -> Bool:
        """Return which steps show how the job runs once it has started, for most ranks."""
        if not len(self.steps):
            return np.zeros(0, np.bool_)
        shares = self.by_step(lambda rank: rank.work.is_steady)  # type: ignore[union-attr]
        is_steady: Bool = np.nanmean(shares, axis=0) >= 0.5
        return is_steady if is_steady.any() else np.ones(len(is_steady), np.bool_)

    @cached_property
    def typical_step_ns(self) -> float:
        """Return how long a steady step takes: the median of all ranks and steps."""
        steady = self.step_ns[:, self.steady]
        return float(np.nanmedian(steady)) if steady.size else 0.0

    @property
    def residual_ns(self) -> float:
        """Return the time difference below which nothing can be said about who was later."""
        return self.clocks.residual_ns


def open_job(
    folder: str | PathLike[str] | Sequence[str | PathLike[str]],
    executor: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Job:
    """Read the ranks of a run: a folder, or a list of files and folders of single ranks.

    Ours, or those of torch.profiler, Kineto, HTA or Paddle. ``executor`` reduces them, each on its
    own: see ``stepscope.job.executors``. A rank that cannot be used is named in ``left_out``.
    """
    if isinstance(folder, str) or hasattr(folder, "__fspath__"):
        file_path("folder", folder)
        place = Path(folder)
        if not place.is_dir():
            what = "is a file" if place.exists() else "does not exist"
            raise StepscopeError(f"{place} {what}; a job is a folder that holds a trace per rank")
        if is_stored_trace(place):
            raise StepscopeError(f"{place} is one trace; name the folder that holds all ranks")
        paths = [str(path) for path in rank_files(place)]
        called = str(place)
    else:
        paths = [str(path) for path in folder]
        called = str(Path(paths[0]).parent) if paths else ""
    if not paths:
        raise StepscopeError(
            f"{called or 'the list'} holds no traces: a job is a folder with .stepscope folders, "
            "or .json, .json.gz or .pb files of ranks"
        )
    return job_of(called, reduced_by(executor, paths, progress))


def job_of(folder: str, summaries: Iterable[RankSummary]) -> Job:
    """Return the job of some summaries."""
    used, left_out = _usable(list(summaries))
    if not used:
        first = left_out[0] if left_out else LeftOut("", None, "there is nothing")
        raise StepscopeError(
            f"{folder}: no trace of a rank can be used; {Path(first.path).name} {first.reason}"
        )
    world = max([len(used), *(rank.world_size or 0 for rank in used)])
    world = max(world, max(rank.rank or 0 for rank in used) + 1)
    present = {rank.rank for rank in used}
    missing = tuple(number for number in range(world) if number not in present)
    steps = job_steps(used)
    meetings = matched(used, steps)
    hosts = [rank.host for rank in used]
    clocks = aligned(meetings, hosts)
    if clocks.is_aligned:
        meetings = meetings.on_clock(
            clocks.corrected(meetings.rank, meetings.arrived_ns),
            clocks.corrected(meetings.rank, meetings.done_ns),
        )
    return Job(folder, tuple(used), tuple(left_out), missing, world, meetings, clocks, tuple(steps))


def _usable(summaries: list[RankSummary]) -> tuple[list[RankSummary], list[LeftOut]]:
    """Return the ranks of the most common run, and the other files with the reason."""
    left_out = [
        LeftOut(summary.path, summary.rank, summary.problem)
        for summary in summaries
        if summary.problem
    ]
    usable = [summary for summary in summaries if not summary.problem]
    unknown = [summary for summary in usable if summary.rank is None]
    if len(usable) == 1 and unknown:
        usable[0].rank, unknown = 0, []
    left_out += [LeftOut(summary.path, None, _NOT_A_RANK) for summary in unknown if summary.work]
    usable = [summary for summary in usable if summary.rank is not None]
    for rule in (_of_other_run, _of_other_world, _of_other_time):
        others = rule(usable)
        left_out += [LeftOut(summary.path, summary.rank, reason) for summary, reason in others]
        strangers = {summary.path for summary, _ in others}
        usable = [summary for summary in usable if summary.path not in strangers]
    by_rank: dict[int, list[RankSummary]] = {}
    for summary in usable:
        assert summary.rank is not None
        by_rank.setdefault(summary.rank, []).append(summary)
    used = []
    for number in sorted(by_rank):
        first, *again = sorted(
            by_rank[number], key=lambda summary: (summary.rank_by_name, -summary.events)
        )
        used.append(first)
        same = f"is another trace of rank {number}: {Path(first.path).name} is used"
        left_out += [LeftOut(summary.path, number, same) for summary in again]
    return used, left_out


def _most(values: Iterable[Any]) -> Any:
    count = Counter(values)
    return count.most_common(1)[0][0] if count else None


def _of_other_run(summaries: list[RankSummary]) -> list[tuple[RankSummary, str]]:
    usual = _most(summary.run for summary in summaries if summary.run)
    return [
        (summary, f"is from another run: {summary.run!r}; most are from {usual!r}")
        for summary in summaries
        if summary.run and summary.run != usual
    ]


def _of_other_world(summaries: list[RankSummary]) -> list[tuple[RankSummary, str]]:
    usual = _most(summary.world_size for summary in summaries if summary.world_size)
    return [
        (
            summary,
            f"is from another run: its world has {summary.world_size} ranks, the others' {usual}",
        )
        for summary in summaries
        if summary.world_size and summary.world_size != usual
    ]


def _of_other_time(summaries: list[RankSummary]) -> list[tuple[RankSummary, str]]:
    """Return the files that do not overlap in time with most others."""
    if len(summaries) < 3:
        return []
    start = np.array([summary.start_ns + summary.wall_offset_ns for summary in summaries])
    end = np.array([summary.end_ns + summary.wall_offset_ns for summary in summaries])
    usual_start, usual_end = int(np.median(start)), int(np.median(end))
    apart = np.maximum(start - usual_end, usual_start - end)
    return [
        (summary, f"is from another run: it was recorded {apart_s:.0f} s apart from the others")
        for summary, apart_s in zip(summaries, (apart / 1e9).tolist(), strict=True)
        if apart_s * 1e9 > _APART_NS
    ]
