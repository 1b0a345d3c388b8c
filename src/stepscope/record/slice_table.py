"""A table of slices for a source that collects only a few itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.trace.fragments import fragment_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.trace.schema import Captured


class SliceTable:
    """Slices of this process, all of one category, gathered one by one."""

    def __init__(self, category: str) -> None:
        self._texts: dict[str, int] = {"": 0, category: 1}
        self._threads: dict[int, int] = {}
        self._rows: list[tuple[int, int, int, int, int, bool]] = []

    def add(
        self,
        thread: int,
        name: str,
        start_ns: int,
        end_ns: int,
        detail: Mapping[str, object],
        *,
        unfinished: bool = False,
    ) -> None:
        """Add one; ``detail`` becomes its arguments."""
        track = self._threads.setdefault(thread, len(self._threads))
        rest = self._id_of(fragment_of(detail))
        row = (self._id_of(name), start_ns, end_ns - start_ns, track, rest, unfinished)
        self._rows.append(row)

    def captured(self, thread_names: Mapping[int, str] | None = None) -> Captured:
        """Return all as columns; there must be at least one.

        ``thread_names`` is by system thread id; without it, the threads are this process's.
        """
        import numpy as np

        from stepscope.record import threads
        from stepscope.record.capture import thread_track
        from stepscope.trace.model import NO_THREAD, Args, SliceFlags
        from stepscope.trace.schema import Captured, Slices
        from stepscope.trace.strings import Strings

        name, start_ns, duration_ns, track, rest, unfinished = np.array(self._rows, np.int64).T
        slices = Slices.of(
            category=np.full(len(self._rows), 1, np.uint32),
            name=name.astype(np.uint32),
            start_ns=start_ns.copy(),
            duration_ns=duration_ns.copy(),
            track=track.astype(np.uint32),
            flags=(unfinished * SliceFlags.UNFINISHED).astype(np.uint8),
            args=Args(rest=rest.astype(np.uint32)),
        )
        called = threads.thread_names() if thread_names is None else thread_names
        tracks = tuple(thread_track(i, NO_THREAD, called.get(i, "")) for i in self._threads)
        return Captured(slices, tracks, Strings.of(self._texts))

    def _id_of(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))
