"""A job: the traces of many ranks as one object, and what they say together.

    import stepscope
    from stepscope.job import stragglers, wait_table

    job = stepscope.open_job("runs/train-1")
    print(stragglers(job).to_polars())

Each rank is read and reduced on its own (``summary``), by any executor that has a ``map``; what
comes back is small, and all analyses are functions of the Job that is made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "ArrivalTable": "stepscope.job.arrivals",
    "BandwidthTable": "stepscope.job.bandwidth",
    "BlameTable": "stepscope.job.arrivals",
    "CriticalPath": "stepscope.job.path",
    "Dump": "stepscope.job.flight_recorder",
    "ExposedTable": "stepscope.job.exposed",
    "HangTable": "stepscope.job.hangs",
    "ImbalanceTable": "stepscope.job.imbalance",
    "Job": "stepscope.job.model",
    "JobAnswer": "stepscope.job.answer",
    "LeftOut": "stepscope.job.model",
    "RankSummary": "stepscope.job.summary",
    "Reason": "stepscope.job.why",
    "Straggler": "stepscope.job.stragglers",
    "WhatIf": "stepscope.job.replay",
    "arrival_table": "stepscope.job.arrivals",
    "bandwidth_table": "stepscope.job.bandwidth",
    "blame_table": "stepscope.job.arrivals",
    "critical_path": "stepscope.job.path",
    "exposed_table": "stepscope.job.exposed",
    "hang_table": "stepscope.job.hangs",
    "imbalance_table": "stepscope.job.imbalance",
    "job_answer": "stepscope.job.answer",
    "open_job": "stepscope.job.model",
    "read_dump": "stepscope.job.flight_recorder",
    "reasons": "stepscope.job.why",
    "step_delays": "stepscope.job.stragglers",
    "stragglers": "stepscope.job.stragglers",
    "stuck_in_dumps": "stepscope.job.flight_recorder",
    "summarize": "stepscope.job.summary",
    "what_if": "stepscope.job.replay",
}

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


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
