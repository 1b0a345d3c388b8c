"""The memory timeline as a file: torch's two JSON formats, and any registered ones."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.registry import Registry

if TYPE_CHECKING:
    from stepscope.analysis.memory.timeline import MemoryTimeline
    from stepscope.trace.model import Trace

_BEFORE = -1  # torch's time of memory from before the recording

TimelineWriter = Callable[["MemoryTimeline", str | os.PathLike[str]], None]

TIMELINE_FORMATS: Registry[tuple[tuple[str, ...], TimelineWriter]] = Registry()
"""The suffixes of each format, and its writer."""


def export_memory_timeline(
    trace: Trace, path: str | os.PathLike[str], device: str | None = None
) -> None:
    """Write the memory of a device by category and time; the suffix of ``path`` picks the format.

    ``.html``: a page with an interactive chart, which needs no network. ``.json`` (``.json.gz``):
    ``[times in µs, [[0, bytes by category ...] ...]]``. ``.raw.json`` (``.raw.json.gz``): a list
    of ``[time in ns, action, bytes, category]``. Numbers, order and units are torch.profiler's.
    """
    from stepscope.analysis.memory.timeline import memory_timeline

    write = _writer_for(path)
    write(memory_timeline(trace, device), path)


def _writer_for(path: str | os.PathLike[str]) -> TimelineWriter:
    name = Path(path).name.lower()
    for suffixes, writer in TIMELINE_FORMATS:
        if name.endswith(suffixes):
            return writer
    raise ValueError(
        f"{os.fspath(path)}: the suffix is not one of a memory timeline; "
        "use .html, .json, .json.gz or .raw.json.gz"
    )


def _write_levels(timeline: MemoryTimeline, path: str | os.PathLike[str]) -> None:
    import numpy as np

    offset_ns = timeline.trace.info.wall_offset_ns
    times, sizes = timeline.levels(tick_ns=1000, offset_ns=offset_ns)
    padded = np.zeros((len(sizes), sizes.shape[1] + 1), np.int64)  # torch's rows begin with a 0
    padded[:, 1:] = sizes
    _write_json([times.tolist(), padded.tolist()], path)


def _write_raw(timeline: MemoryTimeline, path: str | os.PathLike[str]) -> None:
    import numpy as np

    from stepscope.analysis.memory.blocks import ALWAYS

    events = timeline.events()
    was_there = events.time_ns == ALWAYS
    offset_ns = timeline.trace.info.wall_offset_ns
    time_ns = np.where(was_there, _BEFORE, events.time_ns + np.where(was_there, 0, offset_ns))
    rows = np.stack([time_ns, events.action, events.bytes, events.category], 1)
    _write_json(rows.tolist(), path)


def _write_json(value: Any, path: str | os.PathLike[str]) -> None:
    from stepscope.formats.base.files import output_file

    with output_file(path) as sink:
        sink.write(json.dumps(value).encode())


# The longer suffix first: ".raw.json" ends in ".json" as well.
TIMELINE_FORMATS.register(((".raw.json", ".raw.json.gz"), _write_raw))
TIMELINE_FORMATS.register(((".json", ".json.gz"), _write_levels))
