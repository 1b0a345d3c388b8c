"""Folders that nobody else can put anything into, or exchange for another.

A path that was checked may lead elsewhere when it is opened. So a folder is opened once, step by
step from the root, without following a link, and each step is checked by its open descriptor; what
is done in it is done through that descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT_USER = 0
_UNMAPPED_USER = 65534  # how a container shows the owners that it does not know
_ALL_USERS = "4294967295"


class SharedFolderError(OSError):
    """A folder that others can write to or exchange."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.strerror = f"{reason}: {path}" if reason else str(path)


def open_private_folder(path: Path, *, create: bool = False) -> int:
    """Open a folder of our own that nobody else can write to; return its descriptor.

    Raise SharedFolderError when others could change what is in it, OSError when it cannot be had.
    Links in the path are followed before anything is checked, never after.
    """
    resolved = Path(os.path.realpath(path))
    folder = _opened(resolved, create=create)
    try:
        _check_own(folder, resolved)
    except BaseException:
        os.close(folder)
        raise
    return folder


def is_safe_parent(path: Path) -> bool:
    """Return whether nobody else can exchange what we make in a folder; a sticky /tmp is safe."""
    resolved = Path(os.path.realpath(path))
    try:
        folder = _opened(resolved, create=False)
        try:
            _check_parent(folder, resolved)
        finally:
            os.close(folder)
    except OSError:
        return False
    return True


def new_private_folder(kind: str = "", *, also_in: Iterable[Path] = ()) -> Path:
    """Make a new folder of our own where nobody else can exchange it; OSError without a place.

    It is in the temporary folder where that is safe, else in another one or in one of ``also_in``.
    """
    for parent in (*_temporary_folders(), *also_in):
        if is_safe_parent(parent):
            with contextlib.suppress(OSError):
                folder = parent / f"stepscope-{kind}{os.urandom(6).hex()}"
                folder.mkdir(mode=0o700)
                return folder
    raise OSError(errno.EACCES, "there is no place for a private folder")


def _temporary_folders() -> Iterator[Path]:
    import tempfile  # takes long to import, and few runs need it

    with contextlib.suppress(OSError):  # there is none that can be written
        yield Path(tempfile.gettempdir())
    yield from map(Path, ("/tmp", "/var/tmp"))
    with contextlib.suppress(RuntimeError):  # no home folder
        yield Path.home()


def _opened(resolved: Path, *, create: bool) -> int:
    """Open a folder step by step from the root; each folder above it is checked."""
    folder, at = os.open("/", _OPEN), Path("/")
    try:
        for name in resolved.parts[1:]:
            _check_parent(folder, at)
            folder = _entered(folder, name, create=create)
            at /= name
    except BaseException:
        os.close(folder)
        raise
    return folder


def _entered(folder: int, name: str, *, create: bool) -> int:
    """Open a folder within another, and close the outer one."""
    try:
        inner = os.open(name, _OPEN, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
        with contextlib.suppress(FileExistsError):  # another process has made it meanwhile
            os.mkdir(name, 0o700, dir_fd=folder)
        inner = os.open(name, _OPEN, dir_fd=folder)
    os.close(folder)
    return inner


def _check_parent(folder: int, path: Path) -> None:
    """Raise SharedFolderError for a folder in which others could exchange our files."""
    status = os.fstat(folder)
    if status.st_uid not in _trusted_users():
        raise SharedFolderError(path, "somebody else owns this folder")
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others_write and not status.st_mode & stat.S_ISVTX:
        raise SharedFolderError(path, "others can write to this folder")


def _check_own(folder: int, path: Path) -> None:
    status = os.fstat(folder)
    if status.st_uid != os.getuid():
        raise SharedFolderError(path, "somebody else owns this folder")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SharedFolderError(path, "others can write to this folder")


def is_ours_alone(status: os.stat_result) -> bool:
    """Tell whether this is a plain file of ours, or of root, that nobody else can write to."""
    is_shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(status.st_mode) and status.st_uid in {os.getuid(), 0} and not is_shared


def _trusted_users() -> set[int]:
    trusted = {_ROOT_USER, os.getuid()}
    try:
        maps_all = _ALL_USERS in Path("/proc/self/uid_map").read_text(encoding="utf-8").split()
    except OSError:
        maps_all = True
    return trusted if maps_all else {*trusted, _UNMAPPED_USER}


def cache_places() -> list[Path]:
    """Return where built bridges and measured peaks may be kept, the first choice first.

    It is never a folder that users share.
    """
    places = []
    chosen = os.environ.get("STEPSCOPE_CACHE_DIR")
    if chosen:
        places.append(Path(chosen))
    base = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # no home folder
        places.append((Path(base) if base else Path.home() / ".cache") / "stepscope")
    return [place.absolute() for place in places]
