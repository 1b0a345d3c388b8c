"""Where our text goes, and what becomes of characters that a stream cannot show."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TextIO

_STDERR = 2
_chosen: ContextVar[TextIO | None] = ContextVar("our output", default=None)
# How what we print looks where there is no Unicode.
_PLAIN = {
    "\N{MICRO SIGN}": "u",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{MIDDLE DOT}": "-",
    "\N{EN DASH}": "-",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{BOX DRAWINGS LIGHT HORIZONTAL}": "-",
    "\N{BOX DRAWINGS LIGHT VERTICAL}": "|",
    "\N{FULL BLOCK}": "#",
}
_ERRORS = "stepscope.plain"


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(char, "?") for char in text), error.end


codecs.register_error(_ERRORS, _plainly)


def out() -> TextIO:
    """Return where this thread's output goes; nowhere where standard output is closed."""
    return _chosen.get() or sys.stdout or io.StringIO()


def say(text: str = "") -> None:
    """Print a text; characters that the stream cannot show are replaced."""
    print(text, file=out())


@contextlib.contextmanager
def writing_to(stream: TextIO) -> Iterator[None]:
    """Have ``say`` write to a stream; on this thread only, for others may be the program's."""
    token = _chosen.set(stream)
    try:
        yield
    finally:
        _chosen.reset(token)


def degrade(stream: TextIO | None) -> None:
    """Have a stream show what it can, instead of failing: for output that is all ours."""
    if isinstance(stream, io.TextIOWrapper):
        with contextlib.suppress(Exception):
            stream.reconfigure(errors=_ERRORS)


class _Lenient(io.RawIOBase):
    """Standard error; nobody may be listening."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(_STDERR)

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(_STDERR, view) :]
            except OSError:
                break
        return len(data)


def own_stream() -> TextIO:
    """Return a stream for our text about a program that we run, whatever that does to its own.

    It is the process's standard error, without the program's buffers, which it may be writing to.
    Failing to write to it is no failure. Where ``sys.stderr`` is something else, it is that.
    """
    stream = sys.stderr
    if stream is None:  # closed: the program's first file may have its number
        return io.StringIO()
    try:
        is_standard = stream.fileno() == _STDERR
    except Exception:  # something that is no file
        is_standard = False
    if not is_standard:
        return stream
    encoding = getattr(stream, "encoding", None) or "utf-8"
    file = io.BufferedWriter(_Lenient())  # type: ignore[type-var]
    return io.TextIOWrapper(file, encoding, _ERRORS, line_buffering=True)
