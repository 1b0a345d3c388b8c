"""The registry of file formats: how each is recognised, read and written."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stepscope.arguments import file_path, shown
from stepscope.errors import StepscopeError, TraceReadError
from stepscope.registry import Registry
from stepscope.trace.placing import TRACE_SUFFIX

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

Progress = Callable[[int, int], None]  # called with the done and the total amount


class Reader(Protocol):
    def __call__(self, path: Path, progress: Progress | None = None) -> Trace:
        """Read the trace."""


class Writer(Protocol):
    def __call__(
        self, trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
    ) -> object:
        """Write the trace."""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format. ``reader`` and ``writer`` import what they need when they are called.

    ``matches`` is given a path and the first bytes of the file, inflated when it is gzip.
    """

    title: str
    suffixes: tuple[str, ...]
    matches: Callable[[Path, bytes], bool] | None = None
    reader: Callable[[], Reader] | None = None
    writer: Callable[[], Writer] | None = None


FORMATS: Registry[Format] = Registry()


class UnknownSuffixError(StepscopeError, ValueError):
    """No writable format has that suffix."""


def format_to_write(path: str | os.PathLike[str]) -> Format:
    """Return the format whose suffix ends ``path``; the longest suffix wins."""
    return _written_as(path)[1]


def suffix_of(path: str | os.PathLike[str]) -> str:
    """Return the end of ``path`` that names the format, as it is written there."""
    name = Path(path).name
    if name.lower().endswith(TRACE_SUFFIX):  # do not import other formats for our own
        return name[-len(TRACE_SUFFIX) :]
    return name[len(name) - _written_as(path)[0] :]


def _written_as(path: str | os.PathLike[str]) -> tuple[int, Format]:
    """Return the length of the suffix, and its format."""
    name = Path(path).name.lower()
    writable = [entry for entry in FORMATS if entry.writer is not None]
    matches = [
        (len(suffix), i)
        for i, entry in enumerate(writable)
        for suffix in entry.suffixes
        if name.endswith(suffix)
    ]
    if matches:
        length, at = max(matches)
        return length, writable[at]
    suffixes = ", ".join(
        f"{suffix} ({entry.title})" for entry in writable for suffix in entry.suffixes
    )
    raise UnknownSuffixError(
        f"{os.fspath(path)}: the suffix does not name a format; use one of {suffixes}"
    )


def format_of(path: Path, head: bytes) -> Format | None:
    """Return the format that a file's first bytes show; None if it is not readable."""
    readable = (entry for entry in FORMATS if entry.reader and entry.matches)
    return next((entry for entry in readable if entry.matches and entry.matches(path, head)), None)


def export_trace(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    """Write ``trace`` in the format that the suffix of ``path`` names."""
    file_path("path", path)
    if not hasattr(trace, "slices"):
        way_out = "its .trace" if hasattr(type(trace), "trace") else "a Trace"
        raise TypeError(f"export_trace({shown(trace)}, ...): give {way_out}")
    writer = format_to_write(path).writer
    assert writer is not None
    writer()(trace, path, progress)


def read_trace(path: str | os.PathLike[str], progress: Progress | None = None) -> Trace:
    """Read a trace of any known format, recognised by its content.

    ``progress`` is called with how much was read so far and how much there is, in any unit. A
    file that is not a trace raises ``TraceReadError``; one that could only be read in part warns
    with ``TraceReadWarning``.
    """
    from stepscope.formats.base.gzip import inflated_head

    file_path("path", path)
    place = Path(path)
    head = b"" if place.is_dir() else inflated_head(place)
    file_format = format_of(place, head)
    if file_format is not None and file_format.reader is not None:
        try:
            return file_format.reader()(place, progress)
        except MemoryError:  # a limit that the free memory does not reflect
            reason = "needs more memory than this process can have"
            raise TraceReadError(place, reason, "read it on a machine with more") from None
    titles = ", ".join(candidate.title for candidate in FORMATS if candidate.reader)
    what = "is empty" if not head else "is not a trace that Stepscope can read"
    raise TraceReadError(place, what, f"known formats: {titles}")
