"""A job's ranks and blame as text: tables that fit a terminal, however many ranks there are."""

from __future__ import annotations

from stepscope.job.answer import JobAnswer
from stepscope.text.layout import Column, printable, text_lines
from stepscope.units import duration_text, percent_text

_LONGEST_HOST = 24


def ranks_text(job_answer: JobAnswer, row_limit: int) -> str:
    """Return the ranks of an average step, the latest first, and of many the latest and last."""
    rows = list(job_answer.rows)
    if not rows:
        return ""
    left_out = 0
    if 0 <= row_limit < len(rows):
        left_out = len(rows) - row_limit
        rows = rows[:row_limit]
    steady_steps = int(job_answer.job.steady.sum())
    several_hosts = len({row.host for row in job_answer.rows}) > 1
    columns = [Column("rank", [str(row.rank) for row in rows])]
    if several_hosts:
        columns.append(Column("host", [printable(row.host) for row in rows], is_text=True))
    columns += [
        Column(job_answer.job.unit, [duration_text(row.step_ns) for row in rows]),
        Column("own work", [duration_text(row.own_ns) for row in rows]),
        Column("arrives late by", [duration_text(row.delay_ns) for row in rows]),
        Column("last in", [f"{row.late_steps} of {steady_steps}" for row in rows]),
        Column("waits for ranks", [duration_text(row.wait_ns) for row in rows]),
        Column("transfers", [duration_text(row.transfer_ns) for row in rows]),
        Column(
            "overlapped",
            ["-" if row.overlap is None else percent_text(row.overlap) for row in rows],
        ),
    ]
    lines = text_lines(columns, _LONGEST_HOST)
    if left_out:
        lines.append(f"({left_out:,} more ranks, all less late: --row-limit -1)")
    return "\n".join(lines)
