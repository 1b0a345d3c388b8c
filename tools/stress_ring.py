"""Keep a ring for ten minutes while ranges come fast: memory stays flat, and nothing is uncounted.

    make stress-ring                              # 10 minutes in each way
    python tools/stress_ring.py --seconds 30

The ring is one of `profile()`, then one of `stepscope run`, which another process reads. Resident
memory is looked at every second; its highest and lowest value after the first tenth of the time
must lie within 5 % of each other. Exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import stepscope

if TYPE_CHECKING:
    from stepscope import Trace

NAME = "work"
RATE = 120_000  # ranges a second, of all threads
THREADS = 2
BURST = 1_000
KEEP_S = 5
MIN_RATE = 100_000
MAX_GROWTH = 1.05
MAX_OTHERS = 5  # that fell off: ranges around the imports of frameworks


def resident_bytes() -> int:
    """Return what this process holds in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def emit(until: float, counts: list[int], slot: int) -> None:
    """Record ranges at an even rate."""
    began, done = time.monotonic(), 0
    while (now := time.monotonic()) < until:
        if done >= (now - began) * RATE / THREADS:
            time.sleep(0.002)
            continue
        for _ in range(BURST):
            with stepscope.record_function(NAME):
                pass
        done += BURST
    counts[slot] = done


def emit_all(seconds: float, starts: list[int]) -> int:
    """Record ranges on all threads; note every second what this process holds in memory."""
    counts, began = [0] * THREADS, time.monotonic()
    workers = [
        threading.Thread(target=emit, args=(began + seconds, counts, slot))
        for slot in range(THREADS)
    ]
    for worker in workers:
        worker.start()
    while time.monotonic() < began + seconds:
        time.sleep(1)
        starts.append(resident_bytes())
    for worker in workers:
        worker.join()
    return sum(counts)


def recorded_here(seconds: float) -> tuple[Trace, int, list[int]]:
    """Keep a ring in this process."""
    blocks: list[int] = []
    with stepscope.profile(keep=stepscope.Last(seconds=KEEP_S)) as profiler:
        emitted = emit_all(seconds, blocks)
    return profiler.trace, emitted, blocks


def recorded_from_outside(seconds: float) -> tuple[Trace, int, list[int]]:
    """Keep the ring of a program under `stepscope run`, which notes the same of itself."""
    with tempfile.TemporaryDirectory() as name:
        result, path = Path(name, "told.json"), Path(name, "run.stepscope")
        options = ["--last", f"{KEEP_S}s", "-q", "--no-report", "--sample", "off", "-o", str(path)]
        program = [__file__, "--seconds", str(seconds), "--emit", str(result)]
        words = [sys.executable, "-m", "stepscope", "run", *options, *program]
        subprocess.run(words, check=True)
        emitted, blocks = json.loads(result.read_text(encoding="utf-8"))
        return stepscope.read_trace(path), emitted, blocks


def main() -> int:
    """Record, look, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--emit", type=Path, help=argparse.SUPPRESS)  # what is recorded
    args = parser.parse_args()
    if args.emit is not None:
        blocks: list[int] = []
        args.emit.write_text(json.dumps([emit_all(args.seconds, blocks), blocks]), encoding="utf-8")
        return 0
    ways = {"profile(keep=)": recorded_here, "stepscope run --last": recorded_from_outside}
    holds = True
    for way, record in ways.items():
        print(way)
        holds = _compared(*record(args.seconds), args.seconds) and holds
    print("holds" if holds else "MISSED")
    return int(not holds)


def _compared(trace: Trace, emitted: int, starts: list[int], seconds: float) -> bool:
    remaining = sum(name == NAME for name in trace.names())
    counted = remaining + trace.losses.events
    later = starts[max(len(starts) // 10, KEEP_S + 1) :]
    growth, rate = max(later) / min(later), emitted / seconds
    print(f"{emitted:,} ranges, {rate:,.0f} a second; kept {remaining:,}, let go of the others")
    print(f"recorded + lost: {counted:,}, {counted - emitted:+,}")
    print(f"resident: {min(later) / 1e6:.1f} to {max(later) / 1e6:.1f} MB, {growth:.3f} x")
    all_counted = 0 <= counted - emitted <= MAX_OTHERS
    return all_counted and growth <= MAX_GROWTH and rate >= MIN_RATE


if __name__ == "__main__":
    sys.exit(main())
