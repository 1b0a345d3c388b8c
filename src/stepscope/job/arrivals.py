"""When ranks arrive at each collective, how long the others wait, and which one is to blame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.labels import Labels
from stepscope.analysis.base.table import Table
from stepscope.job.meetings import Meetings
from stepscope.job.model import Job
from stepscope.trace.measures import Shown, measure
from stepscope.trace.model import Int64
from stepscope.units import BYTES, COUNT, TEXT, TIME

NOBODY = -1


@dataclass(frozen=True, slots=True)
class ArrivalTable(Table):
    """One row per collective and rank: the arrival matrix, in long form."""

    collective: Int64  # row of the blame table
    step: Int64  # -1 outside of steps
    rank: Int64
    arrived_ns: Int64  # since the first rank's arrival
    wait_ns: Int64  # until the last rank came
    done_ns: Int64  # since the first rank's arrival


@dataclass(frozen=True, slots=True)
class BlameTable(Table):
    """One row per collective of at least two ranks, in the order of time."""

    collective: Labels[str] = measure("Collective", TEXT)
    group: Labels[str] = measure("Group", TEXT)
    number: Int64 = measure("Number", COUNT)
    step: Int64 = measure("Step", COUNT)  # -1 outside of steps
    ranks: Int64 = measure("Ranks", COUNT, shown=Shown.DATA)  # the number of ranks at it
    start_ns: Int64 = measure("Start", TIME, "The first arrival, Unix time", shown=Shown.DATA)
    spread_ns: Int64 = measure("First to last", TIME)
    last_rank: Int64 = measure("Last rank", COUNT, "None if the clocks are too inexact")
    blame_ns: Int64 = measure("Blame", TIME, "The last arrival less the second last")
    wait_ns: Int64 = measure("All waits", TIME, "Of all ranks together")
    transfer_ns: Int64 = measure("Transfer", TIME, "From the last arrival to the first end")
    bytes: Int64 = measure("Bytes", BYTES)  # -1 if unknown


@dataclass(frozen=True, slots=True)
class Lateness:
    """For each row of the meetings, how late its rank is."""

    late_ns: Int64  # behind the median rank of its meeting; negative if ahead
    gained_ns: Int64  # the part that does not come from a previous collective still in progress
    wait_ns: Int64  # until the last one came


def arrival_table(job: Job) -> ArrivalTable:
    meetings = of_several(job.meetings)
    meeting = meetings.meeting
    first, last, _ = _firsts(meetings)
    return ArrivalTable(
        meeting,
        meetings.step[meeting],
        job.number[meetings.rank],
        meetings.arrived_ns - first[meeting],
        np.maximum(last[meeting] - meetings.arrived_ns, 0),
        meetings.done_ns - first[meeting],
    )


def blame_table(job: Job) -> BlameTable:
    """Return which rank was last at each collective, and by how much."""
    meetings = of_several(job.meetings)
    names = [kind.name for kind in meetings.kinds]
    groups = [group_words(kind.group, kind.members) for kind in meetings.kinds]
    first, last, order = _firsts(meetings)
    ends = meetings.first[1:]
    second = meetings.arrived_ns[order[ends - 2]] if len(meetings) else last
    blame = last - second
    who = job.number[meetings.rank[order[ends - 1]]] if len(meetings) else last
    wait = last[meetings.meeting] - meetings.arrived_ns
    starts = meetings.first[:-1]
    done = np.minimum.reduceat(meetings.done_ns, starts) if len(meetings) else last
    total = np.add.reduceat(wait, starts) if len(meetings) else last
    codes = meetings.kind.astype(np.uint32)
    sizes = np.array([kind.bytes for kind in meetings.kinds] or [0], np.int64)
    return BlameTable(
        Labels(codes, names),
        Labels(codes, groups),
        meetings.number,
        meetings.step,
        meetings.count,
        first,
        last - first,
        np.where(blame > job.residual_ns, who, NOBODY),
        blame,
        total,
        np.maximum(done - last, 0),
        sizes[meetings.kind] if len(meetings) else last,
    )


def lateness(meetings: Meetings) -> Lateness:
    """Return how late each rank is at each meeting, compared with the median rank."""
    if not len(meetings):
        nothing = np.zeros(0, np.int64)
        return Lateness(nothing, nothing, nothing)
    _, last, order = _firsts(meetings)
    meeting = meetings.meeting
    middle = meetings.arrived_ns[order[meetings.first[:-1] + (meetings.count - 1) // 2]]
    late = meetings.arrived_ns - middle[meeting]
    late = np.where(meetings.count[meeting] > 1, late, 0)
    by_rank = np.lexsort((meetings.arrived_ns, meetings.rank))
    before, now = by_rank[:-1], by_rank[1:]
    in_flight = (meetings.rank[before] == meetings.rank[now]) & (
        meetings.done_ns[before] > meetings.arrived_ns[now]
    )
    brought = np.zeros(len(late), np.int64)
    brought[now[in_flight]] = np.maximum(late[before[in_flight]], 0)
    return Lateness(late, late - brought, np.maximum(last[meeting] - meetings.arrived_ns, 0))


def of_several(meetings: Meetings) -> Meetings:
    """Return the meetings of at least two ranks."""
    several = meetings.count > 1
    return meetings if several.all() else meetings.take(several)


def group_words(group: str, members: tuple[int, ...]) -> str:
    """Return a process group's name with some of its ranks."""
    if not members:
        return group or "all"
    if len(members) > 4 and members == tuple(range(members[0], members[-1] + 1)):
        ranks = f"{members[0]}-{members[-1]}"
    else:
        ranks = ",".join(map(str, members[:4])) + (",..." if len(members) > 4 else "")
    return f"{group} ({ranks})" if group else ranks


def _firsts(meetings: Meetings) -> tuple[Int64, Int64, Int64]:
    """Return the first and last arrival of each meeting, and the order of all rows by arrival."""
    order = np.lexsort((meetings.arrived_ns, meetings.meeting))
    first = meetings.arrived_ns[order[meetings.first[:-1]]] if len(meetings) else meetings.first[:0]
    last = (
        meetings.arrived_ns[order[meetings.first[1:] - 1]] if len(meetings) else meetings.first[:0]
    )
    return first, last, order
