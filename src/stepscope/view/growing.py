"""Recordings in progress, read now and then for the live page."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscope.analysis.base.shared import shared_analyses
from stepscope.errors import StepscopeError
from stepscope.live.client import ask
from stepscope.record.read_back.reading import recovered
from stepscope.record.stream.places import is_unsealed, read_folders
from stepscope.report.base.payload import Payload
from stepscope.report.sections.overview import add_overview

_PAUSE_S = 1.0  # between two looks, at least
_REST = 4.0  # times the CPU time of a look: watching must not slow a long recording down
_FORGOTTEN_S = 15.0  # without a request for so long, nobody watches
_PATIENCE_S = 0.5  # with the program's control socket


def is_recording(folder: Path) -> bool:
    """Tell whether a program is writing into a folder now."""
    if not is_unsealed(folder):
        return False
    try:
        return read_folders(folder).owner.is_alive()
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Look:
    """What a recording contained at some moment, as the data of the report's overview."""

    number: int = 0  # 0 before the first look
    payload: bytes = b""
    error: str = ""


class Growing:
    """A recording in progress; a thread reads it again as long as a client asks."""

    def __init__(self, path: Path, title: str, pause_s: float = _PAUSE_S) -> None:
        self._path = path
        self._title = title
        self._pause_s = pause_s
        self._look = Look()
        self._asked_s = time.monotonic()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def look(self) -> Look:
        """Return the last look, and keep the thread reading for a while."""
        with self._lock:
            self._asked_s = time.monotonic()
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(
                    target=self._watch, name="stepscope view, live", daemon=True
                )
                self._thread.start()
            return self._look

    def status(self) -> dict[str, Any] | None:
        """Return the program's own status; None if it cannot be asked."""
        try:
            status = dict(ask(read_folders(self._path).owner.pid, {"do": "steps"}, _PATIENCE_S))
        except (StepscopeError, ValueError):
            return None
        durations = [step[2] for step in status["steps"]]
        return {
            "pid": status["pid"],
            "since": status["since"],
            "memory_bytes": status["memory_bytes"],
            "steps": status["count"],
            "last_step_ns": durations[-1] if durations else None,
        }

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.is_set():
            with self._lock:
                if time.monotonic() - self._asked_s > _FORGOTTEN_S:
                    self._thread = None
                    return
            began_s = time.thread_time()
            payload, error = b"", ""
            try:
                payload = _overview(self._path, self._title)
            except Exception as problem:
                error = f"{type(problem).__name__}: {problem}"
                if isinstance(problem, StepscopeError):
                    error = str(problem)
            # Keep the last good look: the recording may have ended during this one.
            self._look = Look(self._look.number + 1, payload or self._look.payload, error)
            self._closed.wait(max(self._pause_s, _REST * (time.thread_time() - began_s)))


class Watched:
    """The recordings that clients watch, by folder."""

    def __init__(self) -> None:
        self._growing: dict[Path, Growing] = {}
        self._lock = threading.Lock()

    def at(self, path: Path, title: str) -> Growing:
        """Return the recording in a folder that is being written."""
        with self._lock:
            return self._growing.setdefault(path, Growing(path, title))

    def close(self) -> None:
        with self._lock:
            for growing in self._growing.values():
                growing.close()


def _overview(path: Path, title: str) -> bytes:
    """Return the payload of the report's overview page for a recording."""
    trace, _ = recovered(path)
    payload = Payload()
    payload.add_value("title", title)
    with shared_analyses():
        add_overview(trace, payload)
    return payload.packed()
