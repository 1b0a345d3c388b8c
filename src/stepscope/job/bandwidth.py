"""Algorithm and bus bandwidth of collectives by size.

A collective's time starts at the last arrival: before that, ranks wait for each other and no link
is used. Algorithm bandwidth is bytes over time. Bus bandwidth is the resulting traffic of a link,
by the factors of NCCL's tests, which can be compared with hardware for any number of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.table import Table
from stepscope.job.arrivals import group_words, of_several
from stepscope.job.model import Job
from stepscope.trace.model import Float64, Int64


@dataclass(frozen=True, slots=True)
class BandwidthTable(Table):
    """One row per collective, group and size, the most time first."""

    collective: tuple[str, ...]
    group: tuple[str, ...]
    dtype: tuple[str, ...]
    ranks: Int64
    bytes: Int64
    count: Int64
    median_ns: Int64  # of the transfer
    total_ns: Int64
    algorithm_bytes_per_s: Float64
    bus_bytes_per_s: Float64


def bus_factor(collective: str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth, as NCCL's tests define it."""
    if ranks < 2:
        return 1.0
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in {"all_gather", "reduce_scatter", "all_to_all"}:
        return (ranks - 1) / ranks
    return 1.0


def bandwidth_table(job: Job) -> BandwidthTable:
    """Return the bandwidth of all collectives of known size."""
    meetings = of_several(job.meetings)
    rows = []
    if len(meetings):
        last = np.maximum.reduceat(meetings.arrived_ns, meetings.first[:-1])
        done = np.maximum.reduceat(meetings.done_ns, meetings.first[:-1])
        transfer = np.maximum(done - last, 0)
        for code in np.unique(meetings.kind).tolist():
            kind = meetings.kinds[code]
            if kind.bytes <= 0:
                continue
            mine = transfer[meetings.kind == code]
            ranks = kind.group_size if kind.group_size > 0 else int(meetings.count.max())
            median = int(np.median(mine))
            speed = kind.bytes / (median * 1e-9) if median else 0.0
            bus = speed * bus_factor(kind.name, ranks)
            rows.append((kind, ranks, len(mine), median, int(mine.sum()), speed, bus))
    rows.sort(key=lambda row: -row[4])
    columns = list(zip(*rows, strict=True)) or [()] * 7
    return BandwidthTable(
        tuple(row[0].name for row in rows),
        tuple(group_words(row[0].group, row[0].members) for row in rows),
        tuple(row[0].dtype for row in rows),
        np.array(columns[1], np.int64),
        np.array([row[0].bytes for row in rows], np.int64),
        np.array(columns[2], np.int64),
        np.array(columns[3], np.int64),
        np.array(columns[4], np.int64),
        np.array(columns[5], np.float64),
        np.array(columns[6], np.float64),
    )
