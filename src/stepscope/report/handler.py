"""What ``on_trace_ready`` may be given, in either dialect, to get a report of each trace."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stepscope.export.file_names import file_word

if TYPE_CHECKING:
    from collections.abc import Callable


class WritesReports(Protocol):
    """A profiler of any dialect."""

    def export_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report."""


def html_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None
) -> Callable[[WritesReports], None]:
    """Return a handler that writes a report of each trace into a folder.

    The files are called WORKER.TIME.html. A worker is named HOST_PID unless ``worker_name`` says
    otherwise; whatever it says, the file is in the folder.
    """
    folder = Path(dir_name)

    def write(profiler: WritesReports) -> None:
        # Made only now: a run that records nothing leaves no folder behind.
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {os.fspath(dir_name)}") from error
        # Asked for at each trace: a forked child is another worker.
        worker = file_word(worker_name or f"{socket.gethostname()}_{os.getpid()}")
        now_ns = time.time_ns()
        while (path := folder / f"{worker}.{now_ns}.html").exists():
            now_ns += 1
        profiler.export_html(path)

    return write
