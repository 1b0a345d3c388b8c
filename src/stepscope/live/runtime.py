"""Where the control sockets of this user's programs are: a folder that is nobody else's."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.private_folders import SharedFolderError, open_private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHOSEN = "STEPSCOPE_RUNTIME_DIR"
_SOCKET = re.compile(r"(\d+)-[0-9a-f]+\.sock")


def runtime_folder() -> Path:
    """Return the path of the folder, which may not exist yet."""
    chosen = os.environ.get(_CHOSEN)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.access(base, os.W_OK):
        return Path(base) / "stepscope"
    return Path(tempfile.gettempdir()) / f"stepscope-run-{os.getuid()}"


@contextlib.contextmanager
def opened_folder(*, create: bool) -> Iterator[int]:
    """Open the folder; OSError if others can write to it."""
    folder = open_private_folder(runtime_folder(), create=create)
    try:
        if os.fstat(folder).st_mode & 0o077:
            if not create:
                raise SharedFolderError(runtime_folder(), "others can look into this folder")
            os.fchmod(folder, 0o700)
        yield folder
    finally:
        os.close(folder)


def remove_socket(name: str) -> None:
    """Remove a socket, and with the last one the folder, unless the user chose it."""
    with contextlib.suppress(OSError), opened_folder(create=False) as folder:
        os.unlink(name, dir_fd=folder)
    if not os.environ.get(_CHOSEN):
        with contextlib.suppress(OSError):  # usually it holds other sockets
            runtime_folder().rmdir()


def socket_name(token: str) -> str:
    return f"{os.getpid()}-{token}.sock"


def short_path(folder: int, name: str) -> str:
    """Return a short path for a socket: its address has room for 108 bytes."""
    return f"/proc/self/fd/{folder}/{name}"


def socket_names(folder: int) -> list[tuple[int, str]]:
    """Return the process and the name of each socket in the folder."""
    matches = (_SOCKET.fullmatch(name) for name in os.listdir(folder))
    return sorted((int(match[1]), match[0]) for match in matches if match)
