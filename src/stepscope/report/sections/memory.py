"""Memory: every block's lifetime and allocation site, the allocators' own numbers, the peaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope.analysis.memory.blocks import ALWAYS, NEVER
from stepscope.analysis.memory.peak import peak_memory
from stepscope.analysis.memory.sites import Sites, sites_of
from stepscope.analysis.memory.timeline import (
    Category,
    MemoryTimeline,
    NoMemoryError,
    memory_timeline,
)
from stepscope.analysis.memory.usage import default_device, devices, rows_of_device, with_memory
from stepscope.report.base.payload import Payload
from stepscope.report.sections.events import origin_of
from stepscope.trace.model import NO_SLICE, Int64, Trace


def add_memory(trace: Trace, payload: Payload, device: str | None = None) -> None:
    """Add the blocks of all devices or of one, in the order of their starts, if there are any.

    A block that was there before the recording starts at 0, one that was there after it ends
    beyond ``memory.end``. Rows of ``memory.sites`` say who asked for it.
    """
    with_usage = with_memory(trace)
    timelines = _timelines(with_usage) if device is None else [memory_timeline(with_usage, device)]
    if not timelines:
        return
    start = origin_of(trace)
    end = max(timeline.end_ns for timeline in timelines) - start
    rows = np.concatenate([timeline.slice for timeline in timelines])
    stacks = np.concatenate([timeline.stack for timeline in timelines])
    sites = sites_of(trace, rows, stacks)  # the other sections' trace, so that caches are shared
    _add_blocks(payload, timelines, sites, start, end)
    _add_sites(payload, sites)
    _add_reserved(payload, with_usage, timelines, start)
    payload.add_value("memory.end", end)
    payload.add_value("memory.categories", [category.name.lower() for category in Category])
    first = 0
    described = []
    for timeline in timelines:
        described.append(_device(timeline, sites.of_slice[first:], start))
        first += len(timeline.blocks)
    payload.add_value("memory.devices", described)


def _timelines(trace: Trace) -> list[MemoryTimeline]:
    if not len(trace.memory):
        return []
    main = default_device(trace)
    timelines = []
    for device in sorted(devices(trace), key=lambda name: (name != main, name)):
        try:
            timelines.append(memory_timeline(trace, device))
        except NoMemoryError:  # all events have 0 bytes
            continue
    return timelines


def _add_blocks(
    payload: Payload, timelines: Sequence[MemoryTimeline], sites: Sites, start: int, end: int
) -> None:
    joined = np.concatenate
    starts = joined([_since(t.blocks.start_ns, start) for t in timelines])
    ends = joined([_until(t.blocks.end_ns, start, end) for t in timelines])
    ends = np.maximum(ends, starts)
    order = np.argsort(starts, kind="stable")
    device = np.repeat(np.arange(len(timelines)), [len(t.blocks) for t in timelines])
    slices = joined([t.slice for t in timelines]).astype(np.int64)
    sizes = joined([t.blocks.size for t in timelines])
    category = joined([t.category for t in timelines])
    payload.add_column("memory.start", starts[order], ascending=True)
    payload.add_column("memory.life", (ends - starts)[order])
    payload.add_column("memory.size", sizes[order])
    payload.add_column("memory.category", category[order])
    payload.add_column("memory.device", device[order])
    payload.add_column("memory.slice", payload.page_rows(slices[order]) - NO_SLICE)  # 0: unknown
    payload.add_column("memory.site", sites.of_slice[order])
    # The page would take long to sort blocks by their ends.
    by_end = np.argsort(ends[order], kind="stable")
    payload.add_column("memory.ended", by_end)


def _since(start_ns: Int64, origin: int) -> Int64:
    return np.where(start_ns == ALWAYS, 0, np.maximum(start_ns, origin) - origin)


def _until(end_ns: Int64, origin: int, end: int) -> Int64:
    return np.where(end_ns == NEVER, end + 1, end_ns - origin)


def _add_sites(payload: Payload, sites: Sites) -> None:
    payload.add_column("memory.sites.operator", sites.operator)
    payload.add_column("memory.sites.module", sites.module)
    payload.add_column("memory.sites.line", sites.line)
    payload.add_column("memory.sites.stack", sites.stack)
    stacks = sites.stacks
    payload.add_column("memory.stacks.up", np.arange(len(stacks)) - stacks.parent)
    payload.add_column("memory.stacks.frame", stacks.frame)


def _add_reserved(
    payload: Payload, trace: Trace, timelines: Sequence[MemoryTimeline], start: int
) -> None:
    """Add the bytes that allocators reserved, in use or not, where they report it."""
    memory = trace.memory
    parts = []
    for number, timeline in enumerate(timelines):
        rows = rows_of_device(trace, timeline.device)
        if memory.reserved[rows].any():
            parts.append((rows, np.full(len(rows), number)))
    if not parts:
        return
    rows, device = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(memory.time_ns[rows], kind="stable")
    rows, device = rows[order], device[order]
    payload.add_column(
        "memory.told.time", np.maximum(memory.time_ns[rows] - start, 0), ascending=True
    )
    payload.add_column("memory.told.device", device)
    payload.add_column("memory.told.reserved", memory.reserved[rows])


def _device(timeline: MemoryTimeline, site_of_block: Int64, start: int) -> dict[str, Any]:
    peak = timeline.peak()
    site = -1
    if peak.slice != NO_SLICE:
        site = int(site_of_block[np.flatnonzero(timeline.slice == peak.slice)[0]])
    # What the allocator held at the peak, what would lower it, and what is unknown.
    about = peak_memory(timeline.trace, timeline.device)
    return {
        "name": timeline.device,
        "about": {} if about is None else about.to_json(),
        "peak": {"time": max(peak.time_ns - start, 0), "bytes": peak.bytes, "site": site},
    }
