"""What a table can be about: the steady steps or the whole run, all threads or some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.analysis.intervals import Intervals
from stepscope.report.sections.threads import host_threads, process_name
from stepscope.report.steady import steady_time
from stepscope.trace.model import Trace

STEPS, RUN = "steps", "run"
EVERYWHERE = ""

MOST_THREADS = 40
"""Nobody picks one of more, and each adds rows to every table: the busiest are there."""


@dataclass(frozen=True, slots=True)
class Scope:
    when: str  # STEPS or RUN
    where: str  # EVERYWHERE, ``process 10``, or the number of a track
    within: Intervals | None  # None: all the time
    tracks: tuple[int, ...] | None  # None: all threads

    def to_json(self) -> dict[str, Any]:
        """Return what the page looks up a scope by."""
        return {"when": self.when, "where": self.where}


def scopes_of(trace: Trace) -> list[Scope]:
    """Return the scopes of a trace; the first one is shown first."""
    steps = steady_time(trace)
    times = [(STEPS, steps), (RUN, None)] if steps is not None else [(RUN, None)]
    places: list[tuple[str, tuple[int, ...] | None]] = [(EVERYWHERE, None)]
    threads = host_threads(trace)
    processes: dict[str, list[int]] = {}
    for track in threads:
        processes.setdefault(process_name(trace.tracks[track]), []).append(track)
    if len(processes) > 1:
        places += [(name, tuple(tracks)) for name, tracks in processes.items()]
    if len(threads) > 1:
        busiest = set(_busiest(trace, threads))
        places += [(str(track), (track,)) for track in threads if track in busiest]
    return [
        Scope(when, where, within, tracks) for when, within in times for where, tracks in places
    ]


def _busiest(trace: Trace, threads: list[int]) -> list[int]:
    count = np.bincount(trace.slices.track, minlength=len(trace.tracks))
    return sorted(threads, key=lambda track: -int(count[track]))[:MOST_THREADS]
