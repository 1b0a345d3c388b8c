"""Stores compiled bridges, and loads them safely.

A library runs in the user's process. So others must not be able to write to the folder or replace
it; it is opened once, and the same open file is checked and loaded. If anything is wrong with a
cache, recording works without it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import os
import shutil
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Self

from stepscope.private_folders import (
    cache_places,
    is_ours_alone,
    new_private_folder,
    open_private_folder,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Do not follow links, and do not wait for the other end of a pipe.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_BYTES = 1 << 28
_LOCK_TIMEOUT_S = 300
_LOCK_AGAIN_S = 0.05
_loads = count()


@dataclass(frozen=True, slots=True)
class Library:
    """An open library; it is loaded from the open file, whatever its path leads to by now."""

    file: int
    where: Path  # for messages
    stays_open: bool = False

    @staticmethod
    def opened(name: str | Path, where: Path, folder: int | None = None) -> Library:
        """Open a file that only we can write to; raise OSError for anything else."""
        file = os.open(name, _READ, dir_fd=folder)
        if is_ours_alone(os.fstat(file)):
            return Library(file, where)
        os.close(file)
        raise PermissionError(f"{where} can be changed by other users, or is not ours")

    def digest(self) -> str:
        return hashlib.sha256(self.content()).hexdigest()

    def content(self) -> bytes:
        size = min(os.fstat(self.file).st_size, _MAX_BYTES)
        parts, at = [], 0
        while at < size and (part := os.pread(self.file, size - at, at)):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def load(self) -> ctypes.CDLL:
        """Load exactly this file; raise OSError if that fails."""
        # The loader identifies libraries by name, so no name is used twice.
        again = "/../fd" * next(_loads)
        path = f"/proc/self/fd{again}/{self.file}"
        if os.path.exists(path):  # noqa: PTH110
            return ctypes.CDLL(path, mode=os.RTLD_NOW)
        with private_folder() as folder:  # without /proc, load a copy of our own
            copy = folder / self.where.name
            copy.write_bytes(self.content())
            return ctypes.CDLL(str(copy), mode=os.RTLD_NOW)

    def close(self) -> None:
        if not self.stays_open:
            os.close(self.file)


class Cache:
    """One folder of the cache, opened by descriptor."""

    def __init__(self, path: Path, *, create: bool) -> None:
        """Open the folder; raise OSError if that fails or others can write to it."""
        self.path = path
        self._folder = open_private_folder(path, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)

    def is_writable(self) -> bool:
        return os.access(".", os.W_OK, dir_fd=self._folder)

    def library(self, key: str) -> Library | None:
        """Return an intact library or None; loading half of one would kill the process."""
        try:
            expected = self.text(f"{key}.sha256")
            library = Library.opened(f"{key}.so", self.path / f"{key}.so", self._folder)
        except OSError:
            return None
        if library.digest() == expected:
            return library
        library.close()
        return None

    def stored(self, key: str, library: Library) -> Library:
        """Store a library and return the stored one; raise OSError if that fails."""
        content = library.content()
        self.write(f"{key}.sha256", hashlib.sha256(content).hexdigest().encode())
        self.write(f"{key}.so", content)
        cached = self.library(key)
        if cached is None:
            raise OSError(f"{self.path} does not keep what is written to it")
        library.close()
        return cached

    def text(self, name: str) -> str:
        library = Library.opened(name, self.path / name, self._folder)
        try:
            return library.content().decode("utf-8", "replace")
        finally:
            library.close()

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically."""
        part = f".{os.urandom(8).hex()}.part"
        file = os.open(part, _CREATE, 0o600, dir_fd=self._folder)
        try:
            with os.fdopen(file, "wb") as sink:
                sink.write(content)
            os.replace(part, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=self._folder)
            raise

    @contextlib.contextmanager
    def only_one(self, key: str) -> Iterator[None]:
        """Let one process compile while the others wait; without file locks, all compile."""
        try:
            lock = os.open(f"{key}.lock", _LOCK, 0o600, dir_fd=self._folder)
        except OSError:
            yield
            return
        try:
            _wait_for(lock)
            yield
        finally:
            os.close(lock)


def _wait_for(lock: int) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_AGAIN_S)
        except OSError:  # this file system has no locks
            return
        else:
            return


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Make a temporary folder that nobody else can read or replace."""
    folder = new_private_folder(also_in=cache_places())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
