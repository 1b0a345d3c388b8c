"""A job's ranks and blame as text: tables that fit a terminal, however many ranks there are."""

from __future__ import annotations

from stepscope.analysis.base.table import columns_of
from stepscope.job.answer import JobAnswer, RankRow
from stepscope.text.layout import measured_column, text_lines

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
    is_shown = {"host": len({row.host for row in job_answer.rows}) > 1}
    columns = [
        measured_column(measure, values)
        for measure, values in columns_of(rows, RankRow).items()
        if is_shown.get(measure.name, True)
    ]
    lines = text_lines(columns, _LONGEST_HOST)
    if left_out:
        lines.append(f"({left_out:,} more ranks, all less late: --row-limit -1)")
    return "\n".join(lines)
