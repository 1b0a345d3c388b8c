"""A recording that was never sealed, as a Trace: what a run's processes left in their streams."""

from __future__ import annotations

import os
import warnings
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope import _native
from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.record.capture import recorded
from stepscope.record.source import source_classes
from stepscope.record.stream.left_behind import LeftBehind
from stepscope.record.stream.places import read_folders
from stepscope.record.stream.streaming import FACTS, SOURCES
from stepscope.trace.build import build
from stepscope.trace.join import merge_parts
from stepscope.trace.model import PRODUCER, Captured, Losses, Slices, Trace, TraceInfo
from stepscope.trace.strings import Strings
from stepscope.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.record.stream.places import StreamFolders

    Progress = Callable[[int, int], None]

# Where memory does not outlive the process, it is written some times a second.
_MOST_UNSAVED = "up to one second before its end may be missing"


def recover(path: str | os.PathLike[str], progress: Progress | None = None) -> Trace:
    """Return what was recorded in a folder that was never sealed; a warning says what is missing.

    The program may still be running: then this is what it has recorded so far.
    """
    trace, said = recovered(Path(path), progress)
    warnings.warn(said, TraceReadWarning, stacklevel=2)
    return trace


def recovered(folder: Path, progress: Progress | None = None) -> tuple[Trace, str]:
    """Return what was recorded in a folder that was never sealed, and what is to be said of it."""
    try:
        folders = read_folders(folder)
    except ValueError as error:
        raise TraceReadError(folder, f"is not a recording: {error}") from None
    return recovered_from(folders, folder, progress)


def recovered_from(
    folders: StreamFolders, shown: Path, progress: Progress | None = None
) -> tuple[Trace, str]:
    """Return what was recorded in the folders of a run; ``shown`` is what messages call it."""
    try:
        left = LeftBehind.of(folders, folders.owner.pid)
    except RuntimeError as error:
        raise TraceReadError(shown, f"cannot be read: {error}") from None
    if progress is not None:
        progress(1, 2)
    trace = _trace_of(left)
    if progress is not None:
        progress(2, 2)
    return trace, f"{shown} {_said(left, trace)}"


def captured_of(left: LeftBehind) -> tuple[Captured, tuple[int, int], Losses]:
    """Return the tables of one process, its window, and what it lost itself."""
    windows = [
        recorded(
            columns,
            left.thread_names,
            stack_table=left.native.stack_table,
            type_names=left.native.types(),
        )
        for columns in left.native.recordings()
    ]
    windows = [each for each in windows if len(each.captured.slices) or each is windows[0]]
    parts = [each.captured for each in windows]
    parts += [part for each in source_classes() if (part := each.recover(left)) is not None]
    if not parts:
        parts = [Captured(Slices.empty(), (), Strings.of([""]))]
    start_ns = min((each.start_ns for each in windows), default=0)
    end_ns = max([each.end_ns for each in windows] + [left.facts["last_ns"]])
    losses = next((each.losses for each in windows if each.losses.events), Losses())
    bad = left.facts["bad_records"]
    if bad:
        losses = replace(losses, events=losses.events + bad, policy=losses.policy or "newest")
    return _of_process(merge_parts(parts), left.pid), (start_ns, end_ns), losses


def _trace_of(left: LeftBehind) -> Trace:
    captured, (start_ns, end_ns), losses = captured_of(left)
    known = {each.name for each in fields(TraceInfo)}
    told = {**left.meta.get(FACTS, {}), **left.meta.get(SOURCES, {})}
    facts = {name: value for name, value in told.items() if name in known}
    facts["parallelism"] = {
        **left.meta.get(FACTS, {}).get("parallelism", {}),
        **left.meta.get(SOURCES, {}).get("parallelism", {}),
    }
    info = TraceInfo(
        **{
            "pid": left.pid,
            "wall_offset_ns": _native.wall_offset_ns(),
            **facts,
            "producer": PRODUCER,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "losses": losses,
        }
    )
    sources = {**info.sources, "stream": _missing(left) or "nothing is missing"}
    return build(captured, replace(info, sources=sources))


def _of_process(captured: Captured, pid: int) -> Captured:
    """Return tables that this process built as those of the one that recorded them."""
    own = str(os.getpid())
    tracks = tuple(
        replace(track, pid=str(pid), process_sort=pid) if track.pid == own else track
        for track in captured.tracks
    )
    return replace(captured, tracks=tracks)


def _said(left: LeftBehind, trace: Trace) -> str:
    """Say what the folder is, and what is missing in it."""
    if left.folders.owner.is_alive():
        so_far = "this is what has been recorded so far"
        return f"is still being recorded by process {left.pid}: {so_far}"
    missing = _missing(left)
    lost = trace.info.losses.events
    what = missing or (f"{count_text(lost, 'event')} were lost" if lost else "nothing is missing")
    return f"was never sealed, because its program ended abnormally: {what}"


def _missing(left: LeftBehind) -> str:
    facts = left.facts
    missing = []
    if not facts["memory_lasted"]:
        where = "its memory is gone" if left.folders.memory else "there was no tmpfs"
        missing.append(f"{where}, {_MOST_UNSAVED}")
    if facts["damaged_bytes"]:
        missing.append(f"{count_text(facts['damaged_bytes'], 'byte')} of its files are damaged")
    return "; ".join(missing)
