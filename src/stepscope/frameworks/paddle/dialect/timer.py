"""paddle.profiler's benchmark timer: the cost of steps and of loading their data."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscope import _native

if TYPE_CHECKING:
    from collections.abc import Sequence

    _Step = tuple[int, int, int | None]  # duration, waiting time, samples

_STEPS_TO_WARM_UP = 10  # excluded from the closing summary
_ADDED_AT_ONCE = 1024
_STEPS_PER_S = "steps/s"
_WIDTH = 100

_running: list[BenchmarkTimer] = []


@dataclass(slots=True)
class Spread:
    """The count, sum and extremes of some values."""

    count: int = 0
    total: float = 0
    largest: float = 0
    smallest: float = 0

    def add(self, values: Sequence[float]) -> None:
        if not values:
            return
        largest, smallest = max(values), min(values)
        self.largest = max(self.largest, largest) if self.count else largest
        self.smallest = min(self.smallest, smallest) if self.count else smallest
        self.count += len(values)
        self.total += sum(values)


@dataclass(slots=True)
class Steps:
    """The costs of several steps, in ns."""

    batch: Spread
    reader: Spread
    speed: Spread  # steps or samples per second, for each step
    samples: int = 0

    @classmethod
    def none(cls) -> Steps:
        return cls(Spread(), Spread(), Spread())

    def add(self, steps: Sequence[_Step]) -> None:
        self.batch.add([batch_ns for batch_ns, _, _ in steps])
        self.reader.add([reader_ns for _, reader_ns, _ in steps])
        self.samples += sum(samples or 0 for _, _, samples in steps)
        self.speed.add(
            [
                (1 if samples is None else samples) * 1e9 / batch_ns
                for batch_ns, _, samples in steps
                if batch_ns
            ]
        )

    def mean_speed(self, by_steps: bool) -> float:
        done = self.batch.count if by_steps else self.samples
        return done * 1e9 / self.batch.total if self.batch.total else 0.0


class BenchmarkTimer:
    """Measures steps, and the time in which they wait for a DataLoader.

    The timer pauses while a data set other than that of the first step is read, as when a model is
    evaluated during its training, and while another timer runs within a step.
    """

    def __init__(self) -> None:
        self.running = False
        self._forget()

    def _forget(self) -> None:
        self._thread = threading.get_ident()
        self._start_ns = self._step_ns = self._read_ns = 0
        self._reader_ns = 0  # the waiting time of the current step
        self._dataset: object = None
        self._elsewhere = False
        self._steps = 0
        self._by_steps = False
        self._unit = "samples/s"
        self._waiting: list[_Step] = []
        self._recent, self._counted = Steps.none(), Steps.none()

    def start(self) -> None:
        self._forget()
        self.running = True
        self._start_ns = self._step_ns = _native.now_ns()
        _running.append(self)

    def step(self, num_samples: int | None = None) -> int:
        """End a step that processed so many samples and begin the next; return the current time."""
        now_ns = _native.now_ns()
        if not self.running or self._elsewhere:
            return now_ns
        if num_samples is None:
            self._by_steps, self._unit = True, _STEPS_PER_S
        self._waiting.append(
            (now_ns - self._step_ns, self._reader_ns, None if self._by_steps else num_samples)
        )
        self._step_ns, self._reader_ns = now_ns, 0
        if len(self._waiting) == _ADDED_AT_ONCE:
            self._add_waiting()
        return now_ns

    def _add_waiting(self) -> None:
        """Add up the steps that were only noted so far: adding many at once is cheaper."""
        warming_up = max(_STEPS_TO_WARM_UP - self._steps, 0)
        self._recent.add(self._waiting)
        self._counted.add(self._waiting[warming_up:])
        self._steps += len(self._waiting)
        self._waiting.clear()

    def stop(self) -> str | None:
        """Stop timing; return the summary, or None after too few steps."""
        if not self.running:
            return None
        self.running = False
        self._add_waiting()
        _running.remove(self)
        now_ns = _native.now_ns()
        for other in _running:
            other._leave_out_nested(self._thread, self._start_ns, now_ns)
        return self._summary() if self._steps > _STEPS_TO_WARM_UP else None

    def step_info(self, unit: str = "samples") -> str:
        """Return the average costs of the steps since the previous call."""
        self._add_waiting()
        recent, self._recent = self._recent, Steps.none()
        steps = recent.batch.count
        text = ""
        if recent.reader.total:
            text += f" reader_cost: {recent.reader.total / steps / 1e9:.5f} s"
        if recent.batch.total:
            self._unit = _STEPS_PER_S if self._by_steps else f"{unit}/s"
            text += f" batch_cost: {recent.batch.total / steps / 1e9:.5f} s"
        if speed := recent.mean_speed(self._by_steps):
            text += f" ips: {speed:.3f} {self._unit}"
        return text

    # Called by data loaders.

    def read_begins(self, dataset: object) -> None:
        """Note that the program starts to wait for the next batch of a data set."""
        self._read_ns = _native.now_ns()
        if self._dataset is None:
            self._dataset = dataset
        if self._elsewhere and dataset is self._dataset:
            self._step_ns, self._reader_ns = self._read_ns, 0
        self._elsewhere = dataset is not self._dataset

    def read_ends(self) -> None:
        if not self._elsewhere:
            self._reader_ns += _native.now_ns() - self._read_ns

    # Time that does not belong to the program's step.

    def leave_out_since(self, start_ns: int) -> None:
        """Exclude the time since a moment from the current step."""
        self._step_ns += _native.now_ns() - start_ns

    def _leave_out_nested(self, thread: int, start_ns: int, end_ns: int) -> None:
        """Exclude another timer's run from the current step if it lies within the step."""
        if thread == self._thread and self._step_ns <= start_ns:
            self._step_ns += end_ns - start_ns

    def _summary(self) -> str:
        counted = self._counted
        lines = ["Perf Summary".center(_WIDTH, "=")]
        if counted.reader.total and counted.batch.total:
            lines.append(f"Reader Ratio: {counted.reader.total / counted.batch.total:.3%}")
        lines.append(f"Time Unit: s, IPS Unit: {self._unit}")
        lines.append(_row("", "avg", "max", "min"))
        if counted.reader.total:
            lines.append(_costs("reader_cost", counted.reader))
        lines.append(_costs("batch_cost", counted.batch))
        speed = counted.speed
        numbers = (counted.mean_speed(self._by_steps), speed.largest, speed.smallest)
        lines.append(_row("ips", *(f"{number:.5f}" for number in numbers)))
        return "\n".join(lines)


def running_timers() -> tuple[BenchmarkTimer, ...]:
    return tuple(_running)


def _costs(title: str, cost: Spread) -> str:
    in_ns = (cost.total / cost.count, cost.largest, cost.smallest)
    return _row(title, *(f"{ns / 1e9:.5f}" for ns in in_ns))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.center(15) for cell in cells) + " |"
