"""Hangs: collectives that some ranks of a group never reached, while others waited there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.table import Table
from stepscope.job.arrivals import group_words
from stepscope.job.model import Job
from stepscope.trace.model import Bool, Int64

_SHORTEST_NS = 1_000_000
"""A rank whose recording ended sooner after the others' arrival may have been about to arrive."""


@dataclass(frozen=True, slots=True)
class HangTable(Table):
    collective: tuple[str, ...]
    group: tuple[str, ...]
    number: Int64
    step: Int64
    waiting: tuple[str, ...]  # ranks that arrived, as text: "0, 1, 3"
    never_arrived: tuple[str, ...]  # recorded ranks of the group that did not arrive
    waited_ns: Int64  # from the first arrival to the end of the recording
    last_reached: tuple[str, ...]  # the last collective of the ranks that never arrived


def hang_table(job: Job) -> HangTable:
    """Return the collectives at which ranks wait for ranks that never arrived."""
    meetings = job.meetings
    place = {int(number): i for i, number in enumerate(job.number)}
    times = np.array([rank.end_ns + rank.wall_offset_ns for rank in job.ranks], np.int64)
    ends = job.clocks.corrected(np.arange(len(job)), times)
    rows = []
    for i in np.flatnonzero(_unfinished(job)).tolist():
        kind = meetings.kinds[meetings.kind[i]]
        here = meetings.rows(i)
        arrived = {int(rank) for rank in meetings.rank[here]}
        # A group without a list of its members misses no rank that we could name, except for the
        # group of all ranks.
        members = {place[member] for member in kind.members if member in place}
        members = members or (set(place.values()) if not kind.group else arrived)
        came = int(meetings.arrived_ns[here].min())
        absent = sorted(rank for rank in members - arrived if ends[rank] - came > _SHORTEST_NS)
        if not absent:
            continue
        until = max(int(ends[rank]) for rank in arrived)
        rows.append(
            (
                kind.name, group_words(kind.group, kind.members), int(meetings.number[i]),
                int(meetings.step[i]), _list(job, sorted(arrived)), _list(job, absent),
                max(until - came, 0), "; ".join(_last(job, rank) for rank in absent[:4]),
            )
        )  # fmt: skip
    columns = list(zip(*rows, strict=True)) or [()] * 8
    return HangTable(
        tuple(columns[0]), tuple(columns[1]), np.array(columns[2], np.int64),
        np.array(columns[3], np.int64), tuple(columns[4]), tuple(columns[5]),
        np.array(columns[6], np.int64), tuple(columns[7]),
    )  # fmt: skip


def _unfinished(job: Job) -> Bool:
    """Return the meetings that were incomplete for a rank when its recording stopped."""
    meetings = job.meetings
    if not len(meetings):
        return np.zeros(0, np.bool_)
    found_open: Bool = np.add.reduceat(meetings.is_open.astype(np.int64), meetings.first[:-1]) > 0
    return found_open


def _list(job: Job, places: list[int]) -> str:
    numbers = [str(int(job.number[i])) for i in places]
    more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return ", ".join(numbers[:8]) + more


def _last(job: Job, rank: int) -> str:
    """Describe the last collective that a rank reached."""
    meetings = job.meetings
    mine = np.flatnonzero(meetings.rank == rank)
    number = int(job.number[rank])
    if not len(mine):
        return f"rank {number} reached no collective"
    row = int(mine[meetings.arrived_ns[mine].argmax()])
    i = int(np.searchsorted(meetings.first, row, side="right")) - 1
    kind = meetings.kinds[meetings.kind[i]]
    group = group_words(kind.group, kind.members)
    return f"rank {number} reached {kind.name} {int(meetings.number[i])} of group {group} last"
