"""Recording options of any Python program; `stepscope run` gets its flags from here alone."""

from __future__ import annotations

import re

from stepscope.record.options import Option

DEFAULT_INTERVAL_NS = 1_000_000
MIN_INTERVAL_NS, MAX_INTERVAL_NS = 100_000, 1_000_000_000
CPU_BUDGET = 0.03
"""The share of a core that sampling may take."""

_INTERVAL = re.compile(r"(-?\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)")
_UNIT_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def sample_interval_ns(given: object) -> int:
    """Convert ``1ms``, seconds or True to ns; ``off``, False and None are 0."""
    if given is None or given is False or given == "off":
        return 0
    if given is True:
        return DEFAULT_INTERVAL_NS
    interval_ns = _in_ns(given)
    if interval_ns is None or not MIN_INTERVAL_NS <= interval_ns <= MAX_INTERVAL_NS:
        raise ValueError(
            f"{given!r} is not an interval to sample at: give 0.1ms to 1s, with its unit "
            "(the default is 1ms), or off"
        )
    return int(interval_ns)


def _in_ns(given: object) -> float | None:
    if isinstance(given, int | float):
        return given * 1e9
    match = _INTERVAL.fullmatch(str(given).strip().lower())
    return float(match[1]) * _UNIT_NS[match[2]] if match else None


SAMPLE = Option(
    "sample",
    0,
    "--sample",
    "sample what all threads are doing at this interval, from 0.1ms to 1s, or off (default: 1ms); "
    f"uses at most {100 * CPU_BUDGET:.0f} %% of a core: with many threads, it samples less often",
    run_default=True,
    parse=sample_interval_ns,
)

ANNOTATIONS = Option(
    "annotations", False, "--annotations", "record the program's own NVTX and ITT ranges"
)

# torch.profiler shows neither of these.
GC_PAUSES = Option("gc_pauses", False, run_default=True)
REQUESTS = Option("requests", False, run_default=True)

MIN_PAUSE_NS = 1_000_000
"""Shorter pauses are lost among the other waits of a thread."""
