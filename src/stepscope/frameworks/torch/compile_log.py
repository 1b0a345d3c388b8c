"""Compilations and graph breaks of torch.compile during a recording."""

from __future__ import annotations

import re
import sys
from dataclasses import astuple, dataclass
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from stepscope.record.journal import Journal, entries, fits, is_whole
from stepscope.record.slice_table import SliceTable
from stepscope.trace.names import (
    COMPILATION,
    COMPILE_CATEGORY,
    COMPILED_BACKWARD,
    GRAPH_BREAK,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")  # dynamo's name for a function's rest


@dataclass(slots=True, eq=False)
class Span:
    """A compilation of a frame, or of a frame's backward pass."""

    number: int
    thread: int
    start_ns: int
    is_backward: bool
    compile_id: str = ""  # known once torch has told it
    end_ns: int = -1  # -1: not ended


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """A place at which tracing gave up: one graph ends there, and another begins after it."""

    thread: int
    time_ns: int
    kind: str
    place: str
    reason: str

    @property
    def title(self) -> str:
        return f"{GRAPH_BREAK}{self.kind} ({self.place})"


# The types of their fields, to check entries of a stream.
_SPAN = (int, int, int, bool, str, int)
_BREAK = (int, int, str, str, str)


class CompileLog:
    """Compilations and graph breaks of a recording; the stream keeps a copy."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._numbers = count()
        self._spans: list[Span] = []
        self._breaks: list[GraphBreak] = []
        self._frames: dict[str, str] = {}  # compiled functions by compile id
        self._end_ns = 0
        self._is_taken = False

    @classmethod
    def restored(cls, remains: LeftBehind, source: str) -> CompileLog:
        """Restore what a process noted, without malformed entries."""
        log = cls(Journal(source, is_on=False))
        spans: dict[int, Span] = {}
        log._end_ns = remains.facts["last_ns"]
        for entry in entries(remains, source):
            span, broken, frames = entry.get("span"), entry.get("break"), entry.get("frames")
            if isinstance(span, list) and fits(span, *_SPAN):
                spans[span[0]] = Span(*span)
            if isinstance(broken, list) and fits(broken, *_BREAK):
                log._breaks.append(GraphBreak(*broken))
            if isinstance(frames, dict):
                log._frames |= {key: text for key, text in frames.items() if isinstance(text, str)}
            if is_whole(entry.get("end_ns")):
                log._end_ns = entry["end_ns"]
        log._spans = list(spans.values())
        return log

    def begin(self, thread: int, start_ns: int, is_backward: bool) -> Span:
        span = Span(next(self._numbers), thread, start_ns, is_backward)
        self._spans.append(span)
        self._note(span)
        return span

    def end(self, span: Span, end_ns: int) -> None:
        span.end_ns = end_ns
        self._note(span)

    def name_innermost(self, thread: int, compile_id: object) -> None:
        """Give torch's id to the innermost compilation that is running on a thread."""
        for span in reversed(self._spans):
            if span.thread == thread and span.end_ns < 0:
                span.compile_id = span.compile_id or str(compile_id)
                self._note(span)
                break

    def graph_break(
        self, thread: int, time_ns: int, kind: object, where: tuple[str, int], reason: object
    ) -> None:
        graph_break = GraphBreak(thread, time_ns, str(kind), _short(*where), str(reason))
        self._breaks.append(graph_break)
        self._journal.add({"break": astuple(graph_break)})

    def close(self, end_ns: int) -> None:
        self._end_ns = end_ns
        self._journal.add({"end_ns": end_ns})
        self._look()

    def _note(self, span: Span) -> None:
        self._journal.add({"span": astuple(span)})
        self._look()

    def _look(self) -> None:
        """Learn the names of compiled functions, which torch reveals only after a compilation."""
        frames = compiled_frames()
        new = {key: frame for key, frame in frames.items() if self._frames.get(key) != frame}
        if new:
            self._frames |= new
            self._journal.add({"frames": new})

    def captured(self, thread_names: Mapping[int, str]) -> Captured | None:
        """Return compilations and graph breaks as slices; only the first call does."""
        if self._is_taken or not (self._spans or self._breaks):
            return None
        self._is_taken = True
        table = SliceTable(COMPILE_CATEGORY)
        for span in self._spans:
            is_open = span.end_ns < 0
            end_ns = max(self._end_ns if is_open else span.end_ns, span.start_ns)
            detail = {"compile_id": span.compile_id}
            name = _title(span, self._frames)
            table.add(span.thread, name, span.start_ns, end_ns, detail, unfinished=is_open)
        for graph_break in self._breaks:
            at_ns, detail = graph_break.time_ns, {"reason": graph_break.reason}
            table.add(graph_break.thread, graph_break.title, at_ns, at_ns, detail)
        return table.captured(thread_names)

    def describe(self) -> str:
        regions = [f"region {i} is {frame}" for i, frame in compiled_frames().items()]
        if not (regions or self._spans):
            return ""
        counts = f"compilations: {len(self._spans)}, graph breaks: {len(self._breaks)}"
        return "; ".join([counts, *regions])


def compiled_frames() -> dict[str, str]:
    """Return the functions and places that dynamo compiled lately, by compile id."""
    utils = sys.modules.get("torch._dynamo.utils")
    metrics: list[Any] = list(getattr(utils, "_compilation_metrics", ()))
    return {
        str(metric.compile_id): _frame(metric.co_name, metric.co_filename, metric.co_firstlineno)
        for metric in metrics
        if getattr(metric, "co_name", None) and metric.co_filename
    }


def _frame(name: str, filename: str, line: int | None) -> str:
    place = _short(filename, line)
    resumed = _RESUMED.fullmatch(name)
    return f"{resumed[1]} after the graph break at {place}" if resumed else f"{name} ({place})"


def _title(span: Span, frames: Mapping[str, str]) -> str:
    frame = frames.get(span.compile_id)
    title = f"{COMPILATION} {span.compile_id}".rstrip() + (f": {frame}" if frame else "")
    return title + COMPILED_BACKWARD if span.is_backward else title


def _short(filename: str, line: int | None) -> str:
    return f"{PurePath(filename).name}:{line}"
