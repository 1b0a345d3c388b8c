"""A handler for ``on_trace_ready``, in either dialect, that writes a report of each trace."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from stepscope.arguments import folder_path, text_or_none
from stepscope.formats.file_names import worker_path


class WritesReports(Protocol):
    def export_html(self, path: str | os.PathLike[str], *, background: bool = False) -> None:
        """Write the report."""


def html_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None
) -> Callable[[WritesReports], None]:
    """Return a handler that writes a report of each trace into a folder.

    The files are called WORKER.TIME.html. A worker is named HOST_PID unless ``worker_name`` says
    otherwise; whatever it says, the file is in the folder. A large one is written in the
    background: ``stepscope.wait_for_exports()`` waits for it.
    """
    folder_path("dir_name", dir_name)
    text_or_none("worker_name", worker_name)

    def write(profiler: WritesReports) -> None:
        path = worker_path(dir_name, worker_name, "html")
        if getattr(profiler, "writes_beside", False):
            profiler.export_html(path, background=True)
        else:
            profiler.export_html(path)

    return write
