"""The collectives of all ranks, matched: who met where, when each arrived and when it was done.

A meeting is one collective of one process group. Ranks know it by the group and its sequence
number; without numbers by the order in which each rank calls it, within a step where the program
marked its steps. The table is long: a row for each rank of each meeting, ordered by meeting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stepscope.job.collectives import NO_NUMBER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.job.collectives import Kind
    from stepscope.job.summary import RankSummary
    from stepscope.trace.model import Int64

    Bool = NDArray[np.bool_]
    Int32 = NDArray[np.int32]

_PAIRS = frozenset({"send", "recv", "sendrecv", "send_recv", "isend", "irecv"})
_IN_STEP_BITS = 24
_IN_STEP = (1 << _IN_STEP_BITS) - 1
NO_STEP = -1


@dataclass(frozen=True, slots=True)
class Meetings:
    """All meetings, by the time of the first arrival; the rows of meeting i are first[i] on."""

    kinds: tuple[Kind, ...]
    kind: Int32  # of each meeting: index of ``kinds``
    number: Int64  # the sequence number; without, which one of its name and step it is
    step: Int64  # the job's step that it is in, NO_STEP without
    first: Int64  # its first row; one more value at the end
    rank: Int32  # of each row: index of the job's ranks
    arrived_ns: Int64  # of each row, on the job's clock
    done_ns: Int64
    waited_ns: NDArray[np.float32]  # until it was done nothing else ran for so long
    is_open: Bool  # it was not done when the recording stopped

    def __len__(self) -> int:
        """Return the number of meetings."""
        return len(self.kind)

    @property
    def count(self) -> Int64:
        """Return how many ranks were seen at each."""
        return np.diff(self.first)

    @property
    def meeting(self) -> Int64:
        """Return the meeting of each row."""
        return np.repeat(np.arange(len(self)), self.count)

    def rows(self, meeting: int) -> slice:
        """Return the rows of one meeting."""
        return slice(int(self.first[meeting]), int(self.first[meeting + 1]))

    def members(self, meeting: int) -> tuple[int, ...]:
        """Return the global ranks of a meeting's group; () where no trace says."""
        return self.kinds[int(self.kind[meeting])].members

    def on_clock(self, arrived_ns: Int64, done_ns: Int64) -> Meetings:
        """Return the same with other times."""
        return replace(self, arrived_ns=arrived_ns, done_ns=done_ns)

    def take(self, which: Bool) -> Meetings:
        """Return some meetings."""
        rows = np.repeat(which, self.count)
        first = np.concatenate([[0], np.cumsum(self.count[which])])
        return replace(
            self,
            kind=self.kind[which],
            number=self.number[which],
            step=self.step[which],
            first=first,
            rank=self.rank[rows],
            arrived_ns=self.arrived_ns[rows],
            done_ns=self.done_ns[rows],
            waited_ns=self.waited_ns[rows],
            is_open=self.is_open[rows],
        )


def job_steps(ranks: Sequence[RankSummary]) -> list[Int64]:
    """Return the job's number of each rank's steps.

    Numbers that the program gave count as they are. Steps that were recognised are numbered by each
    rank for itself: they are shifted so that the same collective is in the same step.
    """
    numbers = [_own_numbers(rank) for rank in ranks]
    if not ranks:
        return numbers
    reference: dict[tuple[str, int], int] = {}
    for key, step in _steps_of_calls(ranks[0]):
        reference.setdefault(key, step)
    for i, rank in enumerate(ranks[1:], 1):
        if rank.work is None or rank.work.by_marks:
            continue
        apart = [reference[key] - step for key, step in _steps_of_calls(rank) if key in reference]
        if apart:
            numbers[i] = numbers[i] + round(float(np.median(apart)))
    return numbers


def _own_numbers(rank: RankSummary) -> Int64:
    if rank.work is None:
        return np.zeros(0, np.int64)
    return rank.work.number if rank.work.by_marks else np.arange(len(rank.work))


def _steps_of_calls(rank: RankSummary) -> list[tuple[tuple[str, int], int]]:
    """Return the step of each collective that has a sequence number."""
    known = np.flatnonzero((rank.seq != NO_NUMBER) & (rank.step >= 0))[:2000]
    kinds = rank.kinds
    return [
        ((kinds[kind].group, seq), step)
        for kind, seq, step in zip(
            rank.kind[known].tolist(), rank.seq[known].tolist(), rank.step[known].tolist(),
            strict=True,
        )
    ]  # fmt: skip


def matched(ranks: Sequence[RankSummary], steps: Sequence[Int64]) -> Meetings:
    """Match the collectives of all ranks; times are the ranks' own, as Unix time.

    The rows are taken out of the summaries: of many ranks, they would be there twice.
    """
    groups: dict[tuple[object, ...], int] = {}
    kinds: dict[Kind, int] = {}
    parts = []
    for i, rank in enumerate(ranks):
        kept = np.array([each.name not in _PAIRS for each in rank.kinds], np.bool_)
        rows = np.flatnonzero(kept[rank.kind]) if len(kept) else np.zeros(0, np.int64)
        group, number = _numbered(rank, rows, groups)
        code = np.array([kinds.setdefault(each, len(kinds)) for each in rank.kinds], np.int32)
        step = np.append(steps[i], NO_STEP)[rank.step[rows]]
        offset = rank.wall_offset_ns
        parts.append(
            (
                group, number, np.full(len(rows), i, np.int32), code[rank.kind[rows]] if len(rows)
                else np.zeros(0, np.int32), step, rank.arrived_ns[rows] + offset,
                rank.done_ns[rows] + offset, rank.waited_ns[rows], rank.is_open[rows],
            )
        )  # fmt: skip
        _take_rows(rank)
    if not parts:
        return _none()
    columns = [list(column) for column in zip(*parts, strict=True)]
    del parts
    for i, column in enumerate(columns):
        columns[i] = np.concatenate(column)  # type: ignore[call-overload]
    return _long(tuple(kinds), columns)  # type: ignore[arg-type]


def _take_rows(rank: RankSummary) -> None:
    """Empty the columns of a summary that are in the meetings now."""
    rank.arrived_ns = rank.done_ns = rank.seq = np.zeros(0, np.int64)
    rank.kind = rank.step = np.zeros(0, np.int32)
    rank.waited_ns, rank.is_open = np.zeros(0, np.float32), np.zeros(0, np.bool_)


def _none() -> Meetings:
    nothing = np.zeros(0, np.int64)
    small = nothing.astype(np.int32)
    return Meetings(
        (), small, nothing, nothing, np.zeros(1, np.int64), small, nothing, nothing,
        nothing.astype(np.float32), nothing.astype(np.bool_),
    )  # fmt: skip


def _numbered(
    rank: RankSummary, rows: Int64, groups: dict[tuple[object, ...], int]
) -> tuple[Int64, Int64]:
    """Return the group of each row, and its number there."""
    seq = rank.seq[rows]
    has_seq = seq != NO_NUMBER
    numbered = [groups.setdefault((kind.group, kind.members), len(groups)) for kind in rank.kinds]
    ordered = [
        groups.setdefault((kind.group, kind.members, kind.name), len(groups)) for kind in rank.kinds
    ]
    if not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    kind = rank.kind[rows]
    group = np.where(has_seq, np.array(numbered)[kind], np.array(ordered)[kind])
    by_marks = rank.work is not None and rank.work.by_marks
    step = np.zeros(len(rows), np.int64)
    if by_marks and rank.work is not None:
        step = np.append(rank.work.number, NO_STEP)[rank.step[rows]] + 1
    within = _ordinal(group << 32 | step)
    return group, np.where(has_seq, seq, step << _IN_STEP_BITS | within)


def _ordinal(key: Int64) -> Int64:
    """Return how many rows before each have the same key."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    start = np.maximum.accumulate(np.where(begins, np.arange(len(key)), 0))
    ordinal = np.empty(len(key), np.int64)
    ordinal[order] = np.arange(len(key)) - start
    return ordinal


def _long(kinds: tuple[Kind, ...], columns: list[NDArray]) -> Meetings:  # type: ignore[type-arg]
    group, number, rank, kind, step, arrived, done, waited, is_open = columns
    if not len(group):
        return _none()
    order = np.lexsort((rank, number, group))
    new = np.concatenate(
        [[True], (np.diff(group[order]) != 0) | (np.diff(number[order]) != 0)]
    )  # one row a rank: a second one with the same number is left out
    twice = np.concatenate([[False], ~new[1:] & (np.diff(rank[order]) == 0)])
    order, new = order[~twice], new[~twice]
    first = np.flatnonzero(new)
    began = np.minimum.reduceat(arrived[order], first)
    by_time = np.argsort(began, kind="stable")
    count = np.diff(np.append(first, len(order)))
    starts = np.concatenate([[0], np.cumsum(count[by_time])])
    offsets = np.repeat(first[by_time] - starts[:-1], count[by_time])
    rows = order[offsets + np.arange(len(order))]
    heads = order[first[by_time]]
    shown = np.where(number[heads] >> _IN_STEP_BITS, number[heads] & _IN_STEP, number[heads])
    return Meetings(
        kinds, kind[heads], shown, step[heads], starts, rank[rows], arrived[rows],
        done[rows], waited[rows], is_open[rows],
    )  # fmt: skip
