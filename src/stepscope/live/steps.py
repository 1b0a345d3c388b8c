"""The steps of a program that runs, as they end: read from its recording now and then."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from stepscope import _native
from stepscope.trace.kinds import step_number
from stepscope.trace.names import OPTIMIZER_STEP
from stepscope.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Range = tuple[str, int, int]  # name, start and end

_MARKED = ("ProfilerStep#", "ProfileStep#")
STEP_NAMES = [*_MARKED, OPTIMIZER_STEP]
"""How the names of the ranges begin that a StepWatch needs."""

_REMEMBERED = 4096  # enough that a few slow seconds of the machine do not move the median
_STALE = 0.05  # the median is renewed after this share of new steps
_FIRST_SEEN = 8  # steps that a median needs


@dataclass(frozen=True, slots=True)
class Step:
    """One step that has ended."""

    number: int
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


def ranges_of_process() -> Callable[[], list[Range]]:
    """Return a function that reads the ranges of this process that ended since its last call."""
    since_ticks = 0

    def read() -> list[Range]:
        nonlocal since_ticks
        ranges, since_ticks = _native.recent_ranges(since_ticks, STEP_NAMES)
        return ranges

    return read


class StepWatch:
    """The last steps: those that are marked, or else from one call of an optimizer to the next."""

    def __init__(self, new_ranges: Callable[[], list[Range]]) -> None:
        """Start without steps; ``new_ranges`` returns the ranges that ended since its last call."""
        self._new_ranges = new_ranges
        self._judged = 0  # number of steps
        self._marked = False
        self._last_call_ns: int | None = None
        self._reading = threading.Lock()  # who watches for slow steps, and who asks from outside
        self._median_ns = 0.0
        self._median_at = -1
        self.count = 0
        self.steps: deque[Step] = deque(maxlen=_REMEMBERED)

    def read(self) -> None:
        """Read the steps that have ended since the last call."""
        with self._reading:
            ranges = sorted(self._new_ranges(), key=lambda span: span[2])
            marked = [span for span in ranges if span[0].startswith(_MARKED)]
            if marked and not self._marked:
                self._marked = True
                self.steps.clear()
                self.count = 0
            steps = self._marked_steps(marked) if self._marked else self._between(ranges)
            self.steps.extend(steps)
            self.count += len(steps)

    def after(self, count: int) -> tuple[Sequence[Step], int]:
        """Return the remembered steps after the first ``count``, and the number of all steps.

        Several readers get the same steps.
        """
        self.read()
        with self._reading:
            new = self.count - count if count <= self.count else self.count  # the count was reset
            return list(self.steps)[-new:] if new else (), self.count

    def slow_ones(self, times: float) -> tuple[str, list[dict[str, int]]] | None:
        """Return a text about the slow steps since the last call, and the steps; or None."""
        median_ns = self.median_ns()
        slow = []
        steps, self._judged = self.after(self._judged)
        for step in steps:
            if median_ns is not None and step.duration_ns > times * median_ns:
                slow.append((step, step.duration_ns / median_ns))
            else:
                median_ns = median_ns or self.median_ns()
        if not slow:
            return None
        worst, ratio = max(slow, key=lambda pair: pair[0].duration_ns)
        took = duration_text(worst.duration_ns)
        named = [{"step": s.number, "start_ns": s.start_ns, "end_ns": s.end_ns} for s, _ in slow]
        return f"step {worst.number} took {took}, {ratio:.1f} x the median", named

    def median_ns(self) -> float | None:
        """Return the median step, which may be a few steps old; None for too few steps."""
        steps, count = tuple(self.steps), self.count
        if len(steps) < _FIRST_SEEN:
            return None
        if not 0 <= count - self._median_at < len(steps) * _STALE:
            self._median_at = count
            self._median_ns = median([step.duration_ns for step in steps])
        return self._median_ns

    def _marked_steps(self, ranges: Sequence[tuple[str, int, int]]) -> list[Step]:
        last_end_ns = self.steps[-1].end_ns if self.steps else 0
        steps = []
        for name, start_ns, end_ns in ranges:
            number = step_number(name)
            if number is not None and end_ns > last_end_ns:  # the same records may be read twice
                steps.append(Step(number, start_ns, end_ns))
        return steps

    def _between(self, ranges: Sequence[tuple[str, int, int]]) -> list[Step]:
        steps: list[Step] = []
        for _, start_ns, end_ns in ranges:
            last = self._last_call_ns
            if last is not None and end_ns <= last:
                continue
            if last is None or start_ns >= last:
                if last is not None:
                    steps.append(Step(self.count + len(steps), last, end_ns))
                self._last_call_ns = end_ns
        return steps
