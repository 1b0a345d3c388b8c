"""Sealing: a recording that a program left becomes a trace like any other, in its own place."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from stepscope.errors import StepscopeError
from stepscope.record.stream.places import is_of_stream, read_folders
from stepscope.record.stream.recovering import recover
from stepscope.trace.placing import make_private, move_instead, staging_folder
from stepscope.trace.store import SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace


def sealed(path: Path) -> Trace:
    """Read a recording that was not sealed; where its program has ended, seal it.

    Where that cannot be, on a disk that is full or read-only, it stays as readable as it is; and
    where the folder holds more than the stream, it is not replaced: ranks of a job may be there.
    """
    trace = recover(path)
    folders = read_folders(path)
    if folders.owner.is_alive() or not path.name.endswith(SUFFIX):
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
