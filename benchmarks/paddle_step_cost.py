"""What ``Profiler.step()`` costs: Stepscope's dialect beside paddle.profiler.

Both take turns in short blocks, in several processes; a block is a profiler that is started, steps
and is stopped, and only the steps are timed.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import time
from typing import TYPE_CHECKING, Any

import paddle
from common import column_s, in_children
from rows import Row, share_row

import stepscope.paddle

if TYPE_CHECKING:
    from collections.abc import Callable

PROCESSES = 6
TURNS = 30
STEPS = 200
BAR = 1.0
DIALECTS = {"ours": stepscope.paddle, "paddle": paddle.profiler}
CASES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "recording": lambda _: {},
    "closed": lambda dialect: {"scheduler": lambda _step: dialect.ProfilerState.CLOSED},
    "with timer_only": lambda _: {"timer_only": True},
}


def step_ns(dialect: Any, options: dict[str, Any]) -> float:
    """Return the mean time of a step in one block."""
    profiler = dialect.Profiler(on_trace_ready=lambda _: None, **options)
    with contextlib.redirect_stdout(io.StringIO()), profiler:  # it prints what steps cost
        start = time.perf_counter_ns()
        for _ in range(STEPS):
            profiler.step(4)
        return (time.perf_counter_ns() - start) / STEPS


def measure(turns: int) -> dict[str, dict[str, float]]:
    """Return the fastest block of each, in this process: what disturbs only adds."""
    by_name = {}
    for case, options_for in CASES.items():
        times: dict[str, list[float]] = {name: [] for name in DIALECTS}
        for _ in range(turns):
            for name, dialect in random.sample(list(DIALECTS.items()), len(DIALECTS)):
                times[name].append(step_ns(dialect, options_for(dialect)))
        by_name[case] = {name: min(values) for name, values in times.items()}
    return by_name


def rows(quick: bool = False) -> list[Row]:
    """Compare the cost of a step."""
    processes, turns = (3, 10) if quick else (PROCESSES, TURNS)
    runs = in_children(processes, "paddle_step_cost", str(turns))
    result = []
    for case in CASES:
        ours, theirs = (column_s([run[case] for run in runs], name) for name in DIALECTS)
        result.append(share_row(f"Profiler.step(), {case}", ours, theirs, "paddle.profiler", BAR))
    return result


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
