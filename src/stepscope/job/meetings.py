"""The collectives of all ranks, matched: who met where, when each arrived and when it was done.

A meeting is one collective of one process group. Its ranks identify it by group and sequence
number, or else by the order of their calls, within a step if the program marked its steps. The
table is long: a row for each rank of each meeting, ordered by meeting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.job.collectives import NO_NUMBER, Kind
from stepscope.job.summary import RankSummary
from stepscope.trace.model import Bool, Int64

Int32 = NDArray[np.int32]

_PAIRS = frozenset({"send", "recv", "sendrecv", "send_recv", "isend", "irecv"})
_IN_STEP_BITS = 24
_IN_STEP = (1 << _IN_STEP_BITS) - 1
NO_STEP = -1


@dataclass(frozen=True, slots=True)
class Meetings:
    """All meetings by first arrival; the rows of meeting i begin at first[i]."""

    kinds: tuple[Kind, ...]
    kind: Int32  # of each meeting: index of ``kinds``
    number: Int64  # the sequence number, else the index among those of its name and step
    step: Int64  # the job's step that it is in, NO_STEP without
    first: Int64  # its first row; one more value at the end
    rank: Int32  # of each row: index of the job's ranks
    arrived_ns: Int64  # of each row, on the job's clock
    done_ns: Int64
    waited_ns: NDArray[np.float32]  # how long nothing else ran before it was done
    is_open: Bool  # unfinished when the recording stopped

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def count(self) -> Int64:
        """Return how many ranks each meeting has."""
        return np.diff(self.first)

    @property
    def meeting(self) -> Int64:
        return np.repeat(np.arange(len(self)), self.count)

    def rows(self, meeting: int) -> slice:
        return slice(int(self.first[meeting]), int(self.first[meeting + 1]))

    def members(self, meeting: int) -> tuple[int, ...]:
        """Return the global ranks of a meeting's group; () if no trace tells."""
        return self.kinds[int(self.kind[meeting])].members

    def on_clock(self, arrived_ns: Int64, done_ns: Int64) -> Meetings:
        """Return the meetings with other times."""
        return replace(self, arrived_ns=arrived_ns, done_ns=done_ns)

    def take(self, which: Bool) -> Meetings:
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
    """Return the job's step number of each rank's steps.

    Numbers given by the program are kept. Recognised steps are numbered per rank, and shifted so
    that the same collective is in the same step.
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
    numbered = np.flatnonzero((rank.seq != NO_NUMBER) & (rank.step >= 0))[:2000]
    kinds = rank.kinds
    return [
        ((kinds[kind].group, seq), step)
        for kind, seq, step in zip(
            rank.kind[numbered].tolist(), rank.seq[numbered].tolist(), rank.step[numbered].tolist(),
            strict=True,
        )
    ]  # fmt: skip


def matched(ranks: Sequence[RankSummary], steps: Sequence[Int64]) -> Meetings:
    """Match the collectives of all ranks; times are the ranks' own, as Unix time.

    The rows move out of the summaries: with many ranks, two copies would not fit in memory.
    """
    groups: dict[tuple[object, ...], int] = {}
    kinds: dict[Kind, int] = {}
    collected = _Rows(sum(len(rank.kind) for rank in ranks))
    for i, rank in enumerate(ranks):
        is_matched = np.array([kind.name not in _PAIRS for kind in rank.kinds], np.bool_)
        rows = np.flatnonzero(is_matched[rank.kind]) if len(is_matched) else np.zeros(0, np.int64)
        code = np.array([kinds.setdefault(kind, len(kinds)) for kind in rank.kinds], np.int32)
        if len(rows):
            group, number = _numbered(rank, rows, groups)
            collected.add(
                group=group,
                number=number,
                rank=i,
                kind=code[rank.kind[rows]],
                step=np.append(steps[i], NO_STEP)[rank.step[rows]],
                arrived=rank.arrived_ns[rows] + rank.wall_offset_ns,
                done=rank.done_ns[rows] + rank.wall_offset_ns,
                waited=rank.waited_ns[rows],
                is_open=rank.is_open[rows],
            )
        _take_rows(rank)
    return _long(tuple(kinds), collected)


_TYPES: dict[str, type[np.generic]] = {
    "group": np.int32, "number": np.int64, "rank": np.int32, "kind": np.int32, "step": np.int64,
    "arrived": np.int64, "done": np.int64, "waited": np.float32, "is_open": np.bool_,
}  # fmt: skip


class _Rows:
    """The collectives of all ranks as columns, each built once and taken once.

    A thousand ranks have millions of rows; joining parts would hold them twice.
    """

    def __init__(self, most: int) -> None:
        self._columns: dict[str, NDArray[Any]] = {
            name: np.empty(most, kind) for name, kind in _TYPES.items()
        }
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, **values: Any) -> None:
        end = self._count + len(values["number"])
        for name, column in self._columns.items():
            column[self._count : end] = values[name]
        self._count = end

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name][: self._count]

    def taken(self, name: str, rows: Int64) -> NDArray[Any]:
        """Return some rows of a column and drop the column."""
        column: NDArray[Any] = self._columns.pop(name)[rows]
        return column


def _take_rows(rank: RankSummary) -> None:
    """Empty the columns of a summary that the meetings contain now."""
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
    """Return the group of each row, and its sequence number in the group."""
    seq = rank.seq[rows]
    has_seq = seq != NO_NUMBER
    numbered = [groups.setdefault((kind.group, kind.members), len(groups)) for kind in rank.kinds]
    ordered = [
        groups.setdefault((kind.group, kind.members, kind.name), len(groups)) for kind in rank.kinds
    ]
    kind = rank.kind[rows]
    group = np.where(has_seq, np.array(numbered)[kind], np.array(ordered)[kind])
    by_marks = rank.work is not None and rank.work.by_marks
    step = np.zeros(len(rows), np.int64)
    if by_marks and rank.work is not None:
        step = np.append(rank.work.number, NO_STEP)[rank.step[rows]] + 1
    within = _ordinal(group << 32 | step)
    return group, np.where(has_seq, seq, step << _IN_STEP_BITS | within)


def _ordinal(key: Int64) -> Int64:
    """Return for each row how many earlier ones have the same key."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    start = np.maximum.accumulate(np.where(begins, np.arange(len(key)), 0))
    ordinal = np.empty(len(key), np.int64)
    ordinal[order] = np.arange(len(key)) - start
    return ordinal


def _long(kinds: tuple[Kind, ...], collected: _Rows) -> Meetings:
    """Order the rows by meeting, and the meetings by time."""
    if not len(collected):
        return _none()
    order, new = _by_meeting(collected)
    first = np.flatnonzero(new)
    began = np.minimum.reduceat(collected["arrived"][order], first)
    by_time = np.argsort(began, kind="stable")
    count = np.diff(np.append(first, len(order)))
    heads = order[first[by_time]]
    starts = np.concatenate([[0], np.cumsum(count[by_time])])
    rows = np.repeat(first[by_time] - starts[:-1], count[by_time])
    rows += np.arange(len(order))
    rows = order[rows]
    del order, new
    number = collected.taken("number", heads)
    return Meetings(
        kinds,
        collected.taken("kind", heads),
        np.where(number >> _IN_STEP_BITS, number & _IN_STEP, number),
        collected.taken("step", heads),
        starts,
        collected.taken("rank", rows),
        collected.taken("arrived", rows),
        collected.taken("done", rows),
        collected.taken("waited", rows),
        collected.taken("is_open", rows),
    )


def _by_meeting(rows: _Rows) -> tuple[Int64, Bool]:
    """Return the rows by meeting and rank, and which of them begin a meeting."""
    # The rows are in the order of ranks, and stay so within a meeting: the sort is stable.
    order = np.lexsort((rows["number"], rows["group"]))
    same = _repeats(rows["group"][order])
    same &= _repeats(rows["number"][order])
    once = ~(same & _repeats(rows["rank"][order]))  # duplicates of a number are left out
    return order[once], ~same[once]


def _repeats(values: NDArray[Any]) -> Bool:
    """Return which values equal their predecessor."""
    is_repeat = np.zeros(len(values), np.bool_)
    np.equal(values[1:], values[:-1], out=is_repeat[1:])
    return is_repeat
