"""What a record_function block costs, off and on."""

from __future__ import annotations

import timeit

import torch
from common import Row, seconds

import stepscope

BLOCKS = 50_000
_SETUPS = {
    "made once": "with scope: pass",
    "made anew": "with make('x'): pass",
}


def best_ns(statement: str, make: object) -> float:
    """Return the best time of one block in ns."""
    scope = make("x")  # type: ignore[operator]
    timer = timeit.Timer(statement, globals={"make": make, "scope": scope})
    return min(timer.repeat(repeat=15, number=BLOCKS)) / BLOCKS * 1e9


def recorded_ns(statement: str) -> float:
    """Return the same while Stepscope records; each repeat is a recording of its own."""
    scope = stepscope.record_function("x")
    space = {"make": stepscope.record_function, "scope": scope}
    timer = timeit.Timer(statement, globals=space)
    best = float("inf")
    for _ in range(15):
        with stepscope.profile():
            best = min(best, timer.timeit(BLOCKS) / BLOCKS * 1e9)
    return best


def rows() -> list[Row]:
    """Measure both ways to write a block, off and on, beside torch's record_function."""
    theirs = best_ns(_SETUPS["made anew"], torch.profiler.record_function)
    result = []
    for how, statement in _SETUPS.items():
        off, on = best_ns(statement, stepscope.record_function), recorded_ns(statement)
        for state, ours, bar in (("off", off, 150), ("on", on, 300)):
            result.append(
                Row(
                    f"a record_function block, {how}, {state}",
                    seconds(ours * 1e-9),
                    f"torch's, off {seconds(theirs * 1e-9)}",
                    f"{theirs / ours:.0f} × faster",
                    f"≤ {bar} ns",
                    ours <= bar,
                )
            )
    return result


if __name__ == "__main__":
    for row in rows():
        print(row)
