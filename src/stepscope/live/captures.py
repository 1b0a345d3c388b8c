"""Writes what a recording holds while it goes on, as a normal trace that says why."""

from __future__ import annotations

import re
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.arguments import file_path, shown
from stepscope.background import EXPORTS
from stepscope.notices import notify
from stepscope.record.running import RUNNING
from stepscope.trace.launcher import place_of_process
from stepscope.trace.placing import TRACE_SUFFIX

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from stepscope.record.cycle import Cycle
    from stepscope.record.running import Recorder

REASON = "capture"
"""The key of the trace's metadata that says why it was written."""

_MOST_NAMES = 100_000


@dataclass
class CapturePlace:
    """Where captures go when nobody says: beside the trace of a run, or the current folder."""

    folder: Path | None = None
    stem: str = ""


PLACE = CapturePlace()
_naming = threading.Lock()
_taken: set[Path] = set()  # names that are being written


def capture(
    reason: str, path: str | os.PathLike[str] | None = None, *, wait: bool = False
) -> Path | None:
    """Write what the running recording holds as a trace.

    Return its path, or None if nothing is being recorded.

    Of a ring (``profile(keep=Last(...))``, ``stepscope run --last``) these are its last seconds.
    The recording goes on, and the file is written in the background unless ``wait``.
    """
    if not isinstance(reason, str):
        raise TypeError(f"capture({shown(reason)}): say why, as a str")
    if path is not None:
        file_path("path", path)
    recorder = RUNNING.best()
    if recorder is None:
        notify("capture() has nothing to write: no recording runs in this process")
        return None
    written = write_capture(recorder, {"reason": reason, "by": "call"}, path)
    if wait:
        EXPORTS.wait()
    return written


def write_capture(
    recorder: Recorder, why: Mapping[str, Any], path: str | os.PathLike[str] | None = None
) -> Path | None:
    """Take what a recorder holds now, and write it in the background."""
    cycle = recorder.snapshot()
    if cycle is None:
        return None
    target = new_path() if path is None else Path(path).absolute()
    write_later(cycle, {**why, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}, target)
    return target


def write_later(cycle: Cycle, why: Mapping[str, Any], target: Path, *, quiet: bool = False) -> None:
    """Write a trace in the background, with the reason in its metadata."""

    def write() -> None:
        try:
            trace = cycle.trace
            user = {**trace.info.user, REASON: dict(why)}
            trace = replace(trace, info=replace(trace.info, user=user))
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.suffix == TRACE_SUFFIX:
                trace.save(target)
            else:
                from stepscope.formats import export_trace

                export_trace(trace, target)
            if not quiet:
                notify(f"captured {target} ({why['reason']})")
        finally:
            _taken.discard(target)

    EXPORTS.submit(str(target), write)


def new_path() -> Path:
    """Return a name that no other capture has."""
    folder = PLACE.folder or Path.cwd()
    stem = PLACE.stem or _program()
    place = place_of_process()
    if place is not None and not re.search(rf"rank-?{place.rank}(?!\d)", stem):
        stem = f"{stem}-rank{place.rank}"
    if not PLACE.stem:
        stem += time.strftime("-%Y%m%d-%H%M%S")
    with _naming:
        for number in range(1, _MOST_NAMES):
            path = folder / f"{stem}-capture-{number}{TRACE_SUFFIX}"
            if path not in _taken and not path.exists():
                _taken.add(path)
                return path
    raise FileExistsError(f"{folder}: all numbered names for a capture are taken")


def _program() -> str:
    main = getattr(sys.modules.get("__main__"), "__file__", None) or "python"
    return Path(main).stem
