"""PyTorch memory snapshots in the layout of ``torch.cuda.memory._snapshot()``."""

from __future__ import annotations

import random
from typing import Any

FIRST_US = 1_700_000_000_000_000
Frames = list[dict[str, Any]]


def stack(*places: tuple[str, int, str]) -> Frames:
    """Return frames, the innermost first."""
    return [{"filename": file, "line": line, "name": name} for file, line, name in places]


def snapshot(events: int = 400, devices: int = 2, *, depth: int = 4, seed: int = 1) -> Any:
    """Return a history that begins with blocks in use, frees some of them, and ends with others."""
    rng = random.Random(seed)
    expected = [{"filename": f"/home/me/m{i}.py", "line": i, "name": f"f{i}"} for i in range(40)]
    stacks = [[rng.choice(expected) for _ in range(depth)] for _ in range(12)]
    traces, segments = [], []
    for device in range(devices):
        trace, live = _trace(rng, stacks, events, device)
        traces.append(trace)
        segments.append(_segment(device, live, stacks))
    ranges = [
        {"device": 0, "time_us": FIRST_US + 5, "name": "ProfilerStep#0", "stage": "START"},
        {"device": 0, "time_us": FIRST_US + 900, "name": "ProfilerStep#0", "stage": "END"},
        {"device": 0, "time_us": FIRST_US + 905, "name": "open", "stage": "START"},
    ]
    settings = {"expandable_segments": False, "max_split_size": -1, "ratio": 0.5, "conf": "x:1"}
    return {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": settings,
        "external_annotations": ranges,
    }


def _trace(
    rng: random.Random, stacks: list[Frames], events: int, device: int
) -> tuple[list[dict[str, Any]], dict[int, int]]:
    live = {0x7F00_0000_0000 + (i << 20): 512 * (i + 1) for i in range(5)}  # before the history
    place, time_us = 0x7F10_0000_0000, FIRST_US + device
    trace: list[dict[str, Any]] = []

    def add(action: str, address: int, size: int) -> None:
        expected = {
            "action": action,
            "addr": address,
            "size": size,
            "stream": 0,
            "time_us": time_us,
        }
        frames = {"frames": list(rng.choice(stacks))}
        trace.append({**frames, **expected, "compile_context": "N/A", "user_metadata": ""})

    add("segment_alloc", place, 1 << 30)
    while len(trace) < events:
        time_us += rng.randrange(3)  # some within one µs
        if live and rng.random() < 0.48:
            address = rng.choice(list(live))
            size = live.pop(address)
            add("free_requested", address, size)
            add("free_completed", address, size)
        else:
            place += 1 << 16
            live[place] = rng.randrange(1, 1 << 16)
            add("alloc", place, live[place])
    oom = {"action": "oom", "device_free": 77, "size": 999, "stream": 0, "time_us": time_us}
    trace.append(oom)
    add("segment_free", place, 1 << 20)
    return trace, live


def _segment(device: int, live: dict[int, int], stacks: list[Frames]) -> dict[str, Any]:
    blocks = [
        {"address": a, "size": -(-s // 512) * 512, "requested_size": s, "state": "active_allocated",
         "frames": list(stacks[i % len(stacks)])}
        for i, (a, s) in enumerate(live.items())
    ]  # fmt: skip
    blocks.append(
        {"address": 1, "size": 4096, "requested_size": 0, "state": "inactive", "frames": []}
    )
    return {
        "device": device, "address": 0x7F00_0000_0000, "total_size": 2 << 30, "stream": 0,
        "segment_type": "large", "segment_pool_id": (0, 0), "blocks": blocks,
    }  # fmt: skip


def peak_of(snapshot: Any, device: int) -> tuple[int, int]:
    """Return the peak and the end of what is in use, by plain Python."""
    live: dict[int, int] = {}
    total = lowest_known = 0
    sums = [0]
    for event in snapshot["device_traces"][device]:
        if event["action"] == "alloc":
            live[event["addr"]] = event["size"]
            total += event["size"]
        elif event["action"] == "free_completed":
            if live.pop(event["addr"], None) is None:
                lowest_known += event["size"]  # it was there before
            total -= event["size"]
        sums.append(total)
    blocks = [b for s in snapshot["segments"] if s["device"] == device for b in s["blocks"]]
    result = sum(
        b["requested_size"]
        for b in blocks
        if b["state"] == "active_allocated" and b["address"] not in live
    )
    before = lowest_known + result
    return before + max(sums), before + sums[-1]
