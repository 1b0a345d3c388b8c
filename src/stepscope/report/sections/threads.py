"""The threads of a trace: their names, their order, and which of them pages offer for selection."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.calls.waiting import helper_tracks, waiting_tracks
from stepscope.report.base.payload import Payload
from stepscope.trace.model import Trace, Track

_LAST = 1 << 62


def host_threads(trace: Trace) -> list[int]:
    """Return the tracks of host threads that did something, in display order."""
    on_device = trace.slices.on_device
    used = np.union1d(trace.slices.track[~on_device], trace.samples.track)
    streams = np.setdiff1d(trace.slices.track[on_device], trace.slices.track[~on_device])
    rows = np.setdiff1d(used, streams).tolist()
    return sorted(rows, key=lambda row: place_of(trace, row))


def add_threads(trace: Trace, payload: Payload) -> None:
    """Add ``threads``: the track, process and name of each, and whether it waits or helps.

    A helper is a library's thread without Python, such as OpenMP's. The thread that waits for it
    already shows its time.
    """
    waits, helps = waiting_tracks(trace), helper_tracks(trace)
    payload.add_value(
        "threads",
        [
            {
                "track": row,
                "process": process_name(trace.tracks[row]),
                "name": thread_name(trace.tracks[row]),
                "waits": bool(waits[row]),
                "helps": bool(helps[row]),
            }
            for row in host_threads(trace)
        ],
    )


def process_name(track: Track, on_host: bool = True) -> str:
    """Return the display name of a track's process or device."""
    if on_host:
        is_number = track.pid.lstrip("-").isdecimal()
        return f"{track.process_name or ('process' if is_number else '')} {track.pid}".strip()
    return track.process_label or track.process_name or f"device {track.pid}"


def thread_name(track: Track, on_host: bool = True) -> str:
    """Return the display name of a track's thread or stream."""
    word = "thread" if on_host else "stream"
    is_named = track.tid.lower().startswith(word)  # early Kinetos wrote "stream 7" for 7
    return track.thread_name.strip() or (track.tid if is_named else f"{word} {track.tid}")


def place_of(trace: Trace, row: int, on_host: bool = True) -> tuple[bool, int, str, int, int, int]:
    """Return a sort key: the order that the file asks for, then numbers, then words.

    Devices stand above: there are few, and threads with Python's frames fill more than a screen.
    """
    track = trace.tracks[row]
    process = _LAST if track.process_sort is None else track.process_sort
    thread = _LAST if track.thread_sort is None else track.thread_sort
    number = int(track.tid) if track.tid.isascii() and track.tid.isdecimal() else _LAST
    return on_host, process, track.pid, thread, number, row
