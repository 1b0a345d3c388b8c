"""A window over the recorder: from open() to close() it sees every event of every thread."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING

import numpy as np

from stepscope import _native
from stepscope.record.limits import Keep, MemoryLimit
from stepscope.trace.build import Captured, RawSlices
from stepscope.trace.model import NO_THREAD, Args, Losses, Track
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Window:
    """One open window. Several may be open at once; each gets all that happens while it is."""

    def __init__(self, limit: MemoryLimit | None = None) -> None:
        """Open it: recording starts now."""
        keep_newest = limit is not None and limit.keep is Keep.NEWEST
        self._id = _native.open_window(limit.bytes if limit else 0, keep_newest)
        self._names: dict[int, str] = {}
        self.start_ns = 0
        self.end_ns = 0
        self.losses = Losses()
        self.note_thread_names()

    def restart(self) -> None:
        """Let the window begin now."""
        _native.restart_window(self._id)

    def note_thread_names(self) -> None:
        """Remember what the threads that run now are called: a thread that ends takes it along."""
        for thread in threading.enumerate():
            if thread.native_id is not None:
                self._names[thread.native_id] = thread.name

    def close(self) -> Captured:
        """Close it and take what it saw."""
        self.note_thread_names()
        columns = _native.close_window(self._id)
        self.start_ns = columns["window_start_ns"]
        self.end_ns = columns["window_end_ns"]
        if columns["lost"]:
            policy = "oldest" if columns["keep_newest"] else "newest"
            self.losses = Losses(columns["lost"], policy, columns["limit_bytes"])
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
        return Captured(slices, self._tracks(columns["threads"]), strings)

    def _tracks(self, threads: list[tuple[int, int, bytes]]) -> tuple[Track, ...]:
        pid = os.getpid()
        return tuple(
            Track(
                pid=str(pid),
                tid=str(os_id),
                process_name="python",
                thread_name=self._names.get(os_id) or name.decode("utf-8", "replace"),
                process_sort=pid,
                thread_sort=os_id,
                logical_id=logical_id or NO_THREAD,
            )
            for os_id, logical_id, name in threads
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
