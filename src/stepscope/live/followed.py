"""A process of a run that goes on, as its stream and the system tell of it."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.live.steps import STEP_NAMES, StepWatch
from stepscope.live.triggers import resident_bytes
from stepscope.record.inside.facts import start_ticks
from stepscope.record.stream.notes import END, FACTS, FAILURES, SOURCES
from stepscope.record.stream.processes import is_running
from stepscope.trace.launcher import job_name, wall_ns_of_ticks
from stepscope.trace.process_facts import place_facts

if TYPE_CHECKING:
    from stepscope.record.stream.places import StreamFolders

_INTERRUPTED = "KeyboardInterrupt"


class Followed:
    """One process of a run, as of the last read of its stream."""

    def __init__(self, folders: StreamFolders, name: str) -> None:
        self.pid = int(name.partition(".")[0])
        memory, segments = str(folders.memory_of(name)), str(folders.segments_of(name))
        self._follower = _native.StreamFollower(memory, segments, STEP_NAMES)
        self._told = 0  # failures
        self.steps = StepWatch(self._follower.new_ranges)

    @property
    def is_alive(self) -> bool:
        """Return whether it still records."""
        return not self._follower.is_closed and is_running(self.pid)

    @property
    def parent(self) -> int:
        return int(self._noted(FACTS).get("ppid", 0))

    @property
    def rank(self) -> int | None:
        place = self._place
        return place["rank"] if (place["world_size"] or 1) > 1 else None

    @property
    def memory_bytes(self) -> int:
        return resident_bytes(self.pid)

    @cached_property
    def since_s(self) -> float:
        """Return the Unix time at which the process started."""
        return wall_ns_of_ticks(start_ticks(self.pid)) / 1e9

    def status(self, program: str) -> dict[str, Any]:
        """Return the fields of `stepscope ps`; ``program`` is the run's name."""
        facts, place = self._noted(FACTS), self._place
        words = [str(word) for word in facts.get("argv", ())][1:]
        return {
            "pid": self.pid,
            "rank": "" if place["rank"] is None else str(place["rank"]),
            "world_size": "" if place["rank"] is None else str(place["world_size"]),
            "program": " ".join([program, *words])[:200],
            "job": job_name(facts.get("environment", {})),
            "since": self.since_s,
            "memory_bytes": self.memory_bytes,
            "python": next(iter(str(facts.get("python", "")).split()), ""),
        }

    def new_failures(self) -> list[str]:
        """Return the uncaught exceptions since the last call."""
        failures = [str(line) for line in self._noted(FAILURES).get("lines", ())]
        last = str(self._noted(END).get("error", ""))
        if last and not last.startswith(_INTERRUPTED):
            failures.append(last)
        new, self._told = failures[self._told :], len(failures)
        return new

    @property
    def _place(self) -> dict[str, Any]:
        return place_facts(self._noted(FACTS), self._noted(SOURCES).get("job"))

    def _noted(self, name: str) -> dict[str, Any]:
        value = json.loads(self._follower.notes.get(name, "{}"))
        return value if isinstance(value, dict) else {}
