"""Source: the cost of each line in the user's own files, and the text of those files."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stepscope.analysis.code.source_files import SourceFiles
from stepscope.analysis.host.sampled_lines import SampledLines, sampled_lines
from stepscope.analysis.host.source_lines import SourceLines, source_lines
from stepscope.report.base.payload import Payload
from stepscope.report.base.steady import steady_time
from stepscope.trace.model import Int64, Trace

_MOST_FILES = 50


def add_source(trace: Trace, payload: Payload) -> None:
    """Add the lines that cost something, by file and line, and the files that are here.

    Times come from samples if there are any, since those know the line. Device time, memory and
    operators come from events. A file that is not on this machine, or not in the payload's folders,
    has line numbers only. A payload without code gets no text.
    """
    finder = SourceFiles(trace, payload.code_from)
    sampled = sampled_lines(trace, finder.is_own)
    called = source_lines(trace, finder.is_own)
    if sampled is None and called is None:
        return
    lines = _Lines(sampled, called)
    steps = None if sampled is None else steady_time(trace)
    in_steps = None if steps is None else sampled_lines(trace, finder.is_own, steps)
    payload.add_value("source.sampled", sampled is not None)
    payload.add_value("source.times", ["run"] if in_steps is None else ["steps", "run"])
    lines.add_to(payload, in_steps)
    files = lines.files
    payload.add_value("source.files", files)
    payload.add_value("source.with_code", payload.with_code)
    payload.add_value("source.by_function", sampled is None and not bool(trace.slices.stack.any()))
    texts = _texts(finder, lines.hottest()) if payload.with_code else {}
    payload.add_value("source.texts", [texts.get(file) for file in files])
    withheld = [payload.with_code and finder.is_withheld(file) for file in files]
    payload.add_value("source.withheld", withheld)
    payload.add_value("source.newer", [file in texts and finder.is_newer(file) for file in files])


class _Lines:
    """The lines of samples and those of events as one table, ordered by file and line."""

    def __init__(self, sampled: SampledLines | None, called: SourceLines | None) -> None:
        self._sampled, self._called = sampled, called
        places = {
            (place.file, place.line): place
            for lines in (called, sampled)
            if lines is not None
            for place in lines.place
        }
        self.places = [places[key] for key in sorted(places)]
        self.files = sorted({place.file for place in self.places})
        self._row_of = {(p.file, p.line): row for row, p in enumerate(self.places)}

    def add_to(self, payload: Payload, in_steps: SampledLines | None) -> None:
        """Add the columns of lines, and the operators of each line."""
        number = {file: i for i, file in enumerate(self.files)}
        payload.add_column("source.file", np.array([number[place.file] for place in self.places]))
        payload.add_column("source.line", np.array([place.line for place in self.places]))
        payload.add_value("source.functions", [place.function for place in self.places])
        timed = self._sampled or self._called
        assert timed is not None
        self._add_times(payload, "source", timed)
        if in_steps is not None:
            self._add_times(payload, "source.steps", in_steps)
        if self._called is not None:
            self._add_events(payload, self._called)

    def hottest(self) -> list[str]:
        """Return the files, those with the most self time first."""
        time_ns = dict.fromkeys(self.files, 0)
        for lines in (self._sampled or self._called,):
            assert lines is not None
            for place, own_ns in zip(lines.place, lines.self_ns.tolist(), strict=True):
                time_ns[place.file] += own_ns
        if self._called is not None:
            pairs = zip(self._called.place, self._called.device_ns.tolist(), strict=True)
            for place, device_ns in pairs:
                time_ns[place.file] += device_ns
        return sorted(time_ns, key=lambda file: -time_ns[file])

    def _add_times(self, payload: Payload, name: str, lines: SampledLines | SourceLines) -> None:
        rows = self._rows(lines)
        payload.add_column(f"{name}.self", self._placed(rows, lines.self_ns))
        payload.add_column(f"{name}.total", self._placed(rows, lines.total_ns))
        for what, column in lines.self_by.items():
            payload.add_column(f"{name}.{what.name.lower()}", self._placed(rows, column))
        if isinstance(lines, SampledLines):
            parts = lines.parts
            payload.add_column(f"{name}.parts.line", rows[parts.line], ascending=True)
            payload.add_column(f"{name}.parts.name", parts.name)
            payload.add_column(f"{name}.parts.doing", parts.doing)
            payload.add_column(f"{name}.parts.self", parts.self_ns)

    def _add_events(self, payload: Payload, lines: SourceLines) -> None:
        rows = self._rows(lines)
        columns = {
            "device": lines.device_ns,
            "device_total": lines.total_device_ns,
            "bytes": lines.cpu_bytes + lines.device_bytes,
            "bytes_total": lines.total_bytes,
            "calls": lines.calls,
        }
        for name, column in columns.items():
            payload.add_column(f"source.{name}", self._placed(rows, column))
        operators = lines.operators
        payload.add_column("source.operators.line", rows[operators.line], ascending=True)
        payload.add_column("source.operators.name", operators.name)
        payload.add_column("source.operators.self", operators.self_ns)
        payload.add_column("source.operators.device", operators.device_ns)
        payload.add_column("source.operators.bytes", operators.allocated_bytes)
        payload.add_column("source.operators.calls", operators.calls)

    def _rows(self, lines: SampledLines | SourceLines) -> Int64:
        return np.array([self._row_of[place.file, place.line] for place in lines.place], np.int64)

    def _placed(self, rows: Int64, values: Int64) -> Int64:
        column = np.zeros(len(self.places), np.int64)
        column[rows] = values
        return column


def _texts(finder: SourceFiles, files: Iterable[str]) -> dict[str, str]:
    """Return the text of the first files that exist and are small enough."""
    texts: dict[str, str] = {}
    for file in files:
        if len(texts) == _MOST_FILES:
            break
        text = finder.text(file)
        if text is not None:
            texts[file] = text
    return texts
