"""Pauses for Python's garbage collector, as ranges on the thread that was paused."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

from stepscope._native import now_ns
from stepscope.record.options import Option
from stepscope.record.slice_table import SliceTable
from stepscope.record.source import Source

if TYPE_CHECKING:
    from stepscope.trace.schema import Captured

# torch.profiler does not show them.
GC_PAUSES = Option("gc_pauses", False, run_default=True)

NAME = "Python garbage collection"
MIN_PAUSE_NS = 1_000_000
"""Shorter pauses are lost among the other waits of a thread."""

_YOUNGEST = 0  # these objects are collected all the time, in some ten µs: that is no pause

_CATEGORY = "user_annotation"


class GcPauses(Source):
    """The source: Python calls it before and after every collection."""

    name = "gc"
    when = GC_PAUSES

    def __init__(self, min_pause_ns: int = MIN_PAUSE_NS, *, name: str = NAME) -> None:
        """Touch nothing yet. With no shortest pause, those for the youngest objects count, too."""
        self._min_pause_ns = min_pause_ns
        self._called = name
        self._start_ns = 0  # of the collection under way; there is never more than one
        self._pauses: list[tuple[int, int, int, int]] = []

    def start(self) -> None:
        """Start to listen."""
        self._pauses = []
        self._start_ns = 0
        if self._collected not in gc.callbacks:
            gc.callbacks.append(self._collected)

    def stop(self) -> None:
        """Stop listening."""
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)

    def collect(self) -> Captured | None:
        """Return the pauses, once."""
        pauses, self._pauses = self._pauses, []
        if not pauses:
            return None
        table = SliceTable(_CATEGORY)
        for thread, start_ns, end_ns, generation in pauses:
            table.add(thread, self._called, start_ns, end_ns, {"Generation": generation})
        return table.captured()

    def _collected(self, phase: str, about: dict[str, Any]) -> None:
        if about["generation"] == _YOUNGEST and self._min_pause_ns:
            return
        time_ns = now_ns()
        if phase == "start":
            self._start_ns = time_ns
        elif self._start_ns and time_ns - self._start_ns >= self._min_pause_ns:
            pause = (threading.get_native_id(), self._start_ns, time_ns, int(about["generation"]))
            self._pauses.append(pause)
