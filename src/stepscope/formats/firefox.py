"""The Firefox Profiler's format: threads with their samples, and slices as markers.

profiler.firefox.com opens the file, and nothing leaves the machine. The layout is that of its
processed profiles of version 48, which newer versions convert.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from stepscope.analysis.code.own_lines import place_of
from stepscope.formats.base.files import output_file
from stepscope.formats.base.registry import Progress
from stepscope.formats.base.sampled import SampledStacks, rows_by_track
from stepscope.trace.kinds import SliceKind
from stepscope.trace.model import Trace, Track
from stepscope.trace.table import UInt32

_GECKO_VERSION, _PROCESSED_VERSION = 29, 48
_NS_OF_MS = 1e6
_INTERVAL = 1  # a marker with a start and an end
_MARKER = "slice"
_COLOURS = {
    SliceKind.OTHER: "grey",
    SliceKind.OPERATOR: "blue",
    SliceKind.RANGE: "purple",
    SliceKind.STEP: "magenta",
    SliceKind.PYTHON: "yellow",
    SliceKind.RUNTIME: "orange",
    SliceKind.KERNEL: "green",
    SliceKind.MEMCPY: "lightblue",
    SliceKind.MEMSET: "lightblue",
    SliceKind.SYNC: "red",
    SliceKind.DEVICE_RANGE: "lightgreen",
    SliceKind.MODULE: "brown",
}


def export_firefox(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    """Write ``trace`` for the Firefox Profiler, compressed when ``path`` ends in ``.gz``."""
    info = trace.info
    samples, slices = rows_by_track(trace.samples.track), rows_by_track(trace.slices.track)
    stacks = SampledStacks(trace)
    threads = [
        _thread(trace, at, slices.get(at), samples.get(at), stacks)
        for at in sorted(samples.keys() | slices.keys(), key=lambda at: _order(trace.tracks[at]))
    ]
    content = {
        "meta": {
            "version": _GECKO_VERSION,
            "preprocessedProfileVersion": _PROCESSED_VERSION,
            "interval": 1,
            "startTime": (info.start_ns + info.wall_offset_ns) / _NS_OF_MS,
            "profilingStartTime": 0,
            "profilingEndTime": (info.end_ns - info.start_ns) / _NS_OF_MS,
            "processType": 0,
            "product": f"stepscope on {info.host}" if info.host else "stepscope",
            "stackwalk": 1,
            "debug": False,
            "symbolicated": True,
            "extensions": {"id": [], "name": [], "baseURL": [], "length": 0},
            "categories": [
                {"name": kind.name.lower(), "color": colour, "subcategories": ["Other"]}
                for kind, colour in _COLOURS.items()
            ],
            "markerSchema": [_schema()],
            "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        },
        "libs": [],
        "pages": [],
        "counters": [],
        "threads": threads,
    }
    with output_file(path) as sink:
        sink.write(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())
    if progress is not None:
        progress(1, 1)


def _order(track: Track) -> tuple[int, int]:
    return track.process_sort or 0, track.thread_sort or 0


def _schema() -> dict[str, Any]:
    return {
        "name": _MARKER,
        "display": ["marker-chart", "marker-table", "timeline-overview"],
        "chartLabel": "{marker.name}",
        "tooltipLabel": "{marker.name}",
        "tableLabel": "{marker.data.category}",
        "data": [
            {"key": "category", "label": "Category", "format": "string"},
            {"key": "step", "label": "Step", "format": "integer"},
            {"key": "args", "label": "Arguments", "format": "string"},
        ],
    }


class _Tables:
    """The tables that a thread's samples refer to."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._stacks: dict[tuple[int | None, int], int] = {}

    def text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def stack(self, frames: tuple[str, ...]) -> int | None:
        """Return the number of a stack, given from its outermost frame."""
        prefix: int | None = None
        for frame in frames:
            function = self._functions.setdefault(frame, len(self._functions))
            prefix = self._stacks.setdefault((prefix, function), len(self._stacks))
        return prefix

    def tables(self) -> dict[str, Any]:
        places = [(frame, place_of(frame)) for frame in self._functions]
        names = [self.text(place.function if place else frame) for frame, place in places]
        files = [self.text(place.file) if place else None for _, place in places]
        lines = [place.line if place else None for _, place in places]
        count = len(places)
        nothing = [None] * count
        return {
            "frameTable": {
                "length": count,
                "address": [-1] * count,
                "inlineDepth": [0] * count,
                "category": [int(SliceKind.PYTHON)] * count,
                "subcategory": [0] * count,
                "func": list(range(count)),
                "nativeSymbol": nothing,
                "innerWindowID": nothing,
                "implementation": nothing,
                "line": lines,
                "column": nothing,
            },
            "funcTable": {
                "length": count,
                "name": names,
                "isJS": [False] * count,
                "relevantForJS": [False] * count,
                "resource": [-1] * count,
                "fileName": files,
                "lineNumber": lines,
                "columnNumber": nothing,
            },
            "stackTable": {
                "length": len(self._stacks),
                "prefix": [prefix for prefix, _ in self._stacks],
                "frame": [frame for _, frame in self._stacks],
                "category": [int(SliceKind.PYTHON)] * len(self._stacks),
                "subcategory": [0] * len(self._stacks),
            },
            "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
            "nativeSymbols": {
                "length": 0,
                "address": [],
                "functionSize": [],
                "libIndex": [],
                "name": [],
            },
            "stringArray": list(self._texts),
        }


def _thread(
    trace: Trace, at: int, slices: UInt32 | None, samples: UInt32 | None, stacks: SampledStacks
) -> dict[str, Any]:
    track, tables = trace.tracks[at], _Tables()
    none = np.zeros(0, np.uint32)
    own = none if samples is None else samples
    numbers = [tables.stack(stacks.frames(i)) for i in stacks.of_sample[own].tolist()]
    times, weights = trace.samples.time_ns[own], trace.samples.duration_ns[own]
    markers = _markers(trace, none if slices is None else slices, tables)
    return {
        "name": track.thread_name or f"thread {track.tid}",
        "processName": " ".join(filter(None, (track.process_name, track.process_label))),
        "isMainThread": track.pid == track.tid,
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "pid": track.pid,
        "tid": track.tid,
        "samples": {
            "length": len(own),
            "stack": numbers,
            "time": _ms(times - trace.info.start_ns),
            "weight": _ms(weights),
            "weightType": "tracing-ms",
        },
        "markers": markers,
        **tables.tables(),
    }


def _markers(trace: Trace, rows: UInt32, tables: _Tables) -> dict[str, Any]:
    slices, strings = trace.slices, trace.strings
    rest = slices.args.rest
    starts = slices.start_ns[rows] - trace.info.start_ns
    data = []
    for row, category, step in zip(
        rows.tolist(), slices.category[rows].tolist(), slices.step[rows].tolist(), strict=True
    ):
        about: dict[str, Any] = {"type": _MARKER, "category": strings[category]}
        if step >= 0:
            about["step"] = step
        if len(rest) and rest[row]:
            about["args"] = strings[int(rest[row])]
        data.append(about)
    return {
        "length": len(rows),
        "name": [tables.text(strings[name]) for name in slices.name[rows].tolist()],
        "startTime": _ms(starts),
        "endTime": _ms(starts + slices.duration_ns[rows]),
        "phase": [_INTERVAL] * len(rows),
        "category": slices.kind[rows].tolist(),
        "data": data,
    }


def _ms(ns: Any) -> list[float]:
    times: list[float] = (ns / _NS_OF_MS).tolist()
    return times
