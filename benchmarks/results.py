"""From stop() to the first answer on 500k events: time and memory, beside torch.profiler."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from common import in_child, peak_bytes
from rows import Row, faster_row, megabytes, share_row

import stepscope

EVENTS = 500_000
PAIRS = 2  # torch.profiler takes more than a minute


def record(profiler: Any, events: int) -> None:
    """Record so many additions; the profiler is left running."""
    a, b = torch.ones(4), torch.ones(4)
    profiler.start()
    for _ in range(events):
        torch.add(a, b)


def profiler_of(who: str) -> Any:
    """Return a profiler of the host's operators."""
    if who == "torch":
        return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    return stepscope.profile(activities=[stepscope.ProfilerActivity.CPU])


def measure(who: str, events: int) -> dict[str, float]:
    """Return the seconds of each step to the answer, and the peak of memory in bytes."""
    result = {}
    torch.set_num_threads(1)
    if who == "bare":
        a, b = torch.ones(4), torch.ones(4)
        for _ in range(events):
            torch.add(a, b)
    else:
        warm_up = profiler_of(who)  # imports and lazy parts are not what is compared
        record(warm_up, 10)
        warm_up.stop()
        warm_up.key_averages().table()
        profiler = profiler_of(who)
        record(profiler, events)
        began = time.perf_counter()
        profiler.stop()
        table = profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
        result["stop and table"] = time.perf_counter() - began
        assert "aten::add" in table
        result["peak bytes"] = float(peak_bytes())
        profiler = profiler_of(who)
        record(profiler, events)
        profiler.stop()
        began = time.perf_counter()
        listed = profiler.events()
        names = [listed[i].name for i in range(0, len(listed), max(1, len(listed) // 100))]
        result["events"] = time.perf_counter() - began
        assert "aten::add" in names
    result.setdefault("peak bytes", float(peak_bytes()))
    return result


def rows(quick: bool = False) -> list[Row]:
    """Compare, each in a process of its own."""
    events = EVENTS // 10 if quick else EVENTS
    turns = [
        [in_child("results", who, str(events)) for who in ("bare", "ours", "torch")]
        for _ in range(PAIRS)
    ]
    bare, ours, theirs = zip(*turns, strict=True)
    result = [
        faster_row(
            f"{name}, {events // 1000}k events",
            [run[step] for run in ours],
            [run[step] for run in theirs],
            "torch.profiler",
            100,
        )
        for step, name in (
            ("stop and table", "stop() + first table"),
            ("events", "events(), reading 100"),
        )
    ]
    mine, torchs = (
        [run["peak bytes"] - without["peak bytes"] for run, without in zip(runs, bare, strict=True)]
        for runs in (ours, theirs)
    )
    what = f"peak memory over the bare program through that table, {events // 1000}k events"
    # The bar is for a long recording: in a short one, imports and first chunks weigh most.
    bar = None if quick else 1 / 20
    return [*result, share_row(what, mine, torchs, "torch.profiler", bar, show=megabytes)]


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
