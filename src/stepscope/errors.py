"""Stepscope's errors and warnings: one clear line each, with what to do about it."""

from __future__ import annotations

TYPE_CHECKING = False  # nothing here imports more than a program has that we record
if TYPE_CHECKING:
    from os import PathLike


class StepscopeError(Exception):
    """An invalid request or file; the CLI prints its message and exits with status 2."""


class UnsupportedError(StepscopeError):
    """This trace cannot provide what was requested; the message says what to use instead."""


class TraceReadError(StepscopeError):
    """A file that cannot be read as a trace."""

    def __init__(self, path: str | PathLike[str], reason: str, way_out: str = "") -> None:
        self.path = str(path)
        self.reason = reason
        self.way_out = way_out
        super().__init__(f"{self.path!r} {reason}" + (f"; {way_out}" if way_out else ""))

    def __reduce__(self) -> tuple[type[TraceReadError], tuple[str, str, str]]:
        """Support pickling, so that the error can cross processes."""
        return type(self), (self.path, self.reason, self.way_out)


def reason_of(error: Exception) -> str:
    """Return the text of an error for a notice; errors that are not ours also show their type."""
    if isinstance(error, StepscopeError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class TraceReadWarning(UserWarning):
    """A trace was read, but only a part of the file."""
