"""What ``on_trace_ready`` may be given."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.export.file_names import file_word

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.torch.results import ProfileResults


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str],
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[ProfileResults], None]:
    """Return a handler that writes each trace into a folder that TensorBoard can be given.

    The files are called WORKER.TIME.pt.trace.json, with .gz when ``use_gzip``. A worker is named
    HOST_PID unless ``worker_name`` says otherwise; whatever it says, the file is in the folder.
    """
    del use_python_export  # torch's choice of a writer has no meaning here
    folder = Path(dir_name)
    suffix = ".pt.trace.json" + (".gz" if use_gzip else "")

    def write(profiler: ProfileResults) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {os.fspath(dir_name)}") from error
        # Asked for at each trace: a forked child is another worker.
        worker = file_word(worker_name or f"{socket.gethostname()}_{os.getpid()}")
        now_ns = time.time_ns()
        while (path := folder / f"{worker}.{now_ns}{suffix}").exists():
            now_ns += 1
        profiler.export_chrome_trace(path)

    return write
