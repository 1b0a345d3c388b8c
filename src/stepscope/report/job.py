"""The report of a job: one page about all ranks, with links to their own reports.

It has the figures and steps of every rank. It has the collectives of as many steps as fit, those
with the largest delays first. It has single events of a few steps only, to compare two ranks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.analysis.base.labels import shown_name
from stepscope.analysis.base.table import columns_of
from stepscope.job.answer import JobAnswer, RankRow
from stepscope.job.arrivals import blame_table, of_several
from stepscope.job.late import step_delays
from stepscope.job.model import Job
from stepscope.job.path import WORK, critical_path
from stepscope.report.base.payload import Payload, add_headings, add_table, known_or_nan
from stepscope.report.build import write_page
from stepscope.report.pages import Page
from stepscope.trace.measures import Measure
from stepscope.trace.model import DEVICE_KINDS, Float64, Int64, SliceFlags, SliceKind, Trace
from stepscope.units import TIME

MOST_ARRIVALS = 250_000
"""Rows of ranks and collectives that the page holds."""

MOST_BLAMED = 2_000

RANKS = Page(
    "job/ranks.js",
    lambda _trace, _payload: None,
    static=Path(__file__).parent / "job_pages" / "static",
)

MOST_EVENTS = 6_000  # the longest events of a rank and step
MOST_DEPTH = 6
_CLOCK = Measure("offset_ns", "Clock", TIME, "What was added to its clock")
_HIDDEN = (SliceKind.STEP, SliceKind.SYNC, SliceKind.DEVICE_RANGE)


def export_job_html(
    job_answer: JobAnswer,
    path: str | os.PathLike[str],
    *,
    links: Mapping[int, str],
    traces: Mapping[int, Trace] | None = None,
) -> None:
    """Write the page of a job; ``links`` are the addresses of ranks' own reports.

    ``traces`` are those of some ranks, by their number: the page shows what they did in some steps.
    """
    job = job_answer.job
    payload = Payload()
    starts = [rank.start_ns + rank.wall_offset_ns for rank in job.ranks]
    origin = min([*starts, *job.meetings.arrived_ns[:1].tolist()], default=0)
    payload.add_value("job", _about(job_answer, origin))
    _add_ranks(payload, job_answer, links)
    delays = step_delays(job)
    _add_steps(payload, job, delays, origin)
    shown = _shown_steps(job, delays)
    _add_meetings(payload, job, shown, origin)
    _add_path(payload, job, origin)
    _add_lanes(payload, job, traces or {}, _few_steps(job, delays), origin)
    title = f"Job {Path(job.folder).absolute().name}"
    write_page(path, title, payload, (RANKS,), private=any(job.hosts))


def _about(job_answer: JobAnswer, origin: int) -> dict[str, Any]:
    values = job_answer.to_json()
    values.pop("ranks")
    job = job_answer.job
    left_out = [
        {"name": Path(file.path).name, "reason": file.reason} for file in job.left_out[:200]
    ]
    return values | {
        "left_out": left_out,
        "missing": list(job.missing[:200]),
        "began_ms": origin // 1_000_000,
        "commands": [str(rank.path) for rank in job.ranks] if len(job) <= 4096 else [],
    }


def _add_ranks(payload: Payload, job_answer: JobAnswer, links: Mapping[int, str]) -> None:
    rows = job_answer.rows
    place = {int(number): i for i, number in enumerate(job_answer.job.number)}
    offset, drift = job_answer.job.clocks.offset_ns, job_answer.job.clocks.drift
    at = np.array([place[row.rank] for row in rows])
    columns = columns_of(rows, RankRow)
    more = {
        "at": at,
        "offset_ns": offset[at],
        "drift_ppm": drift[at] * 1e6,
        "link": [links.get(row.rank, "") for row in rows],
    }
    add_table(
        payload, "ranks", {measure.name: values for measure, values in columns.items()} | more
    )
    add_headings(payload, "ranks", (*columns, _CLOCK))
    payload.add_column("job.number", job_answer.job.number)


def _add_steps(payload: Payload, job: Job, delays: Float64, origin: int) -> None:
    """Add the heat map: a value for each rank and step, rank after rank."""
    payload.add_column("job.steps", job.steps)
    payload.add_column("job.steady", job.steady.astype(np.uint8))
    payload.add_column("heat.delay", delays.astype(np.float32).reshape(-1))
    payload.add_column("heat.step", job.step_ns.astype(np.float32).reshape(-1))
    payload.add_column("heat.own", job.own_ns.astype(np.float32).reshape(-1))
    starts = job.by_step(lambda rank: rank.work.start_ns + rank.wall_offset_ns - origin)  # type: ignore[union-attr]
    began = np.nan_to_num(starts, nan=-1)
    payload.add_column("heat.start", _corrected(job, began, origin).reshape(-1))


def _corrected(job: Job, began: Float64, origin: int) -> Float64:
    clocks = job.clocks
    since = began + origin - clocks.origin_ns
    moved = clocks.offset_ns[:, None] + clocks.drift[:, None] * since
    return np.where(began < 0, -1.0, np.rint(began + moved))


def _shown_steps(job: Job, delays: Float64) -> Int64:
    """Return the steps whose collectives the page holds: all, or those with most delay."""
    meetings = job.meetings
    if int(meetings.count.sum()) <= MOST_ARRIVALS or not len(job.steps):
        return job.steps
    rows_per_step = max(int(meetings.count.sum()) // len(job.steps), 1)
    steps_kept = max(MOST_ARRIVALS // rows_per_step, 1)
    order = np.argsort(-delays.max(axis=0), kind="stable")[:steps_kept]
    return np.sort(job.steps[order])


def _few_steps(job: Job, delays: Float64) -> list[int]:
    """Return the step with the largest delay, and a usual one."""
    steady = np.flatnonzero(job.steady)
    if not len(steady):
        return []
    worst = steady[int(delays[:, steady].max(axis=0).argmax())]
    took = np.nanmedian(job.step_ns[:, steady], axis=0)
    usual = steady[int(np.argsort(took)[(len(took) - 1) // 2])]
    return [int(job.steps[i]) for i in dict.fromkeys([int(worst), int(usual)])]


def _add_meetings(payload: Payload, job: Job, steps: Int64, origin: int) -> None:
    meetings = of_several(job.meetings)
    if len(steps) < len(job.steps):
        meetings = meetings.take(np.isin(meetings.step, steps))
    if int(meetings.count.sum()) > 4 * MOST_ARRIVALS:  # one step of a very large job
        is_shown = np.zeros(len(meetings), np.bool_)
        is_shown[: max(4 * MOST_ARRIVALS // max(len(job), 1), 1)] = True
        meetings = meetings.take(is_shown)
    blame = blame_table(replace(job, meetings=meetings))
    first = blame.start_ns
    meeting = meetings.meeting
    columns = blame.on_pages()
    shown = {
        measure.name: known_or_nan(values) if isinstance(values, np.ndarray) else values
        for measure, values in columns.items()
    }
    add_table(payload, "meetings", shown | {"ranks": blame.ranks})
    add_headings(payload, "meetings", columns)
    payload.add_column("meetings.start", first - origin)
    payload.add_column("meetings.first", meetings.first, ascending=True)
    payload.add_column("rows.rank", meetings.rank)
    payload.add_column("rows.arrived", meetings.arrived_ns - first[meeting])
    payload.add_column("rows.done", np.maximum(meetings.done_ns - first[meeting], 0))
    payload.add_column("rows.waited", np.minimum(meetings.waited_ns, 4e9).astype(np.uint32))
    payload.add_value("job.shown_steps", len(steps))
    # Prefer steady steps: ranks start at different times.
    is_steady = np.isin(blame.step, job.steps[job.steady])
    order = np.lexsort((-blame.blame_ns, ~is_steady))[:MOST_BLAMED]
    payload.add_column("meetings.worst", order)


def _add_path(payload: Payload, job: Job, origin: int) -> None:
    """Add the critical path of a usual step."""
    path = critical_path(job)
    add_table(
        payload,
        "path",
        {
            "rank": path.rank,
            "what": path.what,
            "start_ns": path.start_ns - origin,
            "duration_ns": path.duration_ns,
        },
    )
    payload.add_value("path.work", WORK)


def _add_lanes(
    payload: Payload, job: Job, traces: Mapping[int, Trace], steps: list[int], origin: int
) -> None:
    """Add ``lanes``: events of the ranks whose traces are available."""
    parts = []
    names: list[str] = []
    code_of: dict[str, int] = {}
    for number, trace in traces.items():
        at = int(np.flatnonzero(job.number == number)[0])
        for row, depth, start in _events(job, trace, at, steps):
            texts = [shown_name(trace.name_of(int(slice_row))) for slice_row in row]
            codes = [code_of.setdefault(text, len(code_of)) for text in texts]
            parts.append(
                (
                    np.full(len(row), at), depth, start - origin,
                    trace.slices.duration_ns[row], np.array(codes, np.int64),
                    np.isin(trace.slices.kind[row], DEVICE_KINDS).astype(np.uint8),
                )
            )  # fmt: skip
    names = list(code_of)
    empty = np.zeros(0, np.int64)
    columns = (
        [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [empty] * 6
    )
    rank, depth, start, duration, name, device = columns
    add_table(
        payload,
        "lanes",
        {
            "rank": rank,
            "depth": depth,
            "start": start,
            "duration": duration,
            "name": [names[int(code)] for code in name],
            "device": device,
        },
    )
    payload.add_value("lanes.steps", steps)


def _events(job: Job, trace: Trace, at: int, steps: list[int]) -> list[tuple[Int64, Int64, Int64]]:
    """Return rows of slices, their lane, and their start on the job's clock, step by step."""
    rank = job.ranks[at]
    if rank.work is None:
        return []
    slices = trace.slices
    events = []
    shown = ~np.isin(slices.kind, _HIDDEN) & (slices.flags & SliceFlags.ASYNC == 0)
    for i in np.flatnonzero(np.isin(job.step_numbers[at], steps)).tolist():
        begin, end = int(rank.work.start_ns[i]), int(rank.work.end_ns[i])
        inside = shown & (slices.start_ns < end) & (slices.end_ns > begin)
        rows = np.flatnonzero(inside & (slices.duration_ns <= 2 * (end - begin)))
        on_device = np.isin(slices.kind[rows], DEVICE_KINDS)
        host = rows[~on_device]
        if len(host):  # the thread with the most time in the step
            busiest = np.bincount(slices.track[host], slices.self_ns[host]).argmax()
            host = host[slices.track[host] == busiest]
        least = slices.depth[host].min() if len(host) else 0
        depth = np.concatenate([slices.depth[host] - least, np.zeros(int(on_device.sum()))])
        rows = np.concatenate([host, rows[on_device]])
        is_shown = depth < MOST_DEPTH
        rows, depth = rows[is_shown], depth[is_shown].astype(np.int64)
        if len(rows) > MOST_EVENTS:
            longest = np.sort(np.argsort(-slices.duration_ns[rows])[:MOST_EVENTS])
            rows, depth = rows[longest], depth[longest]
        start = slices.start_ns[rows] + rank.wall_offset_ns
        events.append((rows, depth, job.clocks.corrected(np.full(len(rows), at), start)))
    return events
