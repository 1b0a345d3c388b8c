"""What the benchmarks share: timing one call, and processes of their own."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def timed_s(work: Callable[[], object]) -> float:
    """Return how long one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turn_s(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Time some works in random turns; each is run once before, for what it imports."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(rounds):
        for name in random.sample(list(works), len(works)):
            gc.collect()
            times[name].append(timed_s(works[name]))
    return times


def in_child(module: str, *args: str) -> Any:
    """Run a benchmark module in a process of its own and return the JSON that it prints last."""
    done = subprocess.run(
        [sys.executable, "-m", module, *args],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env={**os.environ, "OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "99"},
    )
    return json.loads(done.stdout.splitlines()[-1])


def in_children(processes: int, module: str, *args: str) -> list[Any]:
    """Run it in some processes, one after the other."""
    collected = []
    for number in range(1, processes + 1):
        print(f"\r  process {number} of {processes}", end="", file=sys.stderr, flush=True)
        collected.append(in_child(module, *args))
    print("\r\033[K", end="", file=sys.stderr, flush=True)
    return collected


def column_s(runs: list[dict[str, float]], name: str) -> list[float]:
    """Return one figure of every process, given in ns, in seconds."""
    return [run[name] * 1e-9 for run in runs]


def peak_bytes() -> int:
    """Return the most memory this program has had; in ru_maxrss its parent's would count, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
