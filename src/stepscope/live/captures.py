"""Writes what a recording holds while it goes on, as a normal trace that says why."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.arguments import file_path, shown
from stepscope.background import EXPORTS
from stepscope.errors import StepscopeError
from stepscope.notices import notify
from stepscope.record.inside.boot import VARIABLE, read_plan
from stepscope.record.running import RUNNING
from stepscope.trace.launcher import place_of_process
from stepscope.trace.placing import TRACE_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.record.cycle import Cycle
    from stepscope.record.running import Recorder
    from stepscope.trace.model import Trace

REASON = "capture"
"""The key of the trace's metadata that says why it was written."""

_MOST_NAMES = 100_000
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
    if recorder is None and os.environ.get(VARIABLE):
        return _captured_from_outside(reason, path, wait=wait)
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
    """Write what a recorder holds now, in the background."""
    cycle = recorder.snapshot()
    if cycle is None:
        return None
    target = new_path() if path is None else Path(path).absolute()
    write_later(cycle, {**why, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}, target)
    return target


def write_later(cycle: Cycle, why: Mapping[str, Any], target: Path, *, quiet: bool = False) -> None:
    """Write a trace in the background, with the reason in its metadata."""
    EXPORTS.submit(str(target), lambda: save(cycle.trace, why, target, quiet=quiet))


def save(trace: Trace, why: Mapping[str, Any], target: Path, *, quiet: bool = False) -> None:
    """Write a trace with the reason in its metadata."""
    try:
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


def new_path() -> Path:
    """Return a free name in the current folder for a capture of this program."""
    place = place_of_process()
    stem = with_rank(_program(), None if place is None else place.rank)
    return free_path(Path.cwd(), stem + time.strftime("-%Y%m%d-%H%M%S"))


def with_rank(stem: str, rank: int | None) -> str:
    """Return the stem with the rank added, unless it names the rank already."""
    is_named = rank is None or re.search(rf"rank-?{rank}(?!\d)", stem)
    return stem if is_named else f"{stem}-rank{rank}"


def free_path(folder: Path, stem: str) -> Path:
    """Return a name for a capture that neither exists nor is about to be written."""
    with _naming:
        for number in range(1, _MOST_NAMES):
            path = folder / f"{stem}-capture-{number}{TRACE_SUFFIX}"
            if path not in _taken and not path.exists():
                _taken.add(path)
                return path
    raise FileExistsError(f"{folder}: all numbered names for a capture are taken")


def _captured_from_outside(
    reason: str, path: str | os.PathLike[str] | None, *, wait: bool
) -> Path | None:
    """Have the companion of this run write a capture."""
    from stepscope.live.client import ask_companion

    target = str(Path(path).absolute()) if path is not None else None
    request = {"do": "capture", "reason": reason, "by": "call", "path": target, "wait": wait}
    run = os.environ[VARIABLE]
    try:
        if read_plan(run)["control"] != "1":
            raise StepscopeError("the run has no control socket (--no-control)")
        return Path(ask_companion(run, {**request, "pid": os.getpid()})["path"])
    except (StepscopeError, OSError, ValueError) as error:
        notify(f"capture() has written nothing: {error}")
        return None


def _program() -> str:
    main = getattr(sys.modules.get("__main__"), "__file__", None) or "python"
    return Path(main).stem
