"""The imbalance of own work in a step: over all ranks, and within each process group.

Ranks of a pipeline, of experts or of a sequence do different work by design; if one stage has more
than the others, all wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.table import Table
from stepscope.job.arrivals import group_words
from stepscope.job.model import Job
from stepscope.trace.model import Float64, Int64


@dataclass(frozen=True, slots=True)
class ImbalanceTable(Table):
    """One row per process group, the most uneven first; times are own work in a step."""

    group: tuple[str, ...]
    ranks: Int64
    mean_ns: Int64
    most_ns: Int64
    least_ns: Int64
    most_rank: Int64
    least_rank: Int64
    imbalance: Float64  # maximum over mean, less 1: what a balanced load would save


def imbalance_table(job: Job) -> ImbalanceTable:
    """Return the imbalance of work between the ranks of each group."""
    steady = job.own_ns[:, job.steady] if len(job.steps) else np.zeros((len(job), 0))
    own = np.array([np.nanmean(row) if np.isfinite(row).any() else np.nan for row in steady])
    groups: dict[tuple[int, ...], str] = {tuple(job.number.tolist()): "all ranks"}
    for kind in job.meetings.kinds:
        if len(kind.members) > 1:
            groups.setdefault(kind.members, group_words(kind.group, kind.members))
    place = {int(number): i for i, number in enumerate(job.number)}
    rows = []
    for members, words in groups.items():
        at = np.array([place[member] for member in members if member in place], np.int64)
        at = at[np.isfinite(own[at])] if len(at) else at
        if len(at) < 2:
            continue
        mine, mean = own[at], float(own[at].mean())
        numbers = job.number[at]
        rows.append(
            (
                words, len(at), int(mean), int(mine.max()), int(mine.min()),
                int(numbers[mine.argmax()]), int(numbers[mine.argmin()]),
                float(mine.max() / mean - 1) if mean else 0.0,
            )
        )  # fmt: skip
    rows.sort(key=lambda row: -row[-1])
    columns = list(zip(*rows, strict=True)) or [()] * 8
    size, mean_ns, most, least, most_rank, least_rank = (
        np.array(column, np.int64) for column in columns[1:7]
    )
    imbalance = np.array(columns[7], np.float64)
    return ImbalanceTable(
        tuple(columns[0]), size, mean_ns, most, least, most_rank, least_rank, imbalance
    )
