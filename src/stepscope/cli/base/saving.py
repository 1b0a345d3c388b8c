"""Saves what was recorded: where it was asked for, or else wherever that works."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.base.files import write
from stepscope.errors import StepscopeError, reason_of
from stepscope.formats.base.registry import suffix_of
from stepscope.notices import notify
from stepscope.private_folders import is_safe_parent
from stepscope.record.stream.places import is_unsealed
from stepscope.trace.placing import (
    TRACE_SUFFIX,
    make_private,
    move_instead,
    move_new,
    numbered,
    staging_folder,
)
from stepscope.trace.store import is_stored_trace

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

_MOST_OF_A_NAME = 100_000  # runs of one script that end in the same second
_PLAIN_NAME = "trace"


class NotPlacedError(StepscopeError):
    """Something could not be written to a place."""


def save_somewhere(trace: Trace, wanted: Path, *, force: bool) -> Path | None:
    """Save a trace, at best as ``wanted``; return where it is, None when it is lost.

    Each failure is printed in one line. Without ``force`` nothing is replaced: the trace gets the
    next free name.
    """
    try:
        return place(wanted, lambda path: write(trace, path, force=False), force=force)
    except Exception as error:
        failure = reason_of(error)
    suffixes = dict.fromkeys((suffix_of(wanted), TRACE_SUFFIX))  # another format, if this one fails
    for folder in _fallback_folders(wanted):
        for suffix in suffixes:
            saved = _saved_in_new_folder(trace, folder, suffix)
            if saved is not None:
                notify(f"{failure}; saving the trace to {saved} instead")
                return saved
    notify(f"{failure}; nor could the trace be saved anywhere else: it is lost")
    return None


def place(
    wanted: Path, make: Callable[[Path], object], *, force: bool, suffix: str | None = None
) -> Path:
    """Have ``make`` write a file or folder, and put it at ``wanted``, whole or not at all.

    Return where it is: without ``force`` a name that is taken leads to the next one. What is
    written is readable by its owner alone.
    """
    target = Path(os.path.realpath(wanted))
    if target.exists() and not (target.is_file() or target.is_dir()):
        make(target)  # a device or a pipe
        return wanted
    suffix = suffix_of(target) if suffix is None else suffix
    try:
        with staging_folder(target.parent) as folder:
            written = folder / f"{_PLAIN_NAME}{suffix}"
            make(written)
            make_private(written)
            if force and target.exists():
                _replace(written, target)
                return wanted
            for number in range(1, _MOST_OF_A_NAME):
                path = numbered(target, suffix, number)
                with contextlib.suppress(FileExistsError):
                    move_new(written, path)
                    return wanted if number == 1 else wanted.with_name(path.name)
    except OSError as error:
        raise NotPlacedError(f"{wanted}: {error.strerror or error}") from error
    raise NotPlacedError(f"{wanted}: this name and its numbered variants are all taken")


def _replace(written: Path, target: Path) -> None:
    if not target.is_dir():
        written.replace(target)
        return
    if not is_stored_trace(target) and not is_unsealed(target):
        raise NotPlacedError(f"{target} is a folder but not a saved trace")
    move_instead(written, target)


def _saved_in_new_folder(trace: Trace, parent: Path, suffix: str) -> Path | None:
    """Save a trace in a new private folder; None when that cannot be, and no folder is left."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="stepscope-", dir=parent))
    except OSError:
        return None
    path = folder / f"{_PLAIN_NAME}{suffix}"
    saved = False
    try:
        place(path, lambda written: write(trace, written, force=False), force=False)
        saved = True
    except Exception:
        return None
    finally:
        if not saved:
            with contextlib.suppress(OSError):
                folder.rmdir()
    return path


def _fallback_folders(wanted: Path) -> Iterator[Path]:
    """Yield where a new folder of ours may be made, and nobody else can exchange it."""
    places = [*_temporary_folders(), wanted.parent, Path("/dev/shm")]
    with contextlib.suppress(RuntimeError):  # no home folder
        places.append(Path.home())
    for folder in dict.fromkeys(places):
        if is_safe_parent(folder):
            yield folder


def _temporary_folders() -> Iterator[Path]:
    with contextlib.suppress(OSError):  # there is none that can be written
        yield Path(tempfile.gettempdir())
    yield Path("/var/tmp")
