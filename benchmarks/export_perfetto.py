"""Writing a trace for Perfetto, and for other tools: time, and size beside the plain JSON."""

from __future__ import annotations

import tempfile
from pathlib import Path

from common import timed_s
from export_chrome import recorded, training
from rows import Row, limit_row, megabytes, share_row

import stepscope

EVENTS = 1_000_000
_SECONDS = {".pprof": 2.0, ".csv": 5.0, ".speedscope.json": 30.0, ".firefox.json": 30.0}


def rows(quick: bool = False) -> list[Row]:
    """Measure the time of each format, and Perfetto's size."""
    events = EVENTS // 10 if quick else EVENTS
    share = events / EVENTS
    trace = recorded(stepscope.profile(), training(events)).trace
    text = f"{len(trace) // 1000}k slices"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target, plain = folder / "a.pftrace", folder / "a.json"
        stepscope.export_trace(trace, plain)
        times = [timed_s(lambda: stepscope.export_trace(trace, target)) for _ in range(7)]
        sizes = [[path.stat().st_size] for path in (target, plain)]
        back = [timed_s(lambda: stepscope.read_trace(target)) for _ in range(3)]
        values = [
            limit_row(f"export to .pftrace, {text}", times, 0.3 * share),
            share_row("its size", *sizes, "its plain JSON", 1 / 5, show=megabytes),
            limit_row("reading it back", back, 3 * share),
        ]
        for suffix, limit_s in _SECONDS.items():
            path = folder / f"a{suffix}"
            took = [timed_s(lambda path=path: stepscope.export_trace(trace, path))]  # type: ignore[misc]
            values.append(limit_row(f"export to {suffix}, {text}", took * 2, limit_s * share))
        return values
