"""Handlers for ``on_trace_ready``."""

from __future__ import annotations

import os
import socket
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from stepscope.arguments import folder_path, text_or_none
from stepscope.formats.file_names import file_word

if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[["Exporting"], None]


class Exporting(Protocol):
    """A profiler as handlers see it: it writes its last trace into a file."""

    def export(
        self, path: str | os.PathLike[str] = "", format: Literal["json", "pb"] = "json"
    ) -> None:
        """Write it."""


def export_chrome_tracing(
    dir_name: str | os.PathLike[str], worker_name: str | None = None
) -> Handler:
    """Return a handler that writes each trace into a folder, as JSON for Chrome and Perfetto.

    Files are called WORKER_time_TIME.paddle_trace.json. WORKER is ``worker_name``, by default
    host_HOSTpid_PID; characters that would leave the folder are replaced.
    """
    return _exporter(dir_name, worker_name, "json")


def export_protobuf(dir_name: str | os.PathLike[str], worker_name: str | None = None) -> Handler:
    """Return a handler that writes each trace into a folder, as protobuf for Paddle.

    Files are called WORKER_time_TIME.paddle_trace.pb, see ``export_chrome_tracing``.
    """
    return _exporter(dir_name, worker_name, "pb")


def _exporter(
    dir_name: str | os.PathLike[str], worker_name: str | None, suffix: Literal["json", "pb"]
) -> Handler:
    folder_path("dir_name", dir_name)
    text_or_none("worker_name", worker_name)
    folder = Path(dir_name)

    def write(profiler: Exporting) -> None:
        # Create the folder late: a run that records nothing leaves none behind.
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RuntimeError(
                f"Can not create directory '{os.fspath(dir_name)}' for saving profiling results."
            ) from error
        # Name the worker for each trace: a forked child is another worker.
        worker = file_word(worker_name or f"host_{socket.gethostname()}pid_{os.getpid()}")
        profiler.export(_unused_path(folder, worker, f"paddle_trace.{suffix}"), suffix)

    return write


def _unused_path(folder: Path, worker: str, suffix: str) -> Path:
    now = datetime.now()
    while (path := folder / f"{worker}_time_{now:%Y_%m_%d_%H_%M_%S_%f}.{suffix}").exists():
        now += timedelta(microseconds=1)
    return path
