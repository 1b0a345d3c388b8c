"""Small values of an event: its kernels, its time, its scalar inputs."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, NamedTuple


class Kernel(NamedTuple):
    """Device work that an operator launched."""

    name: str
    device: int
    duration: float  # µs


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of time in µs since the recording began."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return the length of the interval."""
        return self.end - self.start


def scalar_value(text: Any) -> Any:
    """Parse torch's text of a scalar input: a number, a truth value, a list, or nothing."""
    if text == "":
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    try:
        return float(text)  # nan and inf
    except (ValueError, TypeError):
        return text


def number(text: str) -> int:
    """Convert a process, thread, device or stream to a number; -1 for words of foreign traces."""
    try:
        return int(text)
    except ValueError:
        return -1
