"""The history entry of a run, and the order of runs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.device.busy import device_busy
from stepscope.analysis.memory.timeline import memory_peak
from stepscope.analysis.quantities import quantities, step_times
from stepscope.analysis.steps.steps import steady_steps
from stepscope.trace.model import Float64, SliceKind, Trace
from stepscope.trace.revision import BRANCH, CHANGED, COMMIT
from stepscope.units import BYTES, COUNT, SHARE, TIME, Unit

_WHOLE = 0.9  # of the run: the range around the program, from `stepscope run`
_PATIENCE_S = 10.0
NO_COMMIT = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that is followed from run to run."""

    name: str
    words: str
    unit: Unit
    more_is_better: bool = False


METRICS = (
    Metric("step_time", "step time", TIME),
    Metric("peak_memory", "peak memory", BYTES),
    Metric("all_ops", "operators a step", COUNT),
    Metric("kernels", "kernels a step", COUNT),
    Metric("device_busy", "device busy time", SHARE, more_is_better=True),
)


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its time, its revision and its metrics, as far as they are known."""

    name: str  # of the trace
    program: str
    commit: str
    branch: str
    changed: bool  # the working tree differed from the commit
    host: str
    began_ns: int  # Unix time
    steps: int
    step_ns: Float64  # of the steady steps, in their order
    values: Mapping[str, float]

    @property
    def label(self) -> str:
        """Return the short commit, followed by ``+`` if files were changed since."""
        short = self.commit[:10] if self.commit else self.name
        return f"{short}+" if self.changed else short


def run_of(trace: Trace, name: str) -> Run:
    """Return the history entry of a trace."""
    info = trace.info
    with shared_analyses():
        times_ns = step_times(trace)
        steady_ns = times_ns[steady_steps(trace)].astype(np.float64)
        values = dict(_values(trace, steady_ns))
    revision = info.revision
    return Run(
        name,
        _program(trace),
        revision.get(COMMIT, NO_COMMIT),
        revision.get(BRANCH, ""),
        revision.get(CHANGED) == "yes",
        info.host,
        info.start_ns + info.wall_offset_ns,
        len(times_ns),
        steady_ns,
        values,
    )


def _values(trace: Trace, steady_ns: Float64) -> Iterable[tuple[str, float]]:
    if len(steady_ns):
        yield "step_time", float(np.median(steady_ns))
    peak = memory_peak(trace)
    if peak is not None:
        yield "peak_memory", float(peak.bytes)
    counted = quantities(trace)
    for name in ("all_ops", "kernels"):
        a_step = counted[name].a_step
        if a_step:
            yield name, a_step
    busy = device_busy(trace)
    window_ns = int(busy.window_ns.sum())
    if window_ns:
        yield "device_busy", float(busy.busy_ns.sum()) / window_ns


def _program(trace: Trace) -> str:
    """Return the name of the outermost range: the script, or nothing."""
    slices, info = trace.slices, trace.info
    whole_ns = max(info.end_ns - info.start_ns, 1)
    around = (slices.depth == 0) & (slices.kind == SliceKind.RANGE)
    rows = np.flatnonzero(around & (slices.duration_ns > _WHOLE * whole_ns))
    return trace.name_of(int(rows[0])) if len(rows) else ""


def in_order(runs: Iterable[Run], repository: Path | None) -> tuple[list[Run], str]:
    """Return the runs in commit order if git knows all of them, else by time, and which it was."""
    by_time = sorted(runs, key=lambda run: (run.began_ns, run.name))
    commits = {run.commit for run in by_time}
    if repository is not None and len(commits) > 1 and NO_COMMIT not in commits:
        place = _places(repository)
        if commits <= place.keys():
            return sorted(by_time, key=lambda run: place[run.commit]), "in the order of commits"
    return by_time, "in the order in which they were made"


def _places(repository: Path) -> dict[str, int]:
    """Return each commit's index in git's log; empty without git."""
    try:
        done = subprocess.run(
            [
                *("git", "-c", "core.fsmonitor=false"),
                *("rev-list", "--topo-order", "--reverse", "--all", "HEAD"),
            ],
            cwd=repository,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return {commit: place for place, commit in enumerate(done.stdout.split())}


def by_program(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs of each program: different programs are not compared."""
    programs: dict[str, list[Run]] = {}
    for run in runs:
        programs.setdefault(run.program, []).append(run)
    return programs
