"""speedscope's file format: a profile for each thread, of samples if there are any.

See https://www.speedscope.app/file-format-schema.json. Without samples, the nested slices of each
thread are written.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from stepscope.analysis.code.own_lines import place_of
from stepscope.formats.base.files import output_file
from stepscope.formats.base.registry import Progress
from stepscope.formats.base.sampled import SampledStacks, rows_by_track, thread_titles
from stepscope.trace.model import NO_PARENT, SliceFlags, Trace
from stepscope.trace.table import UInt32

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def export_speedscope(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    """Write ``trace`` for speedscope, compressed when ``path`` ends in ``.gz``."""
    frames = _Frames()
    profiles = _sampled(trace, frames) if len(trace.samples) else _nested(trace, frames)
    content = {
        "$schema": _SCHEMA,
        "exporter": "stepscope",
        "name": f"process {trace.info.pid} on {trace.info.host}" if trace.info.host else "",
        "shared": {"frames": frames.table},
        "profiles": profiles,
    }
    with output_file(path) as sink:
        sink.write(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())
    if progress is not None:
        progress(1, 1)


class _Frames:
    def __init__(self) -> None:
        self.table: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.table))
        if number == len(self.table):
            place = place_of(text)
            self.table.append(
                {"name": text}
                if place is None
                else {"name": place.function, "file": place.file, "line": place.line}
            )
        return number


def _sampled(trace: Trace, frames: _Frames) -> list[dict[str, Any]]:
    samples, stacks, titles = trace.samples, SampledStacks(trace), thread_titles(trace)
    numbers = [[frames.number(text) for text in stacks.frames(i)] for i in range(len(stacks))]
    profiles = []
    # The page opens on the first profile: the thread with most samples.
    by_track = rows_by_track(samples.track).items()
    for track, rows in sorted(by_track, key=lambda thread: -len(thread[1])):
        first_ns = int(samples.time_ns[rows[0]])
        weights = samples.duration_ns[rows].tolist()
        profiles.append(
            {
                "type": "sampled",
                "name": titles[track],
                "unit": "nanoseconds",
                "startValue": first_ns - trace.info.start_ns,
                "endValue": first_ns - trace.info.start_ns + sum(weights),
                "samples": [numbers[i] for i in stacks.of_sample[rows].tolist()],
                "weights": weights,
            }
        )
    return profiles


def _nested(trace: Trace, frames: _Frames) -> list[dict[str, Any]]:
    slices, titles = trace.slices, thread_titles(trace)
    shown = ~slices.on_device & (slices.flags & SliceFlags.ASYNC == 0)
    rows = np.flatnonzero(shown).astype(np.uint32)
    profiles = []
    for track, places in rows_by_track(slices.track[rows]).items():
        events = _events(trace, rows[places], frames)
        profiles.append(
            {
                "type": "evented",
                "name": titles[track],
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": max((event["at"] for event in events), default=0),
                "events": events,
            }
        )
    return profiles


def _events(trace: Trace, rows: UInt32, frames: _Frames) -> list[dict[str, Any]]:
    """Return begins and ends of slices; none ends after its parent."""
    slices, start_ns = trace.slices, trace.info.start_ns
    numbers = {name: frames.number(trace.strings[name]) for name in np.unique(slices.name).tolist()}
    events: list[dict[str, Any]] = []
    open_slices: list[tuple[int, int, int]] = []  # row, frame, end

    def close(until: int) -> None:
        while open_slices and open_slices[-1][0] != until:
            _, frame, end_ns = open_slices.pop()
            events.append({"type": "C", "frame": frame, "at": max(end_ns, events[-1]["at"])})

    for row in rows.tolist():
        close(int(slices.parent[row]))
        begin_ns = int(slices.start_ns[row]) - start_ns
        end_ns = begin_ns + int(slices.duration_ns[row])
        if open_slices:
            end_ns = min(end_ns, open_slices[-1][2])
        frame = numbers[int(slices.name[row])]
        begin_ns = max(begin_ns, events[-1]["at"] if events else 0)
        events.append({"type": "O", "frame": frame, "at": begin_ns})
        open_slices.append((row, frame, max(begin_ns, end_ns)))
    close(NO_PARENT)
    return events
