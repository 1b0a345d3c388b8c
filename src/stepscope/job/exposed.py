"""Exposed and overlapped communication of all ranks, by group and by module, in exact ns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.table import Table
from stepscope.job.model import Job
from stepscope.trace.model import Int64


@dataclass(frozen=True, slots=True)
class ExposedTable(Table):
    """One row per rank, device, group and module; ``*`` stands for all of them together.

    These are unions of intervals: overlapping time of two groups counts in each, and once in ``*``.
    """

    rank: Int64
    device: tuple[str, ...]  # "host" for communication without a kernel
    group: tuple[str, ...]
    module: tuple[str, ...]
    count: Int64
    communication_ns: Int64
    overlap_ns: Int64  # hidden by compute
    exposed_ns: Int64


def exposed_table(job: Job) -> ExposedTable:
    """Return how much of each rank's communication no compute hides."""
    rows = [(int(rank.rank or 0), overlap) for rank in job.ranks for overlap in rank.overlaps]
    numbers = np.array(
        [
            (rank, overlap.calls, overlap.communication_ns, overlap.overlap_ns, overlap.exposed_ns)
            for rank, overlap in rows
        ],
        np.int64,
    ).reshape(-1, 5)
    return ExposedTable(
        numbers[:, 0],
        tuple(overlap.device for _, overlap in rows),
        tuple(overlap.group for _, overlap in rows),
        tuple(overlap.module for _, overlap in rows),
        *numbers[:, 1:].T,
    )
