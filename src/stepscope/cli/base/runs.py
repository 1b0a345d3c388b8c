"""Traces that are given as files, or as folders that hold several."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.base.files import read
from stepscope.errors import StepscopeError
from stepscope.trace.placing import TRACE_SUFFIX
from stepscope.trace.store import is_stored_trace
from stepscope.view.folder import Folder

if TYPE_CHECKING:
    from stepscope.trace.model import Trace


def paths_of(given: Iterable[Path]) -> list[Path]:
    """Return the traces that paths name: each itself, or all below a folder, by name."""
    paths: list[Path] = []
    for path in given:
        if path.is_dir() and not is_stored_trace(path) and not path.name.endswith(TRACE_SUFFIX):
            folder = Folder(path)
            inside = sorted(trace.name for trace in folder.listing().traces)
            if not inside:
                raise StepscopeError(f"{path}: there is no trace in this folder")
            paths.extend(path / name for name in inside)
        else:
            paths.append(path)
    return paths


def read_all(given: Iterable[Path]) -> list[Trace]:
    return [read(str(path)) for path in paths_of(given)]
