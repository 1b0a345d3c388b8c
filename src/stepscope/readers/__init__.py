"""Readers: any file that holds a trace, into a Trace. A format is one line of the registry."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscope.errors import TraceReadError
from stepscope.readers.gzip import inflated_head

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from stepscope.trace.model import Trace

    Progress = Callable[[int, int], None]


class Format(NamedTuple):
    """A kind of trace: how its content looks, and the function that reads it."""

    name: str
    matches: Callable[[Path, bytes], bool]  # the path and the first (inflated) bytes
    reader: str  # "module:function", imported when needed


def _is_folder(path: Path, _head: bytes) -> bool:
    return path.is_dir()


def _is_json(_path: Path, head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"{", b"["}


FORMATS = (
    Format("a Stepscope folder", _is_folder, "stepscope.trace.store:load"),
    Format("Chrome JSON", _is_json, "stepscope.readers.chrome:read_chrome"),
)


def read_trace(path: str | PathLike[str], progress: Progress | None = None) -> Trace:
    """Read a trace of any known format, recognised by its content.

    ``progress`` is called with the bytes of the file read so far and in all, where a reader can say.
    """
    place = Path(path)
    head = b"" if place.is_dir() else inflated_head(place)
    for known in FORMATS:
        if known.matches(place, head):
            module, function = known.reader.split(":")
            read = getattr(import_module(module), function)
            trace: Trace = read(place) if progress is None else read(place, progress=progress)
            return trace
    formats = ", ".join(known.name for known in FORMATS)
    what = "is empty" if not head else "is no trace that Stepscope knows"
    raise TraceReadError(place, what, f"it reads {formats}")
