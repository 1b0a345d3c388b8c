"""Sealing: a recording that a program left becomes a trace like any other, in its own place."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from stepscope.errors import StepscopeError
from stepscope.record.read_back.reading import recover
from stepscope.record.stream.places import is_of_stream, only_sealer, read_folders
from stepscope.trace.model import Trace
from stepscope.trace.placing import TRACE_SUFFIX, make_private, move_instead, staging_folder

if TYPE_CHECKING:
    from pathlib import Path


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
