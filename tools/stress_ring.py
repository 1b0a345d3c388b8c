"""Keep a ring for ten minutes while ranges come fast: memory stays flat, and nothing is uncounted.

    make stress-ring                              # 10 minutes
    python tools/stress_ring.py --seconds 30

Resident memory is looked at every second; its highest and lowest value after the first tenth of the
time must lie within 5 % of each other. Exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path

import stepscope

RATE = 120_000  # ranges a second, of all threads
THREADS = 2
BURST = 1_000
KEEP_S = 5
MIN_RATE = 100_000
MAX_GROWTH = 1.05


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
            with stepscope.record_function("work"):
                pass
        done += BURST
    counts[slot] = done


def main() -> int:
    """Record, look, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    seconds = parser.parse_args().seconds
    counts, held = [0] * THREADS, []
    began = time.monotonic()
    with stepscope.profile(keep=stepscope.Last(seconds=KEEP_S)) as profiler:
        workers = [
            threading.Thread(target=emit, args=(began + seconds, counts, slot))
            for slot in range(THREADS)
        ]
        for worker in workers:
            worker.start()
        while time.monotonic() < began + seconds:
            time.sleep(1)
            held.append(resident_bytes())
        for worker in workers:
            worker.join()
    trace, emitted = profiler.trace, sum(counts)
    counted = len(trace) + trace.losses.events
    later = held[max(len(held) // 10, KEEP_S + 1) :]
    growth, rate = max(later) / min(later), emitted / seconds
    print(f"{emitted:,} ranges, {rate:,.0f} a second; kept {len(trace):,}, let go of the others")
    print(f"recorded + lost: {counted:,}, {counted - emitted:+,}")
    print(f"resident: {min(later) / 1e6:.1f} to {max(later) / 1e6:.1f} MB, {growth:.3f} x")
    holds = counted == emitted and growth <= MAX_GROWTH and rate >= MIN_RATE
    print("holds" if holds else "MISSED")
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
