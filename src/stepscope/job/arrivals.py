"""Who arrives when at each collective, how long the others wait, and whose fault that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.labels import Labels
from stepscope.analysis.table import Table
from stepscope.job.meetings import Meetings
from stepscope.job.model import Job
from stepscope.trace.model import Int64

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

    collective: Labels[str]
    group: Labels[str]
    number: Int64
    step: Int64  # -1 outside of steps
    ranks: Int64  # the number of ranks at it
    start_ns: Int64  # when the first one arrived, Unix time of the job's clock
    spread_ns: Int64  # from the first arrival to the last
    last_rank: Int64  # -1 if the clocks are too inexact
    blame_ns: Int64  # from the second last arrival to the last
    wait_ns: Int64  # of all ranks together
    transfer_ns: Int64  # from the last arrival until the first rank was done
    bytes: Int64  # -1 if unknown


@dataclass(frozen=True, slots=True)
class Lateness:
    """For each row of the meetings, how late its rank is."""

    late_ns: Int64  # behind the median rank of its meeting; negative if ahead
    gained_ns: Int64  # the part that does not come from a previous collective still in progress
    wait_ns: Int64  # until the last one came


def arrival_table(job: Job) -> ArrivalTable:
    found = of_several(job.meetings)
    meeting = found.meeting
    first, last, _ = _firsts(found)
    return ArrivalTable(
        meeting,
        found.step[meeting],
        job.number[found.rank],
        found.arrived_ns - first[meeting],
        np.maximum(last[meeting] - found.arrived_ns, 0),
        found.done_ns - first[meeting],
    )


def blame_table(job: Job) -> BlameTable:
    """Return which rank was last at each collective, and by how much."""
    found = of_several(job.meetings)
    names = [kind.name for kind in found.kinds]
    groups = [group_words(kind.group, kind.members) for kind in found.kinds]
    first, last, order = _firsts(found)
    ends = found.first[1:]
    second = found.arrived_ns[order[ends - 2]] if len(found) else last
    blame = last - second
    who = job.number[found.rank[order[ends - 1]]] if len(found) else last
    wait = last[found.meeting] - found.arrived_ns
    starts = found.first[:-1]
    done = np.minimum.reduceat(found.done_ns, starts) if len(found) else last
    total = np.add.reduceat(wait, starts) if len(found) else last
    codes = found.kind.astype(np.uint32)
    sizes = np.array([kind.bytes for kind in found.kinds] or [0], np.int64)
    return BlameTable(
        Labels(codes, names),
        Labels(codes, groups),
        found.number,
        found.step,
        found.count,
        first,
        last - first,
        np.where(blame > job.residual_ns, who, NOBODY),
        blame,
        total,
        np.maximum(done - last, 0),
        sizes[found.kind] if len(found) else last,
    )


def lateness(found: Meetings) -> Lateness:
    """Return how late each rank is at each meeting, compared with the median rank."""
    if not len(found):
        nothing = np.zeros(0, np.int64)
        return Lateness(nothing, nothing, nothing)
    _, last, order = _firsts(found)
    meeting = found.meeting
    middle = found.arrived_ns[order[found.first[:-1] + (found.count - 1) // 2]]
    late = found.arrived_ns - middle[meeting]
    late = np.where(found.count[meeting] > 1, late, 0)
    by_rank = np.lexsort((found.arrived_ns, found.rank))
    before, now = by_rank[:-1], by_rank[1:]
    in_flight = (found.rank[before] == found.rank[now]) & (
        found.done_ns[before] > found.arrived_ns[now]
    )
    brought = np.zeros(len(late), np.int64)
    brought[now[in_flight]] = np.maximum(late[before[in_flight]], 0)
    return Lateness(late, late - brought, np.maximum(last[meeting] - found.arrived_ns, 0))


def of_several(found: Meetings) -> Meetings:
    """Return the meetings of at least two ranks."""
    several = found.count > 1
    return found if several.all() else found.take(several)


def group_words(group: str, members: tuple[int, ...]) -> str:
    """Return a process group's name with some of its ranks."""
    if not members:
        return group or "all"
    if len(members) > 4 and members == tuple(range(members[0], members[-1] + 1)):
        told = f"{members[0]}-{members[-1]}"
    else:
        told = ",".join(map(str, members[:4])) + (",..." if len(members) > 4 else "")
    return f"{group} ({told})" if group else told


def _firsts(found: Meetings) -> tuple[Int64, Int64, Int64]:
    """Return the first and last arrival of each meeting, and the order of all rows by arrival."""
    order = np.lexsort((found.arrived_ns, found.meeting))
    first = found.arrived_ns[order[found.first[:-1]]] if len(found) else found.first[:0]
    last = found.arrived_ns[order[found.first[1:] - 1]] if len(found) else found.first[:0]
    return first, last, order
