"""The figures of a job, against sums by brute force and against jobs with known times."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from made_job import WALL_NS, Plan, times_of, trace_of
from made_trace import Call, trace_of_calls
from sample_traces import EIGHT_RANKS, SAMPLES, json_events
from stepscope import job as jobs
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.steps.parts import host_parts
from stepscope.analysis.work.work import WorkKind, device_work
from stepscope.formats import read_trace
from stepscope.job.collectives import collectives
from stepscope.job.exposed_sums import ALL, HOST, overlaps
from stepscope.job.model import job_of
from stepscope.job.replay import chains_of, duration_ns
from stepscope.job.summary import reduced
from stepscope.trace.model import SliceFlags, SliceKind

if TYPE_CHECKING:
    from made_job import Times
    from stepscope.job.model import Job
    from stepscope.trace.model import Trace


def made(plan: Plan) -> tuple[Times, Job]:
    times = times_of(plan)
    ranks = [reduced(trace_of(times, rank), f"rank-{rank}") for rank in range(plan.ranks)]
    return times, job_of("made", ranks)


def test_clocks_are_recovered_from_the_ends_of_collectives() -> None:
    plan = Plan(skew_ns=50_000_000, drift_ppm=50, steps=20, collectives=40)
    times, job = made(plan)
    true_ns = np.linspace(0, int(times.done.max()), 21)
    for rank in range(plan.ranks):
        shown = true_ns + times.offset[rank] + times.drift[rank] * true_ns + 1e9
        corrected = job.clocks.corrected(np.full(21, rank), (shown + WALL_NS).astype(np.int64))
        true_wall = (true_ns + 1e9 + WALL_NS).astype(np.int64)
        assert np.abs(corrected - true_wall).max() <= 20_000
    assert 0 < job.residual_ns < 20_000


def test_clocks_of_one_host_stay_as_they_are() -> None:
    _, job = made(Plan(steps=5))
    assert not job.clocks.offset_ns.any()
    assert not job.clocks.drift.any()


def test_arrivals_waits_and_blame_are_those_of_the_plan() -> None:
    times, job = made(Plan(ranks=5, steps=3, collectives=4))
    arrivals = jobs.arrival_table(job)
    blame = jobs.blame_table(job)
    assert len(blame) == times.arrived.shape[1]
    for i in range(len(blame)):
        came = times.arrived[:, i].tolist()
        first, *_, second, last = sorted(came)
        assert blame.blame_ns[i] == last - second
        assert blame.spread_ns[i] == last - first
        assert blame.wait_ns[i] == sum(last - item for item in came)
        named = came.index(last) if last - second > job.residual_ns else -1
        assert blame.last_rank[i] == named
        rows = arrivals.collective == i
        assert arrivals.wait_ns[rows].tolist() == [last - item for item in came]


def test_nobody_is_blamed_below_the_residual() -> None:
    _, job = made(Plan(ranks=4, steps=4, skew_ns=1_000_000))
    blame = jobs.blame_table(job)
    assert (blame.blame_ns[blame.last_rank >= 0] > job.residual_ns).all()
    assert (blame.last_rank[blame.blame_ns <= job.residual_ns] == -1).all()


def covered_by_brute_force(
    talk: list[tuple[int, int]], compute: list[tuple[int, int]]
) -> tuple[int, int]:
    """Return how long any of the first run, and how long with any of the second, ns by ns."""
    edges = sorted({edge for pair in (*talk, *compute) for edge in pair})
    opened: dict[int, list[int]] = {edge: [0, 0] for edge in edges}
    for which, pairs in enumerate((talk, compute)):
        for start, end in pairs:
            opened[start][which] += 1
            opened[end][which] -= 1
    total = both = talking = computing = 0
    for edge, following in pairwise(edges):
        talking += opened[edge][0]
        computing += opened[edge][1]
        total += (following - edge) * (talking > 0)
        both += (following - edge) * (talking > 0 and computing > 0)
    return total, both


def check_overlaps(trace: Trace) -> int:
    """Compare the sums of each device, or of the host; return how many there are."""
    result = collectives(trace)
    rows, exposed = overlaps(trace, result)
    slices, work = trace.slices, device_work(trace)
    every = [item for item in rows if item.group == ALL]
    for row in every:
        start, end = result.start_ns.tolist(), result.end_ns.tolist()
        talk = list(zip(start, end, strict=True))
        if row.device == HOST:
            compute = host_compute(trace, {*result.row.tolist(), *result.host_row.tolist()})
        else:
            mine = work.device == work.devices.index(row.device)
            talks = work.rows[mine & (work.kind == WorkKind.COMMUNICATION)]
            talk = [(int(slices.start_ns[i]), int(slices.end_ns[i])) for i in talks]
            runs = work.rows[mine & (work.kind == WorkKind.COMPUTE)]
            compute = [(int(slices.start_ns[i]), int(slices.end_ns[i])) for i in runs]
        total, both = covered_by_brute_force(talk, compute)
        assert (row.communication_ns, row.overlap_ns) == (total, both)
    if len(every) == 1:
        assert exposed.total_ns == every[0].exposed_ns
    return len(every)


def host_compute(trace: Trace, communicates: set[int]) -> list[tuple[int, int]]:
    """Return the operators that neither communicate nor are around or in one that does."""
    slices = trace.slices
    parent = slices.parent.tolist()

    def above(row: int) -> set[int]:
        names_seen = set()
        while row >= 0:
            names_seen.add(row)
            row = parent[row]
        return names_seen

    around = set().union(*(above(row) for row in communicates))
    operators = np.flatnonzero(
        (slices.kind == SliceKind.OPERATOR) & (slices.flags & SliceFlags.ASYNC == 0)
    ).tolist()
    remaining = [row for row in operators if row not in around and not above(row) & communicates]
    return [(int(slices.start_ns[row]), int(slices.end_ns[row])) for row in remaining]


def test_overlap_is_exact_on_made_ranks() -> None:
    times = times_of(Plan(ranks=3, steps=3, collectives=5))
    assert sum(check_overlaps(trace_of(times, rank)) for rank in range(3)) == 3


def test_overlap_is_exact_on_real_ranks() -> None:
    """Eight gloo ranks, one NCCL rank, and two ranks with a GPU each in one file."""
    names = ("rank", "made_nccl", "made_two_gpus")
    files = [path for path in SAMPLES if path.name.startswith(names)]
    assert sum(check_overlaps(read_trace(path)) for path in files) == 11


def test_a_replay_gives_the_recorded_times_again() -> None:
    _, job = made(Plan(late_rank=2, late_ns=3_000_000, steps=6))
    result = job.meetings.take(np.isin(job.meetings.step, job.steps[job.steady]))
    recorded = int(result.done_ns.max() - result.arrived_ns.min())
    assert duration_ns(chains_of(job)) == recorded


def test_what_if_tells_what_a_late_rank_and_communication_cost() -> None:
    plan = Plan(late_rank=2, late_ns=3_000_000, steps=6, jitter_ns=100)
    _, job = made(plan)
    cured = jobs.what_if(job, rank_is_median=2)
    assert cured.saves_ns == pytest.approx(plan.late_ns, rel=0.25)
    free = jobs.what_if(job, communication_is_free=True)
    assert free.saves_ns == pytest.approx(plan.transfer_ns * plan.collectives, rel=0.1)
    faster = jobs.what_if(job, kernel_twice_as_fast="aten::mm")
    assert 0 < faster.saves_ns < job.typical_step_ns


def test_the_critical_path_goes_through_the_late_rank() -> None:
    _, job = made(Plan(late_rank=2, late_ns=3_000_000, steps=6, jitter_ns=2_000))
    path = jobs.critical_path(job)
    ends = path.start_ns + path.duration_ns
    assert (path.start_ns[1:] == ends[:-1]).all(), "the pieces follow each other"
    assert next(iter(path.by_rank())) == 2


def test_bandwidth_counts_from_the_last_arrival() -> None:
    plan = Plan(ranks=4, steps=3, jitter_ns=10, late_rank=1, late_ns=10_000_000)
    _, job = made(plan)
    table = jobs.bandwidth_table(job)
    assert table.bytes.tolist() == [4 << 18]
    assert table.median_ns[0] == pytest.approx(plan.transfer_ns, rel=0.05)
    assert table.bus_bytes_per_s[0] == pytest.approx(table.algorithm_bytes_per_s[0] * 1.5)


def test_imbalance_names_the_ranks_with_most_and_least_work() -> None:
    _, job = made(Plan(ranks=4, steps=4, late_rank=3, late_ns=4_000_000))
    table = jobs.imbalance_table(job)
    assert table.most_rank[0] == 3
    assert table.imbalance[0] > 0.3


@pytest.mark.parametrize("backend", ["nccl", "rccl", "hccl", "xccl", "gloo", "ucc", "mpi", "pccl"])
def test_collectives_of_every_backend_are_known_by_their_ranges(backend: str) -> None:
    trace = trace_of_calls([Call(f"{backend}:all_reduce", 0, 10, "user_annotation")])
    assert [kind.name for kind in collectives(trace).kinds] == ["all_reduce"]
    assert host_parts(trace).tolist() == [Part.COMMUNICATION]


def test_files_of_many_ranks_are_read_as_they_are() -> None:
    job = jobs.open_job(EIGHT_RANKS)
    waits = [
        event
        for event in json_events(EIGHT_RANKS / "rank0.pt.trace.json.gz")
        if event["name"] == "gloo:all_reduce"
    ]
    assert (len(job), job.world_size, len(job.meetings), job.missing) == (8, 8, len(waits), ())
    assert (job.meetings.count == 8).all()
    assert job.residual_ns < job.typical_step_ns / 10
