"""Records collections of Python's garbage collector as ranges of the paused thread."""

from __future__ import annotations

import gc
from collections import deque
from typing import TYPE_CHECKING

from stepscope._native import GcWatch
from stepscope.frameworks.python.options import GC_PAUSES, MIN_PAUSE_NS
from stepscope.record.slice_table import SliceTable
from stepscope.record.source import Source
from stepscope.trace.names import COLLECTION

if TYPE_CHECKING:
    from collections.abc import Collection

    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured

_MAX_PAUSES = 100_000
_CATEGORY = "user_annotation"


class GcPauses(Source):
    """Records collections; Python calls this source before and after each one.

    The callback is native: Python drops exceptions of collector callbacks, and a signal handler's
    exception is raised in whichever Python code runs.
    """

    name = "gc"
    when = GC_PAUSES

    def __init__(self, min_pause_ns: int = MIN_PAUSE_NS, *, name: str = COLLECTION) -> None:
        """With a shortest pause of 0, collections of the youngest generation count, too."""
        self._range_name = name
        self._watch = GcWatch(min_pause_ns)
        self._pauses: deque[tuple[int, int, int, int]] = deque(maxlen=_MAX_PAUSES)
        self.callback = self._watch.callback()

    def start(self) -> None:
        self._watch.restart()
        self._pauses.clear()
        if self.callback not in gc.callbacks:
            gc.callbacks.append(self.callback)

    def stop(self) -> None:
        if self.callback in gc.callbacks:
            gc.callbacks.remove(self.callback)

    def collect(self) -> Captured | None:
        pauses = self.so_far()
        self._pauses.clear()
        return pauses

    def so_far(self) -> Captured | None:
        self._pauses.extend(self._watch.take())
        return _captured(self._pauses, self._range_name)

    @classmethod
    def recover(cls, remains: LeftBehind) -> Captured | None:
        return _captured(remains.native.pauses(), COLLECTION)


def _captured(pauses: Collection[tuple[int, int, int, int]], name: str) -> Captured | None:
    if not pauses:
        return None
    table = SliceTable(_CATEGORY)
    for thread, start_ns, end_ns, generation in pauses:
        table.add(thread, name, start_ns, end_ns, {"Generation": generation})
    return table.captured()
