"""What Stepscope raises and warns about: one clear line each, with the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike


class StepscopeError(Exception):
    """A mistake in what was asked for, or in a file; the CLI shows its line and exits with 2."""


class UnsupportedError(StepscopeError):
    """What was asked for cannot be had from this trace; the message says what to use instead."""


class TraceReadError(StepscopeError):
    """A file that cannot be read as a trace."""

    def __init__(self, path: str | PathLike[str], reason: str, way_out: str = "") -> None:
        """Say which file, what is wrong with it, and what to do."""
        self.path = str(path)
        self.reason = reason
        self.way_out = way_out
        super().__init__(f"{self.path!r} {reason}" + (f"; {way_out}" if way_out else ""))

    def __reduce__(self) -> tuple[type[TraceReadError], tuple[str, str, str]]:
        """Let the error travel between processes."""
        return type(self), (self.path, self.reason, self.way_out)


class TraceReadWarning(UserWarning):
    """A trace was read, but not all of the file could be."""
