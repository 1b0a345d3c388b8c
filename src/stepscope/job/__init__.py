"""A job: the traces of many ranks as one object, and their analyses.

    import stepscope
    from stepscope.job import blame_table, stragglers

    job = stepscope.open_job("runs/train-1")
    print(stragglers(job), blame_table(job).to_polars())

Each rank is read and reduced on its own (``summary``), by any executor that has a ``map``. The
summaries are small, and all analyses are functions of the Job that they form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.job.answer import JobAnswer, job_answer
    from stepscope.job.arrivals import ArrivalTable, BlameTable, arrival_table, blame_table
    from stepscope.job.bandwidth import BandwidthTable, bandwidth_table
    from stepscope.job.exposed import ExposedTable, exposed_table
    from stepscope.job.flight_recorder import Dump, read_dump, stuck_in_dumps
    from stepscope.job.hangs import HangTable, hang_table
    from stepscope.job.imbalance import ImbalanceTable, imbalance_table
    from stepscope.job.late import Straggler, step_delays, stragglers
    from stepscope.job.model import Job, LeftOut, open_job
    from stepscope.job.path import CriticalPath, critical_path
    from stepscope.job.replay import WhatIf, what_if
    from stepscope.job.summary import RankSummary, summarize
    from stepscope.job.why import Reason, reasons

__all__ = [
    "ArrivalTable",
    "BandwidthTable",
    "BlameTable",
    "CriticalPath",
    "Dump",
    "ExposedTable",
    "HangTable",
    "ImbalanceTable",
    "Job",
    "JobAnswer",
    "LeftOut",
    "RankSummary",
    "Reason",
    "Straggler",
    "WhatIf",
    "arrival_table",
    "bandwidth_table",
    "blame_table",
    "critical_path",
    "exposed_table",
    "hang_table",
    "imbalance_table",
    "job_answer",
    "open_job",
    "read_dump",
    "reasons",
    "step_delays",
    "stragglers",
    "stuck_in_dumps",
    "summarize",
    "what_if",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "stepscope.job.answer": "JobAnswer job_answer",
        "stepscope.job.arrivals": "ArrivalTable BlameTable arrival_table blame_table",
        "stepscope.job.bandwidth": "BandwidthTable bandwidth_table",
        "stepscope.job.exposed": "ExposedTable exposed_table",
        "stepscope.job.flight_recorder": "Dump read_dump stuck_in_dumps",
        "stepscope.job.hangs": "HangTable hang_table",
        "stepscope.job.imbalance": "ImbalanceTable imbalance_table",
        "stepscope.job.late": "Straggler step_delays stragglers",
        "stepscope.job.model": "Job LeftOut open_job",
        "stepscope.job.path": "CriticalPath critical_path",
        "stepscope.job.replay": "WhatIf what_if",
        "stepscope.job.summary": "RankSummary summarize",
        "stepscope.job.why": "Reason reasons",
    },
)
