"""Why a rank is late: its activities in late steps, compared with the median of the other ranks.

Every reason is an excess: the rank's ns per step for an activity, less the median of the others' in
the same steps. Reasons may overlap (extra operators are forward time, too); the first one explains
most of the delay, and specific reasons come before general ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.findings.memory import DRIVER_ALLOCATION
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.unit import WHOLE_RUN
from stepscope.job.model import Job
from stepscope.job.work import StepRows, StepWork
from stepscope.trace.model import Float64, Int64
from stepscope.trace.names import COLLECTION
from stepscope.units import duration_text

EXPLAINS = 0.3
"""Reasons for a smaller share of the delay are not named."""

_OF_OPERATORS = tuple(cause.words for cause in (Cause.FORWARD, Cause.BACKWARD, Cause.OPTIMIZER))
_GENERAL = frozenset({*_OF_OPERATORS, Cause.OTHER.words, "own work", "device idle"})
_GENERAL_COUNTS = 0.5  # a general reason ranks lower unless it explains this much more
_OF_MACHINE = frozenset({"contention", "slow-operators"})
_MORE_CALLS = 1.05
_CONTENTION = 0.25  # share of the excess: above it, waiting for cores is the reason
_MOST_PEERS = 64  # enough for a median
_IDS = {
    Cause.DATA_LOADING.words: "data-loading",
    Cause.COLLECTION.words: "garbage-collection",
    Cause.SLEEP.words: "sleeping",
    Cause.PYTHON.words: "python-code",
    Cause.NATIVE.words: "native-code",
    Cause.LOCK.words: "locks",
    Cause.FILE.words: "files",
    Cause.COPIES.words: "copies",
    Cause.CHECKPOINT.words: "checkpoints",
    Cause.LOGGING.words: "logging",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """An activity that a late rank spends more time on than the others."""

    id: str
    what: str  # in a few words: "garbage collection"
    text: str  # a sentence's end, with the numbers
    own_ns: float  # per step, on the late rank
    usual_ns: float  # per step, on the median of the others
    place: str = ""  # the line: ``load (train.py:12)``

    @property
    def is_own(self) -> bool:
        """Tell whether the rank itself causes it; otherwise its machine may have been busy."""
        return self.id not in _OF_MACHINE and self.what not in _GENERAL

    @property
    def excess_ns(self) -> float:
        """Return the extra time compared with the others."""
        return self.own_ns - self.usual_ns


def reasons(job: Job, rank: int, steps: Sequence[int], delay_ns: float) -> list[Reason]:
    """Return why a global rank was late in some steps, the largest contribution first."""
    at = int(np.flatnonzero(job.number == rank)[0])
    wanted = np.array(steps, np.int64)
    beside = _Beside(job, at, wanted)
    candidates = [*_collections(beside), *_operators(beside), *_kernels(beside), *_causes(beside)]
    least = EXPLAINS * delay_ns
    large = [reason for reason in candidates if reason.excess_ns >= least]
    return sorted(large, key=lambda reason: -_weight(reason))


def _weight(reason: Reason) -> float:
    general = reason.what in _GENERAL
    return reason.excess_ns * (_GENERAL_COUNTS if general else 1.0)


class _Beside:
    """A rank compared with others in the same steps of the job."""

    def __init__(self, job: Job, at: int, steps: Int64) -> None:
        self._job, self._steps = job, steps
        self.per = "" if job.unit == WHOLE_RUN else f" a {job.unit}"
        peers = [i for i in range(len(job)) if i != at and job.ranks[i].work is not None]
        thin = max(len(peers) // _MOST_PEERS, 1)
        self.own = self._columns(at)
        self.peers = [columns for columns in map(self._columns, peers[::thin]) if len(columns[1])]

    def _columns(self, at: int) -> tuple[StepWork, Int64]:
        work = self._job.ranks[at].work
        assert work is not None
        return work, np.flatnonzero(np.isin(self._job.step_numbers[at], self._steps))

    def rows(self, table: Callable[[StepWork], StepRows]) -> dict[str, tuple[Float64, Float64]]:
        """Return ns and calls per step for each of the rank's names: its own, and the usual."""
        work, columns = self.own
        own = _means(table(work), columns)
        peers = [_means(table(peer), theirs) for peer, theirs in self.peers]
        zero = np.zeros(2)
        figures = {}
        for name, mine in own.items():
            usual = np.median([row.get(name, zero) for row in peers] or [zero], axis=0)
            figures[name] = mine, usual
        return figures

    def column(self, values: Callable[[StepWork], NDArray[np.float32]]) -> tuple[float, float]:
        """Return a figure's mean over the steps: the rank's own, and the others' median."""
        work, columns = self.own
        peers = [float(values(peer)[theirs].mean()) for peer, theirs in self.peers]
        own = float(values(work)[columns].mean()) if len(columns) else 0.0
        return own, float(np.median(peers)) if peers else 0.0


def _means(table: StepRows, columns: Int64) -> dict[str, Float64]:
    if not len(columns):
        return {}
    ns, calls = table.ns[:, columns].mean(axis=1), table.calls[:, columns].mean(axis=1)
    return {name: np.array([ns[i], calls[i]]) for i, name in enumerate(table.names)}


def _collections(beside: _Beside) -> list[Reason]:
    """Return extra garbage collection, if it was recorded as ranges."""
    rows = beside.rows(lambda work: work.operators)
    mine = [pair for name, pair in rows.items() if name.startswith(COLLECTION)]
    if not mine:
        return []
    own, usual = (np.sum([pair[i] for pair in mine], axis=0) for i in (0, 1))
    text = (
        f"garbage collection: {duration_text(own[0])}{beside.per} in {own[1]:.1f} collections, "
        f"the others {duration_text(usual[0])}"
    )
    place = _place_of(beside.rows(lambda work: work.lines), Cause.COLLECTION.words)
    what = Cause.COLLECTION.words
    return [Reason("garbage-collection", what, text, float(own[0]), float(usual[0]), place)]


def _operators(beside: _Beside) -> list[Reason]:
    operators = beside.rows(lambda work: work.operators)
    for_memory = {name: pair for name, pair in operators.items() if _asks_for_memory(name)}
    rows = {
        name: pair
        for name, pair in operators.items()
        if name not in for_memory and not name.startswith(COLLECTION)
    }
    lines = beside.rows(lambda work: work.lines)
    place, of_operators = _place_of(lines), _place_of(lines, *_OF_OPERATORS)
    return [
        *_allocations(for_memory, beside.per),
        *_more_calls(rows, "operators", beside.per, place),
        *_slower(beside, rows, of_operators),
    ]


def _asks_for_memory(name: str) -> bool:
    return name.startswith(landmarks().allocations) or DRIVER_ALLOCATION.search(name) is not None


def _allocations(rows: dict[str, tuple[Float64, Float64]], per: str) -> list[Reason]:
    """Return extra allocation: by the driver, or by operators that do nothing else."""
    if not rows:
        return []
    own, usual = _sums(rows)
    worst = _worst(rows)
    mine, theirs = rows[worst]
    text = (
        f"allocating memory: {duration_text(own)}{per}, the others {duration_text(usual)}, most "
        f"of all {worst[:80]}, {mine[1]:.1f} calls{per}, the others {theirs[1]:.1f}"
    )
    return [Reason("memory", "allocating memory", text, own, usual)]


def _kernels(beside: _Beside) -> list[Reason]:
    rows = beside.rows(lambda work: work.kernels)
    same = {name: pair for name, pair in rows.items() if not _has_more_calls(pair)}
    own, usual = _sums(same)
    more_calls = _more_calls(rows, "kernels", beside.per)
    if own > usual > 0:
        worst = _worst(same)
        mine, theirs = same[worst]
        text = (
            f"the same kernels take {own / usual:.2f} times as long as on the others, most of all "
            f"{worst[:80]}: {duration_text(mine[0])}{beside.per}, the others "
            f"{duration_text(theirs[0])}"
        )
        more_calls.append(
            Reason("slow-kernels", "slower kernels for the same work", text, own, usual)
        )
    return more_calls


def _worst(rows: dict[str, tuple[Float64, Float64]]) -> str:
    """Return the name with the largest excess."""
    return max(rows, key=lambda name: rows[name][0][0] - rows[name][1][0])


def _has_more_calls(pair: tuple[Float64, Float64]) -> bool:
    own, usual = pair
    return bool(own[1] > _MORE_CALLS * usual[1] + 0.05)


def _more_calls(
    rows: dict[str, tuple[Float64, Float64]], what: str, per: str, place: str = ""
) -> list[Reason]:
    more = {name: pair for name, pair in rows.items() if _has_more_calls(pair)}
    if not more:
        return []
    own, usual = _sums(more)
    worst = _worst(more)
    mine, theirs = more[worst]
    text = (
        f"extra {what}: most of all {worst[:80]}, {mine[1]:.1f} calls{per} and "
        f"{duration_text(mine[0])}, the others {theirs[1]:.1f} and {duration_text(theirs[0])}"
    )
    return [Reason(f"extra-{what}", f"extra {what}", text, own, usual, place)]


def _slower(beside: _Beside, rows: dict[str, tuple[Float64, Float64]], place: str) -> list[Reason]:
    """Return operators that take longer than on other ranks: cores are busy, or slow."""
    same = {name: pair for name, pair in rows.items() if not _has_more_calls(pair)}
    own, usual = _sums(same)
    ready, usually_ready = beside.column(lambda work: work.ready_ns)
    waits = ready - usually_ready
    slower = []
    if own > usual > 0:
        excess = own - usual
        worst = _worst(same)
        text = f"the same operators take {own / usual:.2f} times as long, most of all {worst[:80]}"
        if waits >= _CONTENTION * excess:
            text += f"; its thread waits {duration_text(ready)}{beside.per} for a core"
            slower.append(Reason("contention", "other work on its cores", text, own, usual))
        else:
            slower.append(Reason("slow-operators", "slower operators", text, own, usual, place))
    if waits > 0:
        text = f"its thread waits {duration_text(ready)}{beside.per} for a core that others use"
        slower.append(Reason("contention", "other work on its cores", text, ready, usually_ready))
    return slower


def _sums(rows: dict[str, tuple[Float64, Float64]]) -> tuple[float, float]:
    own = sum(float(pair[0][0]) for pair in rows.values())
    return own, sum(float(pair[1][0]) for pair in rows.values())


def _causes(beside: _Beside) -> list[Reason]:
    """Return the causes in samples or step parts, each with its hottest line."""
    lines = beside.rows(lambda work: work.lines)
    causes = []
    for cause, (own, usual) in beside.rows(lambda work: work.causes).items():
        place = _place_of(lines, cause)
        at = f", most of it at {place}" if place else ""
        spent = f"{duration_text(own[0])}{beside.per}"
        text = f"{cause}: {spent}, the others {duration_text(usual[0])}{at}"
        name = _IDS.get(cause, cause.replace(" ", "-"))
        causes.append(Reason(name, cause, text, float(own[0]), float(usual[0]), place))
    return causes


def _place_of(lines: dict[str, tuple[Float64, Float64]], *causes: str) -> str:
    """Return the line with the largest excess of some causes, or of any; "" if none."""
    mine = {
        name.partition("|")[2]: float(pair[0][0] - pair[1][0])
        for name, pair in lines.items()
        if (not causes or name.partition("|")[0] in causes) and name.partition("|")[2]
    }
    return max(mine, key=lambda name: mine[name]) if mine else ""
