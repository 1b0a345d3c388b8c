"""Measures how busy the process and the machine are during a recording."""

from __future__ import annotations

import os
import time
from pathlib import Path

from stepscope.record.source import Source

_MACHINE = Path("/proc/stat")
_IDLE_FIELDS = slice(3, 5)  # idle, iowait
_COUNTED_FIELDS = 8  # up to steal: user time already includes guests


class CpuUse(Source):
    """Reads the CPU clocks at the start and end of a cycle; has no events."""

    name = "CPU use"

    def __init__(self) -> None:
        self._start = (0.0, 0.0)
        self._machine_start: tuple[int, int] | None = None
        self.of_process: float | None = None  # in cores: above 1 with several busy threads
        self.of_machine: float | None = None  # a fraction of all cores, by all processes

    def start(self) -> None:
        self._start = time.perf_counter(), time.process_time()
        self._machine_start = _machine_ticks()

    def stop(self) -> None:
        elapsed_s = time.perf_counter() - self._start[0]
        self.of_process = (time.process_time() - self._start[1]) / elapsed_s if elapsed_s else None
        self.of_machine = _busy_part(self._machine_start, _machine_ticks())
        if self.of_machine is None and self.of_process is not None:
            # Between two ticks (10 ms) only this process's own use is known.
            self.of_machine = min(self.of_process / (os.cpu_count() or 1), 1.0)


def _machine_ticks() -> tuple[int, int] | None:
    """Return two sums over all cores since boot: their idle ticks, and all their ticks."""
    try:
        line = _MACHINE.read_text(encoding="ascii").partition("\n")[0]
    except OSError:  # not Linux, or not readable
        return None
    ticks = [int(word) for word in line.split()[1 : 1 + _COUNTED_FIELDS]]
    return sum(ticks[_IDLE_FIELDS]), sum(ticks)


def _busy_part(start: tuple[int, int] | None, end: tuple[int, int] | None) -> float | None:
    if start is None or end is None or end[1] <= start[1]:
        return None
    idle, total = end[0] - start[0], end[1] - start[1]
    return min(max(1 - idle / total, 0.0), 1.0)
