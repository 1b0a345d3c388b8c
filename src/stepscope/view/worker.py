"""A worker thread with a priority queue of jobs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from queue import PriorityQueue

Job = Callable[[], None]

_LAST_WORD = (-1, 0, None)  # before all that is still waiting


class Worker:
    """Does one job at a time: two large traces at once could exhaust the machine's memory."""

    def __init__(self, name: str) -> None:
        self._jobs: PriorityQueue[tuple[int, int, Job | None]] = PriorityQueue()
        self._number = itertools.count()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, *, urgent: bool = False) -> None:
        """Queue a job, which must not raise."""
        self._jobs.put((0 if urgent else 1, next(self._number), job))

    def close(self) -> None:
        """Wait for the current job, and drop the others."""
        self._jobs.put(_LAST_WORD)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()[2]) is not None:
            job()
