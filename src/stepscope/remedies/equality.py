"""Whether a changed program has computed the same: losses, outputs and parameters, step by step."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any, NamedTuple

_SAME, _CLOSE = 1e-5, 1e-2
_SPREAD = 3.0  # times as far from the program as the program is from itself is still the same


class Kind(IntEnum):
    EXACT, SAME, CLOSE, DIFFERS, UNKNOWN = range(5)


class Equality(NamedTuple):
    kind: Kind
    distance: float  # the largest relative difference
    compared: int  # results

    def __str__(self) -> str:
        match self.kind:
            case Kind.EXACT:
                return "exact"
            case Kind.SAME:
                return f"same to {self.distance:.0e}"
            case Kind.CLOSE:
                return f"close, to {self.distance:.0e}"
            case Kind.DIFFERS:
                return f"differs by {self.distance:.0e}"
            case _:
                return "not compared"


class Results:
    """What one arm has computed, by step."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.digests: dict[int, Any] = {}
        self.printed: str | None = None  # of a program without steps

    def add(self, facts: Any) -> None:
        self.steps += facts["results"]
        if facts["digest"]:
            self.digests[facts["count"]] = facts["digest"]


def compare(plain: Results, changed: Results, again: Results) -> Equality:
    """Compare a changed program with the plain one, and that with itself, run again."""
    distance, compared, is_exact = _distance(plain, changed)
    spread, _, _ = _distance(plain, again)
    is_repeatable = plain.printed == again.printed
    if not compared or not is_repeatable:
        return Equality(Kind.UNKNOWN, 0.0, 0)
    if is_exact:
        return Equality(Kind.EXACT, 0.0, compared)
    if distance <= max(_SAME, _SPREAD * spread):
        return Equality(Kind.SAME, distance, compared)
    kind = Kind.CLOSE if distance <= _CLOSE else Kind.DIFFERS
    return Equality(kind, distance, compared)


def _distance(one: Results, other: Results) -> tuple[float, int, bool]:
    pairs = [*zip(one.steps, other.steps, strict=False)]
    pairs += [
        (one.digests[step], other.digests[step])
        for step in one.digests.keys() & other.digests.keys()
    ]
    if one.printed is not None and other.printed is not None:
        is_same = one.printed == other.printed
        return (0.0 if is_same else 1.0), 1, is_same
    distance, compared, is_exact = 0.0, 0, True
    for first, second in pairs:
        if len(first) != len(second):
            return 1.0, compared + 1, False
        for (checksum, total, size), (other_checksum, other_total, other_size) in zip(
            first, second, strict=True
        ):
            compared += 1
            if checksum != other_checksum:
                is_exact = False
                distance = max(distance, _relative(total, other_total, max(size, other_size)))
    return distance, compared, is_exact


def _relative(one: float, other: float, size: float) -> float:
    if math.isnan(one) or math.isnan(other):
        return 0.0 if math.isnan(one) and math.isnan(other) else 1.0
    return min(1.0, abs(one - other) / size) if size else 0.0
