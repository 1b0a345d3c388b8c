"""What ``stepscope run`` adds before the program's first line, and around a program of no length.

    python benchmarks/start_up.py [ROUNDS]

A plain Python and a recorded one start in random turns. On a busy machine, the time on a core says
more than the wall time. Figures are medians, with the lower quartile in brackets.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import stepscope
from stepscope.cli.run.plan import SUPERVISOR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROUNDS = 20
# Its first line notes the modules; what it reads then is what the process has had so far.
PROGRAM = """
import sys
modules = len(sys.modules)
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print([modules, int(status["VmRSS"].split()[0])])
"""
# Notes where its run lies, and how to record, and goes on without it.
KEEPS_ITS_RUN = """
import os, shutil, sys
folder = os.environ["STEPSCOPE_RUN"]
shutil.copytree(folder, sys.argv[1], ignore=shutil.ignore_patterns("[0-9]*"))
"""


@dataclass(frozen=True)
class Started:
    """What one start has cost."""

    wall_s: float
    core_s: float  # of the process and all that it started


def started(
    words: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> Started:
    """Start a command in a folder, and wait for its end."""
    began, before_s = time.perf_counter(), core_s()
    subprocess.run(words, env=environment, cwd=folder, check=True, capture_output=True)
    return Started(time.perf_counter() - began, core_s() - before_s)


def core_s() -> float:
    """Return what the processes that have ended have had of the cores."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def recording(folder: Path) -> dict[str, str]:
    """Return the environment of a program that records itself, with the plan of a real run."""
    keeps, trace = [str(folder / "run")], str(folder / "kept.stepscope")
    run = [sys.executable, "-m", "stepscope", "run", "-q", "-o", trace]
    subprocess.run([*run, "-c", KEEPS_ITS_RUN, *keeps], check=True)
    (folder / "disk").mkdir()
    plan = folder / "run" / "plan"
    lines = [line for line in plan.read_text().splitlines() if not line.startswith("disk=")]
    plan.write_text("\n".join([*lines, f"disk={folder / 'disk'}", ""]))
    start = Path(stepscope.__file__).parent / "record" / "inside" / "start"
    path = os.pathsep.join(filter(None, [str(start), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "STEPSCOPE_RUN": str(folder / "run"), "PYTHONPATH": path}


def figures(values: Sequence[float], unit: str) -> str:
    """Return a median and the lower quartile in words."""
    quartile = statistics.quantiles(values, n=4)[0]
    return f"{statistics.median(values):.2f} {unit} ({quartile:.2f})"


def difference(ours: Sequence[float], theirs: Sequence[float], unit: str) -> str:
    """Return what ours takes more, by medians and by lower quartiles."""
    quartile = statistics.quantiles(ours, n=4)[0] - statistics.quantiles(theirs, n=4)[0]
    return f"{statistics.median(ours) - statistics.median(theirs):.2f} {unit} ({quartile:.2f})"


def compare(folder: Path, rounds: int) -> None:
    """Print what recording adds to a program's start."""
    environments = {"plain": dict(os.environ), "recorded": recording(folder)}
    starts: dict[str, list[Started]] = {name: [] for name in environments}
    for _ in range(rounds):
        for name in random.sample(list(environments), len(environments)):
            starts[name].append(started([sys.executable, "-c", "pass"], environments[name]))
    first: dict[str, list[list[float]]] = {}
    for name, environment in environments.items():
        words = [sys.executable, "-c", PROGRAM]
        texts = [subprocess.check_output(words, env=environment) for _ in range(5)]
        first[name] = [json.loads(text) for text in texts]
    core, wall = (
        {name: [getattr(start, what) * 1e3 for start in starts[name]] for name in starts}
        for what in ("core_s", "wall_s")
    )
    for what, by_name in (("on a core", core), ("wall", wall)):
        ours, theirs = by_name["recorded"], by_name["plain"]
        ratio = statistics.median(ours) / statistics.median(theirs)
        print(
            f"python -c pass, {what}: {figures(theirs, 'ms')} plain, {figures(ours, 'ms')}", end=""
        )
        print(f" recorded: {difference(ours, theirs, 'ms')} more, {ratio:.2f} ×")
    for what, at, unit, scale in (("modules", 0, "", 1), ("memory", 1, "MB", 1024)):
        ours, theirs = ([row[at] / scale for row in first[name]] for name in ("recorded", "plain"))
        print(f"{what} before the first line: {difference(ours, theirs, unit)} more")


def supervisor(folder: Path) -> None:
    """Print the memory of a supervisor that waits."""
    ready = folder / "ready"
    wait = ["sh", "-c", f"grep VmRSS /proc/$PPID/status > {ready}.new; mv {ready}.new {ready}"]
    subprocess.run([sys.executable, "-I", "-S", *SUPERVISOR, "--", *wait], check=True)
    print(f"memory of the supervisor: {int(ready.read_text().split()[1]) / 1024:.1f} MB, bar 12")


def whole(folder: Path, rounds: int) -> None:
    """Print how long a whole run of nothing takes."""
    saves = ("--force", "-o", str(folder / "run.stepscope"))
    for options, bar in (((), "bar 0.25 s"), (saves, "with the trace saved and shown")):
        words = [sys.executable, "-m", "stepscope", "run", *options, "-c", "pass"]
        starts = [started(words, os.environ, folder) for _ in range(rounds)]
        wall, core = ([getattr(item, what) for item in starts] for what in ("wall_s", "core_s"))
        shown = " ".join(["stepscope run", *options[:2], "-c pass"])
        print(f"{shown}: {figures(wall, 's')}, {figures(core, 's')} on a core, {bar}")


def main() -> None:
    """Measure all."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), rounds)
        supervisor(Path(folder))
        whole(Path(folder), max(3, rounds // 4))


if __name__ == "__main__":
    main()
