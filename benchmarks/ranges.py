"""What a record_function block costs, off and on."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING

import torch
from blocks import block_ns
from common import column_s, in_children
from estimate import mean_of, ratio_of
from rows import Row, limit_row, seconds

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable

PROCESSES = 12
TURNS = 10
RANGES = 5_000  # a block's
BARS_NS = {"off": 150, "on": 300}


def created_once(make: Callable[[str], contextlib.AbstractContextManager[object]]) -> None:
    """Enter the same object again and again."""
    scope = make("x")
    for _ in range(RANGES):
        with scope:
            pass


def created_each_time(make: Callable[[str], contextlib.AbstractContextManager[object]]) -> None:
    """Enter a new object each time."""
    for _ in range(RANGES):
        with make("x"):
            pass


WAYS = {"created once": created_once, "created each time": created_each_time}


def measure(turns: int) -> dict[str, float]:
    """Return the ns of a range in each way, off and on, and of torch's, in this process."""
    recorded = {"off": contextlib.nullcontext, "on": stepscope.profile}
    by_name = {}
    for how, ranges in WAYS.items():
        work = lambda ranges=ranges: ranges(stepscope.record_function)  # noqa: E731
        for state, taken in block_ns(recorded, work, turns).items():
            by_name[f"{how}, {state}"] = taken / RANGES
    theirs = block_ns(
        {"off": contextlib.nullcontext},
        lambda: created_each_time(torch.profiler.record_function),
        turns=1,
    )
    return {**by_name, "torch": theirs["off"] / RANGES}


def rows(quick: bool = False) -> list[Row]:
    """Measure both ways to write a range, off and on, beside torch's record_function."""
    runs = in_children(*((4, "ranges", "3") if quick else (PROCESSES, "ranges", str(TURNS))))
    theirs = column_s(runs, "torch")
    result = []
    for how in WAYS:
        for state, bar_ns in BARS_NS.items():
            ours = column_s(runs, f"{how}, {state}")
            ratio = ratio_of(theirs, ours)
            shown = f"{ratio.value:.0f} × faster ({ratio.low:.0f} to {ratio.high:.0f})"
            what = f"a record_function block, {how}, {state}"
            peer = f"torch's, off {seconds(mean_of(theirs).value)}"
            result.append(limit_row(what, ours, bar_ns * 1e-9, peer=peer, ratio=shown))
    return result


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
