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
    """A socket that knows the kernel's id of its file."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self._number = line.fileno()
        self._id = _file_at(self._number)

    def fileno(self) -> int:
        """Return its number, for whoever waits for it."""
        return self._number

    def is_there(self) -> bool:
        """Return whether the file descriptor is still this socket's."""
        return self.line.fileno() == self._number and _file_at(self._number) == self._id

    def close(self) -> None:
        """Close the socket, unless its descriptor belongs to another file by now."""
        if self.line.fileno() < 0:
            return
        if self.is_there():
            with contextlib.suppress(OSError):
                self.line.close()
        else:
            self.line.detach()


def _file_at(number: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino
