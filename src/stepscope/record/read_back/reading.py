"""A recording that was never sealed, as a Trace: what a run's processes left in their streams."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.record.read_back.family import Family
from stepscope.record.read_back.recovering import missing_of
from stepscope.record.stream.notes import END
from stepscope.record.stream.places import read_folders
from stepscope.trace.validate import Damage
from stepscope.units import count_text

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.record.stream.places import StreamFolders
    from stepscope.trace.model import Trace

    Progress = Callable[[int, int], None]


# Errors that reading a damaged stream raises.
_OF_DAMAGE = (Damage, IndexError, KeyError, OverflowError, TypeError, ValueError, struct.error)


def recover(path: str | os.PathLike[str], progress: Progress | None = None) -> Trace:
    """Return what was recorded in a folder that was never sealed; a warning says what is missing.

    The program may still be running: then this is what it has recorded so far.
    """
    trace, state = recovered(Path(path), progress)
    if state:
        warnings.warn(state, TraceReadWarning, stacklevel=2)
    return trace


def recovered(folder: Path, progress: Progress | None = None) -> tuple[Trace, str]:
    """Return what was recorded in a folder that was never sealed, and in what state it is.

    The state is empty for a program that ended in order.
    """
    try:
        folders = read_folders(folder)
    except ValueError as error:
        raise TraceReadError(folder, f"is not a recording: {error}") from None
    return recovered_from(folders, folder, progress)


def recovered_from(
    folders: StreamFolders, shown: Path, progress: Progress | None = None
) -> tuple[Trace, str]:
    """Return what was recorded in the folders of a run; ``shown`` is what messages call it."""
    tell = progress or (lambda _done, _all: None)
    try:
        family = Family(folders)
        program = family.program()
        tell(1, 2)
        trace = family.trace_of(program) if program is not None else None
    except _OF_DAMAGE as damage:
        raise TraceReadError(shown, f"is damaged: {damage}") from damage
    if program is None or trace is None:
        why = "; ".join(family.unreadable) or "it holds no process that recorded anything"
        raise TraceReadError(shown, f"cannot be read: {why}")
    tell(2, 2)
    state = _state(program.remains, trace)
    return trace, state and f"{shown} {state}"


def _state(remains: LeftBehind, trace: Trace) -> str:
    """Return why the folder was not sealed, and what is missing in it."""
    if remains.folders.owner.is_alive():
        so_far = "this is what has been recorded so far"
        return f"is still being recorded by process {remains.pid}: {so_far}"
    missing = missing_of(remains)
    if END in remains.meta and not missing:
        return ""
    lost = trace.info.losses.events
    what = missing or (f"{count_text(lost, 'event')} were lost" if lost else "nothing is missing")
    return f"was never sealed, because its program ended abnormally: {what}"
