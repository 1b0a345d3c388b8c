"""Readers: any file that holds a trace, into a Trace. A format is one line of the registry."""

from __future__ import annotations

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
    read: Callable[[Path, Progress | None], Trace]


def _is_folder(path: Path, _head: bytes) -> bool:
    return path.is_dir()


def _read_folder(path: Path, progress: Progress | None) -> Trace:
    from stepscope.trace.store import load

    return load(path, progress)


def _is_json(_path: Path, head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"{", b"["}


def _read_json(path: Path, progress: Progress | None) -> Trace:
    from stepscope.readers.chrome import read_chrome

    return read_chrome(path, progress)


def _is_paddle_pb(_path: Path, head: bytes) -> bool:
    from stepscope.readers.paddle_pb import is_paddle_pb

    return is_paddle_pb(head)


def _read_paddle_pb(path: Path, progress: Progress | None) -> Trace:
    from stepscope.readers.paddle_pb import read_paddle_pb

    return read_paddle_pb(path, progress)


FORMATS = (
    Format("a Stepscope folder", _is_folder, _read_folder),
    Format("Chrome JSON", _is_json, _read_json),
    Format("Paddle's protobuf", _is_paddle_pb, _read_paddle_pb),
)


def read_trace(path: str | PathLike[str], progress: Progress | None = None) -> Trace:
    """Read a trace of any known format, recognised by its content.

    ``progress`` is called with how much was read so far and how much there is, in any unit. What is
    no trace raises ``TraceReadError``; what could only be read in part warns ``TraceReadWarning``.
    """
    place = Path(path)
    head = b"" if place.is_dir() else inflated_head(place)
    for known in FORMATS:
        if known.matches(place, head):
            return known.read(place, progress)
    formats = ", ".join(known.name for known in FORMATS)
    what = "is empty" if not head else "is no trace that Stepscope knows"
    raise TraceReadError(place, what, f"it reads {formats}")
