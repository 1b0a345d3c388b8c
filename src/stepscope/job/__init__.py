"""A job: the traces of many ranks as one object, and what they say together.

    import stepscope
    from stepscope.job import stragglers, wait_table

    job = stepscope.open_job("runs/train-1")
    print(stragglers(job).to_polars())

Each rank is read and reduced on its own (``summary``), by any executor that has a ``map``; what
comes back is small, and all analyses are functions of the Job that is made of it.
"""

from __future__ import annotations

from stepscope.job.answer import JobAnswer, job_answer
from stepscope.job.arrivals import ArrivalTable, BlameTable, arrival_table, blame_table
from stepscope.job.bandwidth import BandwidthTable, bandwidth_table
from stepscope.job.exposed import ExposedTable, exposed_table
from stepscope.job.flight_recorder import Dump, read_dump, stuck_in_dumps
from stepscope.job.hangs import HangTable, hang_table
from stepscope.job.imbalance import ImbalanceTable, imbalance_table
from stepscope.job.model import Job, LeftOut, open_job
from stepscope.job.path import CriticalPath, critical_path
from stepscope.job.replay import WhatIf, what_if
from stepscope.job.stragglers import Straggler, step_delays, stragglers
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
