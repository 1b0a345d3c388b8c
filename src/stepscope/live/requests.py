"""What can be asked of a program from outside, by name."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.background import EXPORTS
from stepscope.live.captures import new_path, write_capture, write_later
from stepscope.live.triggers import resident_bytes
from stepscope.record.source import known_options
from stepscope.trace.launcher import job_name, place_of_process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.live.always_on import AlwaysOn

LONGEST_S = 3600.0
_STEPS_TOLD = 240


class RequestError(Exception):
    """A request that cannot be answered; the text says why."""


def status(always_on: AlwaysOn, _request: Mapping[str, Any]) -> dict[str, Any]:
    """Tell who this is and what it records."""
    recorder = always_on.best()
    return {
        **_who(),
        "program": _program(),
        "job": job_name(),
        "since": always_on.began_s,
        "recording": "" if recorder is None else "ring" if recorder.is_ring else "all",
        "memory_bytes": resident_bytes(),
        "python": ".".join(map(str, sys.version_info[:3])),
    }


def steps(always_on: AlwaysOn, request: Mapping[str, Any]) -> dict[str, Any]:
    """Tell how the last steps went, as far as they are recorded."""
    always_on.steps.read()
    last = list(always_on.steps.steps)[-_STEPS_TOLD:]
    return {
        **status(always_on, request),
        "steps": [[step.number, step.start_ns, step.duration_ns] for step in last],
        "count": always_on.steps.count,
        "time": time.time(),
    }


def capture(always_on: AlwaysOn, request: Mapping[str, Any]) -> dict[str, Any]:
    """Write what the recording holds, or record from now on for ``seconds``; tell the file."""
    seconds = request.get("seconds")
    reason = str(request.get("reason") or "asked for from outside")
    options = _options(request.get("options") or {})
    path = Path(request["path"]) if request.get("path") else new_path()
    if not path.is_absolute():
        raise RequestError(f"{path}: give the whole path")
    recorder = always_on.best()
    if seconds is None and recorder is not None and not options:
        write_capture(recorder, {"reason": reason, "by": "outside"}, path)
    else:
        length = 10.0 if seconds is None else float(seconds)
        if not 0 < length <= LONGEST_S:
            raise RequestError(f"{length} s: record for more than 0 s and up to {LONGEST_S:.0f} s")
        cycle = always_on.recorded_for(length, options)
        if cycle is None:
            raise RequestError("somebody else is capturing this program now: try again later")
        quiet = bool(request.get("quiet"))
        write_later(cycle, {"reason": reason, "by": "outside"}, path, quiet=quiet)
    EXPORTS.wait()
    return {"path": str(path), **_who()}


REQUESTS: Mapping[str, Callable[[AlwaysOn, Mapping[str, Any]], dict[str, Any]]] = {
    "status": status,
    "steps": steps,
    "capture": capture,
}


def _who() -> dict[str, Any]:
    place = place_of_process()
    rank, world_size = ("", "") if place is None else (str(place.rank), str(place.world_size))
    return {"pid": os.getpid(), "rank": rank, "world_size": world_size}


def _options(given: Mapping[str, Any]) -> dict[str, object]:
    known = known_options()
    for name, value in given.items():
        if name not in known:
            raise RequestError(f"{name!r} is not a recording option; use one of {sorted(known)}")
        known[name].value_of(value)  # raises here what is wrong with it
    return dict(given)


def _program() -> str:
    words = [Path(sys.argv[0]).name or "python", *sys.argv[1:]] if sys.argv else ["python"]
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if words[0] in {"-c", "-m", "__main__.py"} and main:
        words[0] = Path(main).name
    return " ".join(words)[:200]
