"""The memory timeline as a file: a page to look at, or torch's two JSON formats."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.memory.blocks import ALWAYS
from stepscope.analysis.memory.timeline import Category, MemoryTimeline, memory_timeline
from stepscope.formats.files import output_file
from stepscope.trace.model import NO_SLICE

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import Trace

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_BEFORE = -1  # torch's time of what was there before the recording


def export_memory_timeline(
    trace: Trace, path: str | os.PathLike[str], device: str | None = None
) -> None:
    """Write the memory of a device by category and time; the suffix of ``path`` picks the format.

    ``.html``: a page with an interactive chart, which needs no network. ``.json`` (``.json.gz``):
    ``[times in µs, [[0, bytes by category ...] ...]]``. ``.raw.json`` (``.raw.json.gz``): a list
    of ``[time in ns, action, bytes, category]``. Numbers, order and units are torch.profiler's.
    """
    write = _writer_for(path)
    text = write(memory_timeline(trace, device))
    with output_file(path) as sink:
        sink.write(text.encode())


def _writer_for(path: str | os.PathLike[str]) -> Callable[[MemoryTimeline], str]:
    name = Path(path).name.lower()
    for suffix, writer in _WRITERS.items():
        if name.endswith((suffix, f"{suffix}.gz")) and not name.endswith(".html.gz"):
            return writer
    raise ValueError(
        f"{os.fspath(path)}: the suffix names no kind of memory timeline; "
        "use .html, .json, .json.gz or .raw.json.gz"
    )


def _levels_json(timeline: MemoryTimeline) -> str:
    offset_ns = timeline.trace.info.wall_offset_ns
    times, sizes = timeline.levels(tick_ns=1000, offset_ns=offset_ns)
    padded = np.zeros((len(sizes), sizes.shape[1] + 1), np.int64)  # torch's rows begin with a 0
    padded[:, 1:] = sizes
    return json.dumps([times.tolist(), padded.tolist()])


def _raw_json(timeline: MemoryTimeline) -> str:
    events = timeline.events()
    was_there = events.time_ns == ALWAYS
    offset_ns = timeline.trace.info.wall_offset_ns
    time_ns = np.where(was_there, _BEFORE, events.time_ns + np.where(was_there, 0, offset_ns))
    return json.dumps(np.stack([time_ns, events.action, events.bytes, events.category], 1).tolist())


def _page(timeline: MemoryTimeline) -> str:
    parts = {
        "css": _static("memory_timeline.css"),
        "js": _static("memory_timeline.js"),
        # No text within can end the element, or begin a comment in it.
        "data": json.dumps(_page_data(timeline), separators=(",", ":")).replace("<", "\\u003c"),
    }
    # All places at once: what stands in the data is never taken for a place.
    return _PLACE.sub(lambda place: parts[place[1]], _static("memory_timeline.html"))


def _page_data(timeline: MemoryTimeline) -> dict[str, Any]:
    """Return what was there before, and the changes since, counted from the first event."""
    events = timeline.events()
    later = events.time_ns != ALWAYS
    base = np.zeros(len(Category), np.int64)
    np.add.at(base, events.category[~later], events.bytes[~later])
    first_ns = timeline.start_ns
    return {
        "device": timeline.device,
        "categories": [category.name.lower() for category in Category],
        "base": base.tolist(),
        "time_ns": [0, *(events.time_ns[later] - first_ns).tolist()],
        "category": [0, *events.category[later].tolist()],
        "bytes": [0, *events.bytes[later].tolist()],
        "duration_ns": max(timeline.end_ns - first_ns, 0),
        "peak": _peak(timeline),
    }


def _peak(timeline: MemoryTimeline) -> dict[str, Any]:
    peak = timeline.peak()
    where = "" if peak.slice == NO_SLICE else timeline.trace.name_of(peak.slice)
    return {"bytes": peak.bytes, "time_ns": peak.time_ns - timeline.start_ns, "where": where}


def _static(name: str) -> str:
    return (files("stepscope.formats") / "static" / name).read_text(encoding="utf-8")


# The longer suffix first: ".raw.json" ends in ".json" as well.
_WRITERS: dict[str, Callable[[MemoryTimeline], str]] = {
    ".html": _page,
    ".raw.json": _raw_json,
    ".json": _levels_json,
}
