"""Asks programs through their control sockets."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from stepscope.errors import StepscopeError
from stepscope.live.runtime import opened_folder, remove_socket, short_path, socket_names
from stepscope.record.stream.processes import is_running

_PATIENCE_S = 2.0
_COMPANION_STARTS_S = 10.0
_CAPTURE_S = 600.0
_MOST_BYTES = 64 << 20


def living() -> list[dict[str, Any]]:
    """Return the status of each of this user's programs that has a control socket."""
    programs = []
    for pid, name in _sockets():
        try:
            statuses = _ask(name, {"do": "status"}, _PATIENCE_S)
            programs += [{**status, "socket": name} for status in statuses]
        except (OSError, ValueError, StepscopeError):
            if not is_running(pid):
                remove_socket(name)
    return programs


def ask(pid: int, request: dict[str, Any], timeout_s: float = _PATIENCE_S) -> Any:
    """Return a program's answer; StepscopeError when there is none."""
    names = [name for owner, name in _sockets() if owner == pid]
    names = names or [
        program["socket"] for program in living() if pid in program.get("processes", ())
    ]
    if not names:
        why = "it is not under `stepscope run` and does not call stepscope.serve()"
        if not is_running(pid):
            why = "there is no such process"
        raise StepscopeError(f"process {pid} cannot be reached: {why}; see `stepscope ps`")
    try:
        return _ask(names[-1], {**request, "pid": pid}, timeout_s)
    except TimeoutError:
        raise StepscopeError(f"process {pid} did not answer in {timeout_s:.0f} s") from None
    except (OSError, ValueError) as error:
        raise StepscopeError(f"process {pid} did not answer: {error}") from None


def ask_companion(run: str, request: dict[str, Any]) -> Any:
    """Return the answer of the companion of a run, found by the folder of the run."""
    end = time.monotonic() + _COMPANION_STARTS_S
    while True:
        names = [program["socket"] for program in living() if program.get("run") == run]
        if names:
            return _ask(names[0], request, _CAPTURE_S)
        if time.monotonic() > end:
            raise StepscopeError("the process that follows this run does not answer")
        time.sleep(0.05)


def _ask(name: str, request: dict[str, Any], timeout_s: float) -> Any:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(timeout_s)
        with opened_folder(create=False) as folder:
            _connect(line, short_path(folder, name), timeout_s)
        line.sendall(json.dumps(request).encode() + b"\n")
        received = bytearray()
        while b"\n" not in received and len(received) < _MOST_BYTES:
            got = line.recv(1 << 16)
            if not got:
                raise ConnectionError("the connection was closed")
            received += got
    answer = json.loads(bytes(received))
    if "error" in answer:
        raise StepscopeError(str(answer["error"]))
    return answer["ok"]


def _connect(line: socket.socket, path: str, timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while True:
        try:
            return line.connect(path)
        except BlockingIOError:  # too many connections wait already
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def _sockets() -> list[tuple[int, str]]:
    try:
        with opened_folder(create=False) as folder:
            return socket_names(folder)
    except OSError:
        return []
