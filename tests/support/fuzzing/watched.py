"""Watches what reading a file does to the machine: processes, foreign code, and all other files."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROCESSES = frozenset(
    (
        *("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn"),
        *("os.spawn", "pty.spawn", "os.kill", "os.killpg", "signal.pthread_kill"),
    )
)
_FOREIGN_CODE = frozenset(
    ("pickle.find_class", "shelve.open", "sqlite3.enable_load_extension", "socket.connect")
)
_CHANGES = frozenset(
    (
        *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.chmod"),
        *("os.chown", "os.truncate", "os.utime", "os.setxattr", "os.removexattr"),
    )
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OUTPUTS = ("/dev/", "/proc/self/")

Fingerprint = dict[str, tuple[Any, ...]]


class Watch:
    """What may be written, what may not even be read, and what was done all the same."""

    def __init__(self, may_write: Path, outside: Path) -> None:
        self.may_write = os.path.realpath(may_write)
        self.outside = os.path.realpath(outside)
        self.before = fingerprint(outside)
        self.deeds: list[str] = []
        self.is_on = False

    def check(self) -> list[str]:
        """Return what was done since the last call, by Python or by native code."""
        deeds, self.deeds = self.deeds, []
        now = fingerprint(Path(self.outside))
        if now != self.before:
            names = [
                name for name in {*now, *self.before} if now.get(name) != self.before.get(name)
            ]
            deeds.append(f"changed outside: {sorted(names)}")
        return deeds

    def see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _PROCESSES or event in _FOREIGN_CODE:
            self._refuse(f"{event} {arguments[:2]!r:.200}")
        elif event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes) and isinstance(flags, int):
                self._see_open(os.fsdecode(path), flags)
        elif event in _CHANGES:
            paths = [os.fsdecode(item) for item in arguments if isinstance(item, str | bytes)]
            folders = [item for item in arguments[len(paths) :] if isinstance(item, int)]
            for number, path in enumerate(paths):
                here = _resolved(path, folders[-len(paths) :][number : number + 1])
                if not _is_below(here, self.may_write):
                    self._refuse(f"{event} {path}")

    def _see_open(self, path: str, flags: int) -> None:
        here = _resolved(path, [])
        may_write = _is_below(here, self.may_write) or path.startswith(_OUTPUTS)
        if flags & _WRITES and not may_write:
            self._refuse(f"open {path} to write")
        follows = not flags & os.O_NOFOLLOW
        target = os.path.realpath(path) if follows else here
        if _is_below(target, self.outside):
            self._refuse(f"open {path}, which leads outside")

    def _refuse(self, deed: str) -> None:
        self.deeds.append(deed)
        raise PermissionError(f"a file must not lead to this: {deed}")


_current: list[Watch] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _current and _current[-1].is_on and event in _SEEN:
        watch = _current[-1]
        watch.is_on = False  # what the watch itself does is not watched
        try:
            watch.see(event, arguments)
        finally:
            watch.is_on = True


_SEEN = _PROCESSES | _FOREIGN_CODE | _CHANGES | {"open"}
_is_installed: list[bool] = []


@contextlib.contextmanager
def watched(watch: Watch) -> Iterator[Watch]:
    """Watch the whole process as long as the block runs."""
    if not _is_installed:
        sys.addaudithook(_hook)  # for good: a hook cannot be removed
        _is_installed.append(True)
    _current.append(watch)
    watch.is_on = True
    try:
        yield watch
    finally:
        watch.is_on = False
        _current.remove(watch)


def make_outside(folder: Path) -> Path:
    """Make a folder of somebody's files, some of which look like ours."""
    folder.mkdir()
    (folder / "notes.txt").write_text("precious")
    (folder / "other.json").write_text('{"traceEvents": []}')
    (folder / "stream.json").write_text("{}")
    (folder / "run.sh").write_text("#!/bin/sh\ntouch ran\n")
    (folder / "folder").mkdir()
    (folder / "folder" / "1.segments").write_bytes(b"precious")
    (folder / "folder" / "link").symlink_to("../notes.txt")
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink():
            os.utime(path, ns=(10**18, 10**18))
    return folder


def fingerprint(folder: Path) -> Fingerprint:
    """Return what there is of each file: its type, times, size and bytes."""
    by_name: Fingerprint = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        about = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        result = (about.st_mode, about.st_mtime_ns, about.st_ino, about.st_nlink, data)
        by_name[str(path.relative_to(folder))] = result
    return by_name


def _resolved(path: str, folders: list[int]) -> str:
    """Return a path whose last part may be a link; ``folders`` has the descriptor it starts at."""
    if folders and folders[0] >= 0:
        path = str(Path(f"/proc/self/fd/{folders[0]}").readlink() / path)
    head, _, tail = path.rpartition("/")
    return f"{os.path.realpath(head or ('/' if path.startswith('/') else '.'))}/{tail}"


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)
