"""What the benchmarks share: a row of the result table, and fair timing on a noisy machine."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what was measured, ours, the peer's, the ratio and its bar."""

    what: str
    ours: str
    peer: str
    ratio: str
    bar: str
    holds: bool | None  # None: shown for information


def interleaved_ns(
    variants: Mapping[str, Callable[[], int]],
    rounds: int,
    summary: Callable[[list[int]], float] = min,
) -> dict[str, float]:
    """Run the variants in turn and return the best time of each, or another summary of its times.

    A variant returns its own time in ns. Taking turns lets all of them see the same machine.
    """
    times: dict[str, list[int]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            gc.collect()
            gc.disable()
            try:
                times[name].append(run())
            finally:
                gc.enable()
    return {name: summary(taken) for name, taken in times.items()}


def timed_ns(work: Callable[[], object]) -> int:
    """Return how long one call takes."""
    began = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - began


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


def peak_bytes() -> int:
    """Return the most memory this program has had; in ru_maxrss its parent's would count, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def seconds(value: float) -> str:
    """Return a time with the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.0f} ns"
