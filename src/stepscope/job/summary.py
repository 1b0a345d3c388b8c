"""One rank, reduced to what a job needs: some hundred kB that can be sent.

Executors map ``summarize`` over a job's files. It never raises: the summary describes what is wrong
with a file.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.shared import shared_analyses
from stepscope.errors import StepscopeError, TraceReadWarning
from stepscope.formats.base.registry import read_trace
from stepscope.job.collectives import Collectives, Kind, collectives
from stepscope.job.exposed_sums import Overlap, overlaps
from stepscope.job.names import rank_in_name
from stepscope.job.work import StepWork, step_of, step_work
from stepscope.trace.model import Bool, Int64, Trace, TraceInfo

_CUT_OFF = "file ends early"


@dataclass(slots=True)
class RankSummary:
    """The reduced contents of one file; ``problem`` is empty if it can be used."""

    path: str
    problem: str = ""
    rank: int | None = None
    rank_by_name: bool = False  # the rank comes from the file's name
    world_size: int | None = None
    host: str = ""
    pid: int = 0
    run: str = ""  # equal in all ranks of a run; "" if unknown
    producer: str = ""
    events: int = 0
    lost: int = 0
    is_ring: bool = False  # losses fell off a ring, as the user asked
    start_ns: int = 0  # on the rank's own clock
    end_ns: int = 0
    wall_offset_ns: int = 0
    on_device: bool = False
    # The collectives, in the order of arrival.
    kinds: tuple[Kind, ...] = ()
    kind: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    seq: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    arrived_ns: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    done_ns: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    waited_ns: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    step: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    is_open: Bool = field(default_factory=lambda: np.zeros(0, np.bool_))
    overlaps: tuple[Overlap, ...] = ()
    work: StepWork | None = None


def summarize(path: str) -> RankSummary:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceReadWarning)
            trace = read_trace(path)
    except StepscopeError as error:
        reason = getattr(error, "reason", "") or str(error)
        return RankSummary(path, problem=reason, rank=rank_in_name(path), rank_by_name=True)
    except Exception as error:  # one bad file must not fail a job of a thousand
        return RankSummary(
            path, problem=f"cannot be read: {type(error).__name__}: {error}",
            rank=rank_in_name(path), rank_by_name=True,
        )  # fmt: skip
    try:
        with shared_analyses():
            return reduced(trace, path)
    except Exception as error:
        summary = _identity(trace.info, path)
        summary.problem = f"cannot be analysed: {type(error).__name__}: {error}"
        return summary


def reduced(trace: Trace, path: str = "") -> RankSummary:
    summary = _identity(trace.info, path)
    summary.events = len(trace)
    if trace.info.anomalies.get(_CUT_OFF):
        summary.problem = f"is truncated: the file ends early, after {len(trace):,} events"
        return summary
    calls = collectives(trace)
    summary.overlaps, exposed = overlaps(trace, calls)
    summary.work = step_work(trace, exposed)
    summary.on_device = calls.on_device
    summary.kinds, summary.kind, summary.seq = (calls.kinds, calls.kind, calls.seq)
    summary.arrived_ns, summary.done_ns, summary.is_open = (
        calls.start_ns,
        calls.end_ns,
        calls.is_open,
    )
    summary.waited_ns = _waited_ns(calls, exposed.start_ns, exposed.end_ns).astype(np.float32)
    summary.step = step_of(summary.work, _called_ns(trace, calls)).astype(np.int32)
    return summary


def _called_ns(trace: Trace, collectives: Collectives) -> Int64:
    """Return the time of each call on the host: a device may be a step behind."""
    has_host = collectives.host_row >= 0
    rows = np.where(has_host, collectives.host_row, collectives.row)
    return trace.slices.start_ns[rows] if len(rows) else collectives.start_ns


def _waited_ns(collectives: Collectives, start_ns: Int64, end_ns: Int64) -> Int64:
    """Return how long nothing else ran until each was done; 0 if something did."""
    if not len(start_ns) or not len(collectives):
        return np.zeros(len(collectives), np.int64)
    at = np.searchsorted(start_ns, collectives.end_ns, side="left") - 1
    waits = (at >= 0) & (collectives.end_ns <= end_ns[at])
    since = np.maximum(start_ns[at], collectives.start_ns)
    return np.where(waits, np.maximum(collectives.end_ns - since, 0), 0)


def _identity(info: TraceInfo, path: str) -> RankSummary:
    distributed: Any = info.user.get("distributedInfo")
    run = distributed.get("run_id", "") if isinstance(distributed, dict) else ""
    by_name = info.rank is None
    return RankSummary(
        path=path,
        rank=rank_in_name(path) if by_name else info.rank,
        rank_by_name=by_name,
        world_size=info.world_size,
        host=info.host,
        pid=info.pid,
        run=str(run or ""),
        producer=info.producer,
        lost=info.losses.events,
        is_ring=info.losses.fell_off,
        start_ns=info.start_ns,
        end_ns=info.end_ns,
        wall_offset_ns=info.wall_offset_ns,
    )
