"""From stop() to the first answer on 500k events: time and memory, beside torch.profiler."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from common import Row, in_child, peak_bytes, seconds

import stepscope

EVENTS = 500_000


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


def rows(events: int = EVENTS) -> list[Row]:
    """Compare, each in a process of its own."""
    bare, ours, theirs = (
        in_child("results", who, str(events)) for who in ("bare", "ours", "torch")
    )
    result = []
    steps = (("stop and table", "stop() + first table"), ("events", "events(), reading 100"))
    for step, name in steps:
        ratio = theirs[step] / ours[step]
        result.append(
            Row(
                f"{name}, {events // 1000}k events",
                seconds(ours[step]),
                f"torch.profiler {seconds(theirs[step])}",
                f"{ratio:.0f} × faster",
                "≥ 100 ×",
                ratio >= 100,
            )
        )
    extra = {
        who: peak["peak bytes"] - bare["peak bytes"]
        for who, peak in (("ours", ours), ("torch", theirs))
    }
    ratio = extra["torch"] / extra["ours"]
    result.append(
        Row(
            f"peak memory over the bare program through that table, {events // 1000}k events",
            f"{extra['ours'] / 1e6:.0f} MB",
            f"torch.profiler {extra['torch'] / 1e6:.0f} MB",
            f"1/{ratio:.0f}",
            "≤ 1/20",
            ratio >= 20,
        )
    )
    return result


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
    else:
        for row in rows():
            print(row)
