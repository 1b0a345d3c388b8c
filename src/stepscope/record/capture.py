"""What a window saw, as the columns that a Trace is built from."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.build import Captured, RawSlices
from stepscope.trace.model import NO_THREAD, Args, Losses, Track
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Recorded:
    """A closed window: what it saw, when it was open, and what it could not keep."""

    captured: Captured
    start_ns: int
    end_ns: int
    losses: Losses


def recorded(columns: Mapping[str, Any], thread_names: Mapping[int, str]) -> Recorded:
    """Take the native columns of a closed window; ``thread_names`` is by the system's ids."""
    strings = Strings(columns["blob"], columns["offsets"])
    args = Args()
    if columns["detail"] is not None:
        strings, rest = _as_fragments(strings, columns["detail"])
        args = Args(rest=rest)
    slices = RawSlices(
        category=columns["category"],
        name=columns["name"],
        start_ns=columns["start_ns"],
        duration_ns=columns["duration_ns"],
        track=columns["track"],
        overload=columns["overload"],
        flags=columns["flags"],
        context=columns["context"],
        sequence=columns["sequence"],
        forward_thread=columns["forward_thread"],
        args=args,
    )
    losses = Losses()
    if columns["lost"]:
        policy = "oldest" if columns["keep_newest"] else "newest"
        losses = Losses(columns["lost"], policy, columns["limit_bytes"])
    captured = Captured(slices, _tracks(columns["threads"], thread_names), strings)
    return Recorded(captured, columns["window_start_ns"], columns["window_end_ns"], losses)


def _tracks(threads: list[tuple[int, int, bytes]], names: Mapping[int, str]) -> tuple[Track, ...]:
    return tuple(
        thread_track(
            os_id, logical_id or NO_THREAD, names.get(os_id) or name.decode("utf-8", "replace")
        )
        for os_id, logical_id, name in threads
    )


def thread_track(os_id: int, logical_id: int, name: str) -> Track:
    """Return the track of a thread of this process."""
    pid = os.getpid()
    return Track(
        pid=str(pid),
        tid=str(os_id),
        process_name="python",
        thread_name=name,
        process_sort=pid,
        thread_sort=os_id,
        logical_id=logical_id,
    )


def _as_fragments(
    strings: Strings, detail: NDArray[np.uint32]
) -> tuple[Strings, NDArray[np.uint32]]:
    """Turn the texts that go with ranges into the JSON fragments of Args."""
    texts = list(strings)
    fragment_of = np.zeros(len(texts), np.uint32)
    for text_id in np.unique(detail[detail != 0]):
        fragment_of[text_id] = len(texts)
        texts.append(f'"args": {json.dumps(texts[text_id], ensure_ascii=False)}')
    return Strings.of(texts), fragment_of[detail]
