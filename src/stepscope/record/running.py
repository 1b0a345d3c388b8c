"""The recordings that run in this process now, for code elsewhere that wants to look at one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from stepscope._native import shielded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.record.cycle import Cycle


class Recorder(Protocol):
    """What is asked of a recorder that runs."""

    @property
    def active(self) -> bool:
        """Tell whether it records in this process."""

    @property
    def is_ring(self) -> bool:
        """Tell whether only the last of what happens is kept."""

    def snapshot(self) -> Cycle | None:
        """Return what it has recorded so far."""


class Running:
    """The recorders between their start and their stop."""

    def __init__(self) -> None:
        self._recorders: list[Recorder] = []

    def add(self, recorder: Recorder) -> None:
        self._recorders.append(recorder)

    def remove(self, recorder: Recorder) -> None:
        if recorder in self._recorders:
            self._recorders.remove(recorder)

    def __iter__(self) -> Iterator[Recorder]:
        """Yield the active ones, the latest first."""
        return reversed([recorder for recorder in list(self._recorders) if recorder.active])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def best(self) -> Recorder | None:
        """Return the latest ring, or else the latest recorder."""
        every = list(self)
        return next((recorder for recorder in every if recorder.is_ring), next(iter(every), None))

    def forget(self) -> None:
        """Forget all, in a forked child."""
        self._recorders.clear()


RUNNING = Running()
os.register_at_fork(after_in_child=shielded(RUNNING.forget))
