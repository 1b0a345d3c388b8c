"""File names made from names that the user or the system chose."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
from pathlib import Path

_LONGEST_WORKER = 150  # bytes; a file name may have 255, and the rest of ours takes some 60
_NOT_IN_A_FILE_NAME = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|\ud800-\udfff]|^\.+|^\s+|\s+$")


def file_word(name: str) -> str:
    """Escape a name for a file name, injectively."""
    word = _NOT_IN_A_FILE_NAME.sub("_", name)
    word = word.encode()[:_LONGEST_WORKER].decode("utf-8", "ignore")
    if word == name:
        return word
    mark = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{word}-{mark}"


def worker_path(dir_name: str | os.PathLike[str], worker_name: str | None, suffix: str) -> Path:
    """Return a new file WORKER.TIME.SUFFIX in a folder, which is created if needed.

    The worker defaults to HOST_PID. Called for each trace: a forked child is another worker, and a
    run that records nothing leaves no folder behind.
    """
    folder = Path(dir_name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RuntimeError(f"Can't create directory: {os.fspath(dir_name)}") from error
    worker = file_word(worker_name or f"{socket.gethostname()}_{os.getpid()}")
    now_ns = time.time_ns()
    while (path := folder / f"{worker}.{now_ns}.{suffix}").exists():
        now_ns += 1
    return path
