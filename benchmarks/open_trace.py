"""Opening a stored trace of ten million slices, with the checks of its tables and without."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from common import in_child, timed_s
from rows import Row, share_row

from stepscope.trace import store, tables
from stepscope.trace.build import build
from stepscope.trace.model import Args, IntColumn, Trace, TraceInfo, Track
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 10_000_000
BAR = 1.05
_DEPTH = 4  # slices in each other, and then the next four
_NAMES, _SHAPES = 200, 5000


def made(rows: int) -> Trace:
    """Return a trace of operators in each other, on two threads, with shapes and numbers."""
    rng = np.random.default_rng(0)
    row = np.arange(rows)
    shapes = [f'"Input Dims": [[{i}, {i}]], "Input type": ["float"]' for i in range(_SHAPES)]
    texts = ["", "cpu_op", *(f"aten::op{i}" for i in range(_NAMES)), *shapes]
    rest = (2 + _NAMES + rng.integers(0, _SHAPES, rows)).astype(np.uint32)
    raw = Slices.of(
        name=rng.integers(2, 2 + _NAMES, rows).astype(np.uint32),
        category=np.full(rows, 1, np.uint32),
        start_ns=row // _DEPTH * 1000 + row % _DEPTH * 50 + 10**15,
        duration_ns=np.array([900, 700, 500, 100])[row % _DEPTH],
        track=(row // 4000 % 2).astype(np.uint32),
        flags=np.zeros(rows, np.uint8),
        sequence=np.where(row % _DEPTH == 1, row // _DEPTH, -1),
        args=Args({"External id": IntColumn(row.astype(np.uint32), row + 5)}, rest),
    )
    tracks = (Track("1", "1"), Track("1", "2"))
    return build(Captured(raw, tracks, Strings.of(texts)), TraceInfo("stepscope"))


def opened_s(path: str, rounds: int) -> dict[str, list[float]]:
    """Time openings, and each without what its checks took: two openings differ by a tenth."""
    checks_s: list[float] = []

    def timed(check: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            started = time.perf_counter()
            try:
                return check(*args)
            finally:
                checks_s.append(time.perf_counter() - started)

        return call

    tables.check = timed(tables.check)
    store.checksum = timed(store.checksum)
    times: dict[str, list[float]] = {"checked": [], "unchecked": []}
    for _ in range(rounds):
        checks_s.clear()
        whole_s = timed_s(lambda: Trace.load(path))
        times["checked"].append(whole_s)
        times["unchecked"].append(whole_s - sum(checks_s))
    return times


def rows(quick: bool = False) -> list[Row]:
    """Compare opening with the checks and without."""
    number, rounds = (ROWS // 10, 5) if quick else (ROWS, 10)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "large.stepscope"
        made(number).save(path)
        times = in_child("open_trace", str(path), str(rounds))
    what = f"opening a stored trace of {number / 1e6:.0f}M slices, checked against the schema"
    return [share_row(what, times["checked"], times["unchecked"], "unchecked", BAR)]


if __name__ == "__main__":
    print(json.dumps(opened_s(sys.argv[1], int(sys.argv[2]))))
