"""New files and folders that appear complete, under an unused name."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any

from stepscope.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TRACE_SUFFIX = ".stepscope"  # of the folder of a saved trace
OWNER_ONLY = 0o600
_LONGEST_NAME = 255  # bytes


def unfinished_name() -> str:
    """Return a temporary name; it is short, whatever the target's length."""
    return f".stepscope-{os.urandom(6).hex()}"


@contextlib.contextmanager
def staging_folder(beside: Path) -> Iterator[Path]:
    """Make a temporary folder in the folder ``beside``."""
    import shutil  # takes long to import: not needed to start a run

    folder = beside / unfinished_name()
    try:
        folder.mkdir(mode=0o700)  # an interrupt may come as soon as it is there
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except KeyboardInterrupt:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def move_new(written: Path, target: Path) -> None:
    """Rename a file or folder; FileExistsError if the name is taken.

    If several processes try at once, each name goes to one of them.
    """
    if written.is_dir():
        target.mkdir(mode=0o700)  # reserves the name; the next line replaces the empty folder
        try:
            written.rename(target)
        except OSError:
            with contextlib.suppress(OSError):
                target.rmdir()
            raise
        return
    try:
        os.link(written, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY))
        written.replace(target)
    else:
        written.unlink(missing_ok=True)


def move_instead(written: Path, target: Path) -> None:
    """Replace a folder by another one; on failure the old one stays."""
    old = written.with_name("old")  # removed with its staging folder
    target.rename(old)
    try:
        written.rename(target)
    except OSError:
        old.rename(target)
        raise


def make_private(path: Path) -> None:
    """Make a file, or a folder and its files, readable by the owner alone."""
    with contextlib.suppress(OSError):  # a file system without permissions
        for entry in [path, *(path.iterdir() if path.is_dir() else ())]:
            mode = stat.S_IMODE(entry.stat().st_mode)
            entry.chmod(mode & 0o700)


def numbered(path: Path, suffix: str, number: int) -> Path:
    """Return the path with a number before the suffix; the first has none."""
    if number == 1:
        return path
    stem = path.name[: len(path.name) - len(suffix)] if suffix else path.name
    return path.with_name(f"{shortened(stem, f'-{number}{suffix}')}-{number}{suffix}")


def shortened(stem: str, rest: str) -> str:
    """Cut a name so that ``rest`` fits behind it in what file systems allow."""
    room = _LONGEST_NAME - len(os.fsencode(rest))
    while len(os.fsencode(stem)) > room:
        stem = stem[:-1]
    return stem


# Functions that return the Trace of a program that is, or was, recording into a folder: None for
# any other folder.
RECORDINGS: Registry[Callable[[str | os.PathLike[str]], Any]] = Registry()
