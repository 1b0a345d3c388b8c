"""Sealing: a recording that a program left becomes a trace like any other, in its own place."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from typing import TYPE_CHECKING

from stepscope.errors import StepscopeError
from stepscope.record.stream.places import UNSEALED, is_of_stream, is_unsealed, read_folders
from stepscope.record.stream.reading import recover
from stepscope.trace.model import Trace
from stepscope.trace.placing import TRACE_SUFFIX, make_private, move_instead, staging_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def only_sealer(folder: Path) -> Iterator[bool]:
    """Wait until nobody else seals a recording; whether it is still to be sealed then.

    The answer of a run may be at it while a user asks for the same.
    """
    try:
        file = os.open(folder / UNSEALED, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # it is gone, or a link that leads elsewhere
        yield False
        return
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield is_unsealed(folder)
    finally:
        os.close(file)


def sealed(path: Path) -> Trace:
    """Read a recording that was not sealed; where its program has ended, seal it.

    Where that cannot be, on a disk that is full or read-only, it stays as readable as it is. A
    folder that is not provably this user's own is only read, and one that holds more than the
    stream is not replaced: ranks of a job may be there.
    """
    with only_sealer(path) as is_left:
        return _sealed(path) if is_left else Trace.load(path)


def _sealed(path: Path) -> Trace:
    trace = recover(path)
    folders = read_folders(path)
    if not folders.is_ours or folders.owner.is_alive() or not path.name.endswith(TRACE_SUFFIX):
        return trace
    if not all(map(is_of_stream, path.iterdir())):
        return trace
    with contextlib.suppress(OSError, StepscopeError):
        with staging_folder(path.absolute().parent) as beside:
            written = beside / "trace"
            trace.save(written)
            make_private(written)
            move_instead(written, path.absolute())
        folders.forget_memory()
    return trace


def remove_unsealed(folder: Path) -> None:
    """Remove a stream, and its folder if that holds nothing else."""
    if not is_unsealed(folder):
        return
    for path in filter(is_of_stream, list(folder.iterdir())):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
            continue
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()
