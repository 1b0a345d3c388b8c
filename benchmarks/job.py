"""A folder of ranks: files to the printed answer, beside HTA; 1,024 made ranks; clocks.

HTA's part is loading all ranks and ``get_comm_comp_overlap``, which is less than our answer. Every
tool runs in a process of its own; memory is that of the process and of as many children as there
are cores. Dask and Ray are tried where they are installed.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import in_child, peak_bytes
from rows import Row, exact_row, faster_row, limit_row, megabytes, note_row, seconds
from sample import repeat, sample

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

if TYPE_CHECKING:
    from collections.abc import Callable

    from made_job import Plan, Times

COPIES, RANKS = 7, 8
HTA_BAR, MEMORY_BAR = 20.0, 0.1
BIG_BAR_S, MANY_BAR_S, MANY_BAR_BYTES = 12.0, 120.0, 1e9
CLOCK_BAR_S = 20e-6


def stepscope_answer(folder: str) -> str:
    import contextlib
    import io

    from stepscope.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as result:
        main(["summary", folder])
    return result.getvalue().splitlines()[0]


def hta_answer(folder: str) -> str:
    from hta.trace_analysis import TraceAnalysis

    return str(TraceAnalysis(trace_dir=folder).get_comm_comp_overlap(visualize=False))


def dask_figures(folder: str) -> str:
    from dask.distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        return _figures(folder, client)


def ray_figures(folder: str) -> str:
    import ray

    source = str(Path(__file__).parents[1] / "src")
    ray.init(num_cpus=2, runtime_env={"env_vars": {"PYTHONPATH": source}}, log_to_driver=False)
    return _figures(folder, ray)


def _figures(folder: str, executor: Any = None) -> str:
    import stepscope
    from stepscope.job import job_answer

    return json.dumps(job_answer(stepscope.open_job(folder, executor=executor)).to_json())


WORKS: dict[str, Callable[[str], str]] = {
    "stepscope": stepscope_answer,
    "hta": hta_answer,
    "processes": _figures,
    "dask": dask_figures,
    "ray": ray_figures,
}


def ran(work: str, folder: Path) -> dict[str, Any]:
    """Return the seconds, bytes and answer of one process."""
    result: dict[str, Any] = in_child("job", work, str(folder))
    return result


def eight_big_ranks(folder: Path, copies: int) -> None:
    """Write eight ranks with the same events: gzip members, of which only the first differs."""
    source, _ = sample(folder)
    large = folder / "large.json.gz"
    repeat(source, large, copies)
    with gzip.open(large, "rb") as file:
        head = file.read(1 << 20)
        at = head.index(b'"traceEvents"')
        rest = folder / "rest.gz"
        with gzip.open(rest, "wb", compresslevel=3) as tail:
            tail.write(head[at:])
            shutil.copyfileobj(file, tail)
    for rank in range(RANKS):
        result = re.sub(
            rb'"rank": \d+, "world_size": \d+', b'"rank": %d, "world_size": 8' % rank, head[:at]
        )
        path = folder / "ranks" / f"rank-{rank}.json.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(result) + rest.read_bytes())
    large.unlink()
    rest.unlink()


def beside_hta(folder: Path, what: str, times: int) -> list[Row]:
    """Return the rows of one folder of ranks."""
    ours = [ran("stepscope", folder) for _ in range(times)]
    taken = [run["s"] for run in ours]
    if importlib.util.find_spec("hta") is None:
        return [note_row(what, f"ours takes {seconds(min(taken))}; HTA is not installed")]
    theirs = [ran("hta", folder) for _ in range(times)]
    share = max(run["bytes"] for run in ours) / max(run["bytes"] for run in theirs)
    text = f"HTA {megabytes(max(run['bytes'] for run in theirs))}"
    return [
        faster_row(what, taken, [run["s"] for run in theirs], "HTA", HTA_BAR),
        exact_row(
            "its memory", f"{share:.2f} of HTA's", text, f"<= {MEMORY_BAR}", share <= MEMORY_BAR
        ),
    ]


def many_ranks(folder: Path, plan: Plan) -> list[Row]:
    """Return the rows of made ranks: time, memory, and the same figures by every executor."""
    from made_job import times_of, trace_of

    times = times_of(plan)
    for rank in range(plan.ranks):
        trace_of(times, rank).save(folder / f"rank-{rank}.stepscope")
    what = f"{plan.ranks:,} ranks, {plan.steps} steps of {plan.collectives} collectives"
    ours = ran("processes", folder)
    values = [
        limit_row(what, [ours["s"]] * 2, MANY_BAR_S, seconds),
        limit_row("its memory", [ours["bytes"]] * 2, MANY_BAR_BYTES, megabytes),
    ]
    for name, module in (("dask", "distributed"), ("ray", "ray")):
        if importlib.util.find_spec(module) is None:
            values.append(note_row(f"the same by {name}", f"{module} is not installed"))
        else:
            same = ran(name, folder)["told"] == ours["told"]
            values.append(
                exact_row(f"the same by {name}", "equal" if same else "differs", "", "equal", same)
            )
    return [*values, clock_row(times, folder)]


def clock_row(times: Times, folder: Path) -> Row:
    """Return how far the clocks that were found are from those of the plan."""
    import numpy as np

    import stepscope
    from made_job import WALL_NS

    job = stepscope.open_job(folder)
    true_ns = np.linspace(0, int(times.done.max()), 11)
    worst = 0.0
    for rank in range(times.plan.ranks):
        shown = true_ns + times.offset[rank] + times.drift[rank] * true_ns + 1e9 + WALL_NS
        result = job.clocks.corrected(np.full(11, rank), shown.astype(np.int64))
        worst = max(worst, float(np.abs(result - (true_ns + 1e9 + WALL_NS).astype(np.int64)).max()))
    what = f"clocks off by {times.plan.skew_ns / 1e6:.0f} ms and {times.plan.drift_ppm:.0f} ppm"
    return limit_row(what, [worst * 1e-9] * 2, CLOCK_BAR_S, seconds)


def rows(quick: bool = False) -> list[Row]:
    """Measure all of it."""
    from made_job import Plan

    collected = []
    with tempfile.TemporaryDirectory() as name:
        eight_big_ranks(Path(name), 1 if quick else COPIES)
        what = f"eight ranks of {'0.2' if quick else '1.5'}M events, files to answer"
        taken = [ran("stepscope", Path(name) / "ranks")["s"] for _ in range(2)]
        collected.append(limit_row(what, taken, BIG_BAR_S, seconds))
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        if quick or free > 40e9:  # HTA holds all of them at once
            collected += beside_hta(Path(name) / "ranks", what, 2)
    ranks = 64 if quick else 1024
    plan = Plan(ranks=ranks, collectives=200, late_rank=3, late_ns=5_000_000, hosts=ranks // 8,
                skew_ns=50_000_000, drift_ppm=50, work_ns=100_000)  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        collected += many_ranks(Path(name), plan)
    return collected


if __name__ == "__main__":
    began = time.perf_counter()
    answer = WORKS[sys.argv[1]](sys.argv[2])
    spent = time.perf_counter() - began
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 * (os.cpu_count() or 1)
    print(json.dumps({"s": spent, "bytes": peak_bytes() + children, "told": answer}))
