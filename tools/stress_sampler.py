"""Samples hostile programs as fast as it can: ``stress_sampler.py [samples] [program...]``.

Ten million samples take some minutes. It ends with status 0 when nothing crashed or hung, and
prints for each program how many samples were taken, how many could not be read, and whether every
frame that was seen is one of the program's.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from hostile_programs import PROGRAMS
from stepscope import _native
from stepscope.frameworks.python.operations import native_text, operations
from stepscope.frameworks.python.paths import set_paths

_INTERVAL_NS = 1_000  # it looks again at once
_LIMIT_BYTES = 256 << 20
_HANG_S = 120


def main() -> None:
    """Run each program until its part of the samples is taken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", type=int, nargs="?", default=10_000_000)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    args = parser.parse_args()
    set_paths()
    for name in args.programs:
        stress(name, args.samples // len(args.programs))


def stress(name: str, wanted: int) -> None:
    """Sample one program; whoever hangs is ended with the stacks of all threads."""
    steps, started = PROGRAMS[name](), time.monotonic()
    sampler = _native.Sampler(
        interval_ns=_INTERVAL_NS,
        budget=1.0,
        limit_bytes=_LIMIT_BYTES,
        keep_newest=True,
        way="best",
        operations=operations(),
    )
    if obstacle := sampler.start():
        raise SystemExit(f"{name}: {obstacle}")
    count = 0
    while sampler.progress()[1] < wanted:
        faulthandler.dump_traceback_later(_HANG_S, exit=True)
        next(steps)
        count += 1
    faulthandler.cancel_dump_traceback_later()
    sampler.stop()
    result = sampler.collect(native_text)
    counts = result["counts"]
    print(
        f"{name}: {counts['looks']:,} samples in {time.monotonic() - started:.0f} s "
        f"({count:,} steps), {counts['torn']:,} not readable, {len(result['threads']):,} threads, "
        f"{len(result['stacks']['parent']):,} stacks",
        flush=True,
    )


if __name__ == "__main__":
    main()
