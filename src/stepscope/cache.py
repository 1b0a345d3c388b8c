"""The folders in which Stepscope keeps what it needs again: built bridges, measured peaks."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def cache_candidates() -> Iterator[Path]:
    """Yield the folders to try, the one that the user chose first."""
    chosen = os.environ.get("STEPSCOPE_CACHE_DIR")
    if chosen:
        yield Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # no home folder
        yield (Path(base) if base else Path.home() / ".cache") / "stepscope"
    yield Path(tempfile.gettempdir()) / f"stepscope-{os.getuid()}"
