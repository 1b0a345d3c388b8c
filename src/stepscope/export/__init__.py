"""Exporters: functions that write a Trace to a path. The path's suffix picks one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

Progress = Callable[[int, int], None]  # called with (events done, events in all)


class ExportFunction(Protocol):
    """Write ``trace`` to ``path``, telling ``progress`` how far it is."""

    def __call__(
        self, trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
    ) -> None:
        """Write the trace."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """One format: what it is called, the suffixes that ask for it, and where its function lives."""

    title: str
    suffixes: tuple[str, ...]
    function: str  # "module:name", imported when it is needed

    def load(self) -> ExportFunction:
        """Import the function."""
        module, name = self.function.split(":")
        return cast("ExportFunction", getattr(import_module(module), name))


EXPORTERS = (
    Exporter("Chrome trace", (".json", ".json.gz"), "stepscope.export.chrome:export_chrome"),
    Exporter(
        "Paddle's Chrome trace",
        (".paddle_trace.json", ".paddle_trace.json.gz"),
        "stepscope.export.paddle_json:export_paddle_json",
    ),
    Exporter("Paddle's protobuf", (".pb", ".pb.gz"), "stepscope.export.paddle_pb:export_paddle_pb"),
    Exporter("report", (".html",), "stepscope.report.build:export_html"),
    Exporter("Stepscope trace", (".stepscope",), "stepscope.trace.store:save"),
    Exporter(
        "folded stacks",
        (".stacks", ".folded", ".stacks.gz", ".folded.gz"),
        "stepscope.export.stacks:export_stacks",
    ),
)


class UnknownSuffixError(StepscopeError, ValueError):
    """No exporter writes files with that suffix."""


def exporter_for(path: str | os.PathLike[str]) -> Exporter:
    """Return the exporter whose suffix ends ``path``; the longest suffix wins."""
    name = Path(path).name.lower()
    matches = [
        (len(suffix), exporter)
        for exporter in EXPORTERS
        for suffix in exporter.suffixes
        if name.endswith(suffix)
    ]
    if matches:
        return max(matches, key=lambda match: match[0])[1]
    known = ", ".join(f"{suffix} ({e.title})" for e in EXPORTERS for suffix in e.suffixes)
    raise UnknownSuffixError(
        f"{os.fspath(path)}: the suffix does not name a format; use one of {known}"
    )


def export_trace(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    """Write ``trace`` in the format that the suffix of ``path`` names."""
    exporter_for(path).load()(trace, path, progress)
