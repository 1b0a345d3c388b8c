"""Handlers for ``on_trace_ready``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.arguments import folder_path, text_or_none
from stepscope.formats.file_names import worker_path

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from stepscope.frameworks.torch.dialect.results import ProfileResults


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str],
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[ProfileResults], None]:
    """Return a handler that writes each trace into a folder for TensorBoard.

    Files are called WORKER.TIME.pt.trace.json, with .gz if ``use_gzip``. WORKER is ``worker_name``,
    by default HOST_PID; characters that would leave the folder are replaced. A large trace is
    written in the background: ``stepscope.wait_for_exports()`` waits for it.
    """
    del use_python_export  # torch's choice of a writer has no meaning here
    folder_path("dir_name", dir_name)
    text_or_none("worker_name", worker_name)
    suffix = "pt.trace.json" + (".gz" if use_gzip else "")

    def write(profiler: ProfileResults) -> None:
        path = worker_path(dir_name, worker_name, suffix)
        if getattr(profiler, "writes_beside", False):
            profiler.export_chrome_trace(path, background=True)
        else:
            profiler.export_chrome_trace(path)

    return write
