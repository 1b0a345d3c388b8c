"""A socket of ours in somebody else's program, which may close all files, as daemons do.

Then its number may belong to a file that the program opens later: nothing may be read from it,
written to it, or closed.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket


class OwnSocket:
    """A socket, and which one it is for the kernel."""

    def __init__(self, line: socket.socket) -> None:
        """Take a socket that is open."""
        self.line = line
        self._number = line.fileno()
        self._id = _file_at(self._number)

    def fileno(self) -> int:
        """Return its number, for whoever waits for it."""
        return self._number

    def is_there(self) -> bool:
        """Tell whether the number still is this socket's."""
        return self.line.fileno() == self._number and _file_at(self._number) == self._id

    def close(self) -> None:
        """Close it, unless that is no longer ours to do."""
        if self.line.fileno() < 0:
            return
        if self.is_there():
            with contextlib.suppress(OSError):
                self.line.close()
        else:
            self.line.detach()


def _file_at(number: int) -> tuple[int, int] | None:
    try:
        told = os.fstat(number)
    except OSError:
        return None
    return told.st_dev, told.st_ino
