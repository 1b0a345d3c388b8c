"""A running process of a run: its steps, its failures and its status."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.live.steps import STEP_NAMES, StepWatch
from stepscope.live.triggers import resident_bytes
from stepscope.record.inside.facts import start_ticks
from stepscope.record.stream.notes import END, FACTS, FAILURES
from stepscope.record.stream.processes import is_running
from stepscope.record.stream.relations import RunProcess
from stepscope.trace.launcher import job_name, wall_ns_of_ticks

if TYPE_CHECKING:
    from stepscope.record.stream.places import StreamFolders

_INTERRUPTED = "KeyboardInterrupt"


class Followed(RunProcess):
    """One process of a run, as of the last read of its stream."""

    def __init__(self, folders: StreamFolders, name: str) -> None:
        self.pid = int(name.partition(".")[0])
        memory, segments = str(folders.memory_of(name)), str(folders.segments_of(name))
        self._follower = _native.StreamFollower(memory, segments, STEP_NAMES)
        self._failures_returned = 0
        self.steps = StepWatch(self._follower.new_ranges)

    @property
    def is_alive(self) -> bool:
        """Return whether it still records."""
        return not self._follower.is_closed and is_running(self.pid)

    @property
    def memory_bytes(self) -> int:
        return resident_bytes(self.pid)

    @cached_property
    def since_s(self) -> float:
        """Return the Unix time at which the process started."""
        return wall_ns_of_ticks(start_ticks(self.pid)) / 1e9

    def status(self, program: str) -> dict[str, Any]:
        """Return the fields of `stepscope ps`; ``program`` is the run's name."""
        facts, place = self.noted(FACTS), self.place
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
        failures = [str(line) for line in self.noted(FAILURES).get("lines", ())]
        last = str(self.noted(END).get("error", ""))
        if last and not last.startswith(_INTERRUPTED):
            failures.append(last)
        new, self._failures_returned = failures[self._failures_returned :], len(failures)
        return new

    def noted(self, name: str) -> dict[str, Any]:
        value = json.loads(self._follower.notes.get(name, "{}"))
        return value if isinstance(value, dict) else {}
