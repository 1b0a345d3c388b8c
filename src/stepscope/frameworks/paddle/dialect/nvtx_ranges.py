"""Forwards RecordEvents and steps to NVIDIA's tools, as ``emit_nvtx`` asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope._native import record_function
from stepscope.frameworks.paddle.dialect.record_event import RecordEvent
from stepscope.notices import warn_user
from stepscope.nvtx import find_tool
from stepscope.record.patching import Patches
from stepscope.record.push_pop import tell, valid_text

if TYPE_CHECKING:
    from stepscope.record.push_pop import Tool


def _push(name: str) -> None:
    if (tool := find_tool()) is not None:
        tell(tool.push, valid_text(name))


def _pop() -> None:
    if (tool := find_tool()) is not None:
        tell(tool.pop)


# RecordEvent is patched only while this is requested.


def _enter_telling(self: RecordEvent) -> RecordEvent:
    record_function.__enter__(self)
    _push(self.name)
    return self


def _exit_telling(self: RecordEvent, *_: Any) -> None:
    _pop()
    record_function.__exit__(self)


def _tell_of_ranges(patches: Patches) -> None:
    for name in ("__enter__", "begin"):
        patches.replace(RecordEvent, name, _enter_telling)
    for name in ("__exit__", "end"):
        patches.replace(RecordEvent, name, _exit_telling)


_ranges = Patches(_tell_of_ranges)


class NvtxRanges:
    """One profiler's request to show its steps and all RecordEvents in NVIDIA's tools."""

    def __init__(self) -> None:
        self._on = False
        self._in_step = False

    def start(self) -> None:
        if self._on:
            return
        tool: Tool | None = find_tool()
        if tool is None:
            warn_user(
                "emit_nvtx=True has no effect: it needs torch with CUDA or the nvtx package, and "
                "neither was found; try `pip install nvtx`"
            )
            return
        self._on = True
        _ranges.acquire()

    def begin_step(self, name: str) -> None:
        """End the current step, if any, and begin the next."""
        self.end_step()
        if self._on:
            self._in_step = True
            _push(name)

    def end_step(self) -> None:
        if self._in_step:
            self._in_step = False
            _pop()

    def stop(self) -> None:
        self.end_step()
        if self._on:
            self._on = False
            _ranges.release()
