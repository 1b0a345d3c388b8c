"""How the processes of a run are related: parents, ranks, and ancestors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from stepscope.record.stream.notes import FACTS, SOURCES
from stepscope.trace.process_facts import place_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_Process = TypeVar("_Process", bound="RunProcess")


class RunProcess(ABC):
    """A process of a run, known by its stream."""

    pid: int

    @abstractmethod
    def noted(self, name: str) -> dict[str, Any]:
        """Return what the process noted under a name; empty without a valid note."""

    @property
    def parent(self) -> int:
        """Return the id of the process that started it; 0 if unknown."""
        number = self.noted(FACTS).get("ppid")
        return number if isinstance(number, int) else 0

    @property
    def place(self) -> dict[str, Any]:
        """Return the rank and the world size of the process; both are None outside of a job."""
        job = self.noted(SOURCES).get("job")
        return place_facts(self.noted(FACTS), job if isinstance(job, dict) else None)

    @property
    def rank(self) -> int | None:
        """Return its rank in a job of several processes; None outside of one."""
        place = self.place
        return place["rank"] if (place["world_size"] or 1) > 1 else None


def ancestors(process: _Process, by_pid: Mapping[int, _Process]) -> Iterator[_Process]:
    """Yield the processes that a process comes from, the nearest first."""
    seen = {process.pid}
    while (parent := by_pid.get(process.parent)) is not None and parent.pid not in seen:
        seen.add(parent.pid)
        yield parent
        process = parent
