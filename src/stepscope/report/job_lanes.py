"""What some ranks did in some steps, on the job's clock: for two ranks side by side."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepscope.analysis.labels import shown_name
from stepscope.job.model import Job
from stepscope.report.payload import Payload
from stepscope.report.tables import add_table
from stepscope.trace.model import DEVICE_KINDS, Int64, SliceFlags, SliceKind, Trace

MOST_EVENTS = 6_000  # of a rank and step: the longest
MOST_DEPTH = 6
_HIDDEN = (SliceKind.STEP, SliceKind.SYNC, SliceKind.DEVICE_RANGE)


def add_lanes(
    payload: Payload, job: Job, traces: Mapping[int, Trace], steps: list[int], origin: int
) -> None:
    """Add ``lanes``: events of the ranks whose traces are available."""
    parts = []
    names: list[str] = []
    code_of: dict[str, int] = {}
    for number, trace in traces.items():
        at = int(np.flatnonzero(job.number == number)[0])
        for row, depth, start in _events(job, trace, at, steps):
            texts = [shown_name(trace.name_of(int(each))) for each in row]
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
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)] if parts else [empty] * 6
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
    found = []
    shown = ~np.isin(slices.kind, _HIDDEN) & (slices.flags & SliceFlags.ASYNC == 0)
    for i in np.flatnonzero(np.isin(job.step_numbers[at], steps)).tolist():
        begin, end = int(rank.work.start_ns[i]), int(rank.work.end_ns[i])
        inside = shown & (slices.start_ns < end) & (slices.end_ns > begin)
        rows = np.flatnonzero(inside & (slices.duration_ns <= 2 * (end - begin)))
        on_device = np.isin(slices.kind[rows], DEVICE_KINDS)
        host = rows[~on_device]
        if len(host):  # the thread of the step: the one with most time in it
            busiest = np.bincount(slices.track[host], slices.self_ns[host]).argmax()
            host = host[slices.track[host] == busiest]
        least = slices.depth[host].min() if len(host) else 0
        depth = np.concatenate([slices.depth[host] - least, np.zeros(int(on_device.sum()))])
        rows = np.concatenate([host, rows[on_device]])
        kept = depth < MOST_DEPTH
        rows, depth = rows[kept], depth[kept].astype(np.int64)
        if len(rows) > MOST_EVENTS:
            longest = np.sort(np.argsort(-slices.duration_ns[rows])[:MOST_EVENTS])
            rows, depth = rows[longest], depth[longest]
        start = slices.start_ns[rows] + rank.wall_offset_ns
        found.append((rows, depth, job.clocks.corrected(np.full(len(rows), at), start)))
    return found
