"""``stepscope report`` from a file to a page, as a process of its own: CPU time and peak memory.

The CPU time is that of all its threads, from starting Python on: the best of some runs, which
programs beside it lengthen least. The file of 20 million events takes minutes to make.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rows import Row, limit_row, megabytes
from sample import repeat, sample

MILLION = 5  # copies: 1.08 million events
TWENTY_MILLION = 93
RUNS = 5
CPU_BAR_S = 5.0
MEMORY_BAR_BYTES = 4e9


def rows(quick: bool = False) -> list[Row]:
    """Return the lines of the table; the large file is left out of a quick run."""
    with tempfile.TemporaryDirectory() as name:
        source, called = sample(Path(name))
        file = Path(name) / "trace.json.gz"
        repeat(source, file, 1 if quick else MILLION)
        taken = [_measured(file)[0] for _ in range(2 if quick else RUNS)]
        what = f"stepscope report, {called} × {1 if quick else MILLION}: CPU time, best of all"
        values = [limit_row(what, [min(taken)], CPU_BAR_S)]
        if not quick:
            repeat(source, file, TWENTY_MILLION)
            what = f"the same × {TWENTY_MILLION}: peak memory"
            values.append(limit_row(what, [_measured(file)[1]], MEMORY_BAR_BYTES, megabytes))
    return values


def _measured(file: Path) -> tuple[float, float]:
    """Return the seconds of CPU time of one run, and the most bytes that it held."""
    page = file.with_suffix(".html")
    command = [sys.executable, "-m", "stepscope", "report", str(file), "-o", str(page), "--force"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {child.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024.0
