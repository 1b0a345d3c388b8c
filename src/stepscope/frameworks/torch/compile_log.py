"""What torch.compile did during a recording: compilations and graph breaks, as slices."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from stepscope.record.slice_table import SliceTable
from stepscope.trace.names import (
    COMPILATION,
    COMPILE_CATEGORY,
    COMPILED_BACKWARD,
    GRAPH_BREAK,
)

if TYPE_CHECKING:
    from stepscope.trace.schema import Captured

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")  # dynamo's name for a function's rest


@dataclass(slots=True, eq=False)
class Span:
    """One compilation of a frame, or of the backward pass of one."""

    thread: int
    start_ns: int
    is_backward: bool
    compile_id: str = ""  # told by torch when it is under way
    end_ns: int = -1  # not ended


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """A place at which tracing gave up: the graph ends there, and another begins behind it."""

    thread: int
    time_ns: int
    kind: str
    place: str
    reason: str

    @property
    def title(self) -> str:
        """Return what the trace calls it."""
        return f"{GRAPH_BREAK}{self.kind} ({self.place})"


class CompileLog:
    """Everything of one recording."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._spans: list[Span] = []
        self._breaks: list[GraphBreak] = []
        self._end_ns = 0
        self._is_taken = False

    def begin(self, thread: int, start_ns: int, is_backward: bool) -> Span:
        """Note that a compilation begins; the caller sets its end."""
        span = Span(thread, start_ns, is_backward)
        self._spans.append(span)
        return span

    def name_innermost(self, thread: int, compile_id: str) -> None:
        """Give the compilation that is under way on a thread the id that torch calls it by."""
        for span in reversed(self._spans):
            if span.thread == thread and span.end_ns < 0:
                span.compile_id = span.compile_id or compile_id
                break

    def graph_break(
        self, thread: int, time_ns: int, kind: str, where: tuple[str, int], reason: str
    ) -> None:
        """Note a graph break."""
        self._breaks.append(GraphBreak(thread, time_ns, kind, _short(*where), reason))

    def close(self, end_ns: int) -> None:
        """Nothing comes after this."""
        self._end_ns = end_ns

    def captured(self) -> Captured | None:
        """Return compilations, and graph breaks without a duration, as slices: once."""
        if self._is_taken or not (self._spans or self._breaks):
            return None
        self._is_taken = True
        frames = compiled_frames()
        table = SliceTable(COMPILE_CATEGORY)
        for span in self._spans:
            is_open = span.end_ns < 0
            end_ns = self._end_ns if is_open else span.end_ns
            detail = {"compile_id": span.compile_id}
            name = _title(span, frames)
            table.add(span.thread, name, span.start_ns, end_ns, detail, unfinished=is_open)
        for each in self._breaks:
            table.add(each.thread, each.title, each.time_ns, each.time_ns, {"reason": each.reason})
        return table.captured()

    def describe(self) -> str:
        """Say how much was compiled, and what the regions are; nothing without either."""
        regions = [f"region {i} is {frame}" for i, frame in compiled_frames().items()]
        if not (regions or self._spans):
            return ""
        counts = f"compilations: {len(self._spans)}, graph breaks: {len(self._breaks)}"
        return "; ".join([counts, *regions])


def compiled_frames() -> dict[str, str]:
    """Return what dynamo compiled in this process lately: functions and places, by compile id."""
    utils = sys.modules.get("torch._dynamo.utils")
    metrics: list[Any] = list(getattr(utils, "_compilation_metrics", ()))
    return {
        str(each.compile_id): _frame(each.co_name, each.co_filename, each.co_firstlineno)
        for each in metrics
        if getattr(each, "co_name", None) and each.co_filename
    }


def _frame(name: str, filename: str, line: int | None) -> str:
    place = _short(filename, line)
    resumed = _RESUMED.fullmatch(name)
    return f"{resumed[1]} after the graph break at {place}" if resumed else f"{name} ({place})"


def _title(span: Span, frames: dict[str, str]) -> str:
    frame = frames.get(span.compile_id)
    title = f"{COMPILATION} {span.compile_id}".rstrip() + (f": {frame}" if frame else "")
    return title + COMPILED_BACKWARD if span.is_backward else title


def _short(filename: str, line: int | None) -> str:
    return f"{PurePath(filename).name}:{line}"
