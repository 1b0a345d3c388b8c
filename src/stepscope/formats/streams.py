"""Streams and launches of devices under Kineto's names, for readers of other tools' files."""

from __future__ import annotations

import numpy as np

from stepscope.formats.gathered import ABSENT, Gathered
from stepscope.trace.model import Int64, Track, UInt32


def device_track(device: int, stream: int, process: str = "") -> Track:
    """Return the track of a stream; several processes have streams of the same number."""
    number = "" if stream == ABSENT else str(stream)
    return Track(
        pid=f"{process}, GPU {device}" if process else str(device),
        tid=number or "0",
        process_name="",
        process_label=f"GPU {device}",
        thread_name=f"stream {number}" if number else "",
        process_sort=5_000_000 + min(max(device, 0), 1_000_000),
        thread_sort=stream if 0 <= stream < 1 << 31 else None,
    )


def shapes_of(gathered: Gathered, sizes: Int64) -> UInt32:
    """Return the fragments of grids and blocks, given as rows of six sizes."""
    complete = sizes[:, (sizes != ABSENT).all(axis=0)] if sizes.shape[1] else sizes
    distinct, which = np.unique(complete, axis=1, return_inverse=True)
    ids = np.array(
        [gathered.fragment({"grid": s[:3], "block": s[3:]}) for s in distinct.T.tolist()], np.uint32
    )
    fragments = np.zeros(sizes.shape[1], np.uint32)
    if len(ids):
        fragments[(sizes != ABSENT).all(axis=0)] = ids[which.reshape(-1)]
    return fragments
