"""Ranks that never ran: traces of a training job with a known straggler and known clocks.

A step is: load data, forward, then collectives with some backward work before each, then the
optimizer. All ranks leave a collective a fixed time after the last has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.build import build
from stepscope.trace.schema import Captured, Slices, TraceInfo, Track
from stepscope.trace.strings import Strings
from stepscope.trace.table import Args, IntColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.trace.model import Trace

    Int64 = NDArray[np.int64]

WALL_NS = 1_790_000_000_000_000_000
_NAMES = ("", "ProfilerStep#", "aten::load", "aten::mm", "c10d::allreduce_", "Optimizer.step#SGD")


@dataclass(frozen=True)
class Plan:
    """A job to make up: times in ns."""

    ranks: int = 8
    steps: int = 20
    collectives: int = 20
    work_ns: int = 200_000  # before each collective
    transfer_ns: int = 50_000
    jitter_ns: int = 5_000
    late_rank: int = -1
    late_count: int = 1  # so many ranks are late, from that one on
    late_ns: int = 0  # in each late step, before its first collective
    late_every: int = 1
    late_name: str = "aten::load"  # of the operator that makes it late
    skew_ns: int = 0  # clocks are off by up to so much, either way
    drift_ppm: float = 0.0
    hosts: int = 1
    seed: int = 0


@dataclass(frozen=True)
class Times:
    """What the job did, on the true clock: a row per rank, a column per collective."""

    plan: Plan
    arrived: Int64
    done: Int64
    step_start: Int64  # a column per step
    offset: NDArray[np.float64]  # of each rank's clock
    drift: NDArray[np.float64]


def times_of(plan: Plan) -> Times:
    """Run the job on paper."""
    random = np.random.default_rng(plan.seed)
    shape = (plan.ranks, plan.steps * plan.collectives)
    arrived, done = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    starts = np.zeros((plan.ranks, plan.steps), np.int64)
    now = np.zeros(plan.ranks, np.int64)
    for step in range(plan.steps):
        starts[:, step] = now
        for i in range(plan.collectives):
            at = step * plan.collectives + i
            spread = random.exponential(plan.jitter_ns, plan.ranks).astype(np.int64)
            now = now + plan.work_ns + spread
            if i == 0 and plan.late_rank >= 0 and step % plan.late_every == 0:
                now[plan.late_rank : plan.late_rank + plan.late_count] += plan.late_ns
            arrived[:, at] = now
            ends = random.exponential(plan.jitter_ns / 2, plan.ranks).astype(np.int64)
            now = int(now.max()) + plan.transfer_ns + ends
            done[:, at] = now
        now = now + plan.work_ns
    offset = random.uniform(-plan.skew_ns, plan.skew_ns, plan.ranks)
    drift = random.uniform(-plan.drift_ppm, plan.drift_ppm, plan.ranks) * 1e-6
    offset[0] = drift[0] = 0.0
    return Times(plan, arrived, done, starts, offset, drift)


def trace_of(times: Times, rank: int) -> Trace:
    """Return the trace of one rank, on its own clock."""
    plan = times.plan
    arrived, done = times.arrived[rank], times.done[rank]
    count, steps = len(arrived), plan.steps
    before = np.concatenate([[0], done[:-1]])
    begins = times.step_start[rank]
    first = np.arange(steps) * plan.collectives
    before[first] = begins
    ends = np.append(begins[1:], done[-1] + plan.work_ns)
    late = np.zeros(count, np.int64)
    if plan.late_rank >= 0 and 0 <= rank - plan.late_rank < plan.late_count:
        late[first[:: plan.late_every]] = plan.late_ns
    step_names = tuple(f"ProfilerStep#{i}" for i in range(steps))
    names = (*_NAMES[:2], plan.late_name, *_NAMES[3:])
    strings = (*names, "user_annotation", "cpu_op", _fragment(plan), *step_names)
    annotation, operator, fragment = (len(_NAMES) + i for i in range(3))
    ones = np.ones(count, np.uint32)
    name = np.concatenate(
        [np.arange(steps) + fragment + 1, 2 * ones, 3 * ones, 4 * ones, np.full(steps, 5)]
    )
    start = np.concatenate(
        [begins, before, before + late, arrived, done[first + plan.collectives - 1]]
    )
    end = np.concatenate([ends, before + late, arrived, done, ends])
    category = np.where(np.arange(len(name)) < steps, annotation, operator)
    category[-steps:] = annotation
    rows = np.arange(steps + 2 * count, steps + 3 * count, dtype=np.uint32)
    rest = np.zeros(len(name), np.uint32)
    rest[rows] = fragment
    integers = {
        "Seq": IntColumn(rows, np.arange(count)),
        "Group size": IntColumn(rows, np.full(count, plan.ranks)),
        "In msg nelems": IntColumn(rows, np.full(count, 1 << 18)),
    }
    remaining = end > start
    slices = Slices.of(
        name=name.astype(np.uint32),
        category=category.astype(np.uint32),
        start_ns=_on_clock(times, rank, start),
        duration_ns=np.maximum(_on_clock(times, rank, end) - _on_clock(times, rank, start), 0),
        track=np.zeros(len(name), np.uint32),
        args=Args(integers, rest),
    ).take(remaining)
    order = np.lexsort((-slices.duration_ns, slices.start_ns))
    info = _info(plan, rank, int(slices.start_ns.min()), int(slices.end_ns.max()))
    tracks = (Track(str(1000 + rank), "1", "python", "main"),)
    return build(Captured(slices.take(order), tracks, Strings.of(strings)), info)


def _on_clock(times: Times, rank: int, true_ns: Int64) -> Int64:
    """Return true times as the rank's clock shows them."""
    shown = times.offset[rank] + times.drift[rank] * true_ns
    return true_ns + np.rint(shown).astype(np.int64) + 1_000_000_000


def _fragment(plan: Plan) -> str:
    ranks = list(range(plan.ranks))
    return (
        '"Collective name": "allreduce", "Process Group Name": "0", "dtype": "Float", '
        f'"Process Group Ranks": "{ranks}"'
    )


def _info(plan: Plan, rank: int, start_ns: int, end_ns: int) -> TraceInfo:
    distributed: dict[str, Any] = {"backend": "gloo", "run_id": f"made-{plan.seed}"}
    return TraceInfo(
        producer="stepscope",
        start_ns=start_ns,
        end_ns=end_ns,
        wall_offset_ns=WALL_NS,
        host=f"host{rank * plan.hosts // plan.ranks}",
        pid=1000 + rank,
        rank=rank,
        world_size=plan.ranks,
        user={"distributedInfo": distributed},
    )
