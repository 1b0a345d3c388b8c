"""What can be asked of a program that calls ``serve``, by name, and how it is answered."""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.background import EXPORTS
from stepscope.live.captures import new_path, write_capture, write_later
from stepscope.live.triggers import resident_bytes
from stepscope.record.running import RUNNING
from stepscope.record.source import known_options
from stepscope.trace.launcher import job_name, place_of_process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.live.always_on import AlwaysOn
    from stepscope.live.steps import StepWatch

    Requests = Mapping[str, Callable[[Mapping[str, Any]], Any]]

LONGEST_S = 3600.0
_STEPS_TOLD = 240


class RequestError(Exception):
    """A request that cannot be answered; the text says why."""


def status(always_on: AlwaysOn, _request: Mapping[str, Any]) -> dict[str, Any]:
    """Return who this process is and what it records."""
    recorder = RUNNING.best()
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
    """Return the status and the last steps."""
    always_on.steps.read()
    return {**status(always_on, request), **last_steps(always_on.steps)}


def last_steps(steps: StepWatch) -> dict[str, Any]:
    """Return the last steps as of the last read."""
    last = list(steps.steps)[-_STEPS_TOLD:]
    return {
        "steps": [[step.number, step.start_ns, step.duration_ns] for step in last],
        "count": steps.count,
        "time": time.time(),
    }


def capture(always_on: AlwaysOn, request: Mapping[str, Any]) -> dict[str, Any]:
    """Write what the recording holds, or record for ``seconds`` from now on; return the path."""
    seconds = request.get("seconds")
    reason = str(request.get("reason") or "asked for from outside")
    options = checked_options(request)
    path = asked_path(request) or new_path()
    recorder = RUNNING.best()
    if seconds is None and recorder is not None and not options:
        write_capture(recorder, {"reason": reason, "by": "outside"}, path)
    else:
        cycle = always_on.recorded_for(checked_seconds(request) or 10.0, options)
        if cycle is None:
            raise RequestError("somebody else is capturing this program now: try again later")
        quiet = bool(request.get("quiet"))
        write_later(cycle, {"reason": reason, "by": "outside"}, path, quiet=quiet)
    EXPORTS.wait()
    return {"path": str(path), **_who()}


def of_process(always_on: AlwaysOn) -> Requests:
    return {
        "status": lambda request: [status(always_on, request)],
        "steps": partial(steps, always_on),
        "capture": partial(capture, always_on),
    }


def answer(requests: Requests, text: bytes) -> Mapping[str, Any]:
    """Return the answer to a request, or an error for an invalid one."""
    try:
        request = json.loads(text)
        if not isinstance(request, dict) or request.get("do") not in requests:
            raise RequestError(f"unknown request; there are {', '.join(requests)}")
        return {"ok": requests[request["do"]](request)}
    except (RequestError, ValueError, TypeError) as error:
        return {"error": str(error) or type(error).__name__}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def checked_seconds(request: Mapping[str, Any]) -> float | None:
    """Return how long to record from now on; None for what is recorded already."""
    if request.get("seconds") is None:
        return None
    length = float(request["seconds"])
    if not 0 < length <= LONGEST_S:
        raise RequestError(f"{length} s: record for more than 0 s and up to {LONGEST_S:.0f} s")
    return length


def asked_path(request: Mapping[str, Any]) -> Path | None:
    """Return where to write a capture; None if the request does not say."""
    path = Path(request["path"]) if request.get("path") else None
    if path is not None and not path.is_absolute():
        raise RequestError(f"{path}: give the whole path")
    return path


def _who() -> dict[str, Any]:
    place = place_of_process()
    rank, world_size = ("", "") if place is None else (str(place.rank), str(place.world_size))
    return {"pid": os.getpid(), "rank": rank, "world_size": world_size}


def checked_options(request: Mapping[str, Any]) -> dict[str, object]:
    """Return the recording options of a request, checked."""
    given = request.get("options") or {}
    options = known_options() if given else {}
    for name, value in given.items():
        if name not in options:
            raise RequestError(f"{name!r} is not a recording option; use one of {sorted(options)}")
        options[name].value_of(value)  # raises here what is wrong with it
    return dict(given)


def _program() -> str:
    words = [Path(sys.argv[0]).name or "python", *sys.argv[1:]] if sys.argv else ["python"]
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if words[0] in {"-c", "-m", "__main__.py"} and main:
        words[0] = Path(main).name
    return " ".join(words)[:200]
