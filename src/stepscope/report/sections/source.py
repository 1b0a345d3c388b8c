"""Source: what the lines of the user's own files cost, and the text of those files."""

from __future__ import annotations

import linecache
import site
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.host.source_lines import SourceLines, is_own_file, source_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.report.payload import Payload
    from stepscope.trace.model import Trace

_MOST_FILES = 50
_MOST_BYTES = 1_000_000  # of one file: nobody wrote a longer one by hand


def add_source(trace: Trace, payload: Payload) -> None:
    """Add the lines that cost something, by file and line, and the files that are here.

    A trace may come from another machine; of files that are not here only the lines' numbers are
    known. No text is added where the payload is to be without code.
    """
    finder = _Finder(trace)
    lines = source_lines(trace, finder.is_own)
    if lines is None:
        return
    files = sorted({place.file for place in lines.place})
    number = {file: i for i, file in enumerate(files)}
    payload.add_column("source.file", np.array([number[place.file] for place in lines.place]))
    payload.add_column("source.line", np.array([place.line for place in lines.place]))
    payload.add_column("source.self", lines.self_ns)
    payload.add_column("source.total", lines.total_ns)
    payload.add_column("source.device", lines.device_ns)
    payload.add_column("source.device_total", lines.total_device_ns)
    payload.add_column("source.bytes", lines.cpu_bytes + lines.device_bytes)
    payload.add_column("source.bytes_total", lines.total_bytes)
    payload.add_column("source.calls", lines.calls)
    operators = lines.operators
    payload.add_column("source.operators.line", operators.line, ascending=True)
    payload.add_column("source.operators.name", operators.name)
    payload.add_column("source.operators.self", operators.self_ns)
    payload.add_column("source.operators.device", operators.device_ns)
    payload.add_column("source.operators.bytes", operators.allocated_bytes)
    payload.add_column("source.operators.calls", operators.calls)
    payload.add_value("source.functions", [place.function for place in lines.place])
    payload.add_value("source.files", files)
    payload.add_value("source.elsewhere", lines.elsewhere_ns)
    payload.add_value("source.with_code", payload.with_code)
    payload.add_value("source.by_function", not bool(trace.slices.stack.any()))
    texts = _texts(finder, _hottest(lines)) if payload.with_code else {}
    payload.add_value("source.texts", [texts.get(file) for file in files])
    payload.add_value("source.newer", [file in texts and finder.is_newer(file) for file in files])


def _hottest(lines: SourceLines) -> list[str]:
    """Return the files, those with the most time of their own first."""
    time_ns: dict[str, int] = {}
    for place, own_ns, device_ns in zip(
        lines.place, lines.self_ns.tolist(), lines.device_ns.tolist(), strict=True
    ):
        time_ns[place.file] = time_ns.get(place.file, 0) + own_ns + device_ns
    return sorted(time_ns, key=lambda file: -time_ns[file])


def _texts(finder: _Finder, files: Iterable[str]) -> dict[str, str]:
    """Return the text of the first files that can be found and are of a size to be read."""
    texts: dict[str, str] = {}
    for file in files:
        if len(texts) == _MOST_FILES:
            break
        text = finder.text(file)
        if text is not None:
            texts[file] = text
    return texts


def _found_in(folders: Iterable[Path], file: str) -> Path | None:
    """Return the first such file of Python code."""
    if not file.endswith(".py") or "\0" in file:
        return None
    paths = (folder / file for folder in folders)  # an absolute name stays what it is
    try:
        return next((path for path in paths if path.is_file()), None)
    except OSError:  # a name that no file can have
        return None


class _Finder:
    """Finds files by the names that a recorder gave them: without the folder imported from."""

    def __init__(self, trace: Trace) -> None:
        libraries = [
            *site.getsitepackages(),
            site.getusersitepackages(),
            sysconfig.get_path("stdlib"),
        ]
        self._libraries = [Path(folder).absolute() for folder in libraries]
        # Another machine's trace names no folder: what is imported here may be the same program.
        folders = trace.info.code_folders or (*sys.path, ".")
        info = trace.info
        self._recorded_ns = info.wall_offset_ns and info.start_ns + info.wall_offset_ns
        self._folders = [
            folder
            for folder in dict.fromkeys(Path(each).absolute() for each in folders)
            if not self._is_library(folder)
        ]

    def is_own(self, file: str) -> bool:
        """Tell whether a file is the user's: by where it lies, or, if it is not here, its name."""
        found = self.path(file)
        if found is not None:
            return not self._is_library(found) and is_own_file(str(found))
        return is_own_file(file) and _found_in(self._libraries, file) is None

    def path(self, file: str) -> Path | None:
        """Return where a file is, None where it is not here."""
        return _found_in(self._folders, file)

    def is_newer(self, file: str) -> bool:
        """Tell whether a file was changed after the recording."""
        path = self.path(file)
        if path is None or not self._recorded_ns:
            return False
        return path.stat().st_mtime_ns > self._recorded_ns

    def text(self, file: str) -> str | None:
        """Return the text of a file, or of a notebook's cell; None for what is no such thing."""
        path = self.path(file)
        if path is None:
            cell = linecache.cache.get(file)  # looked up, never read: a trace may name any file
            return "".join(cell[2]) if cell is not None and len(cell) == 4 else None
        try:
            if path.stat().st_size > _MOST_BYTES:
                return None
            return path.read_bytes().decode("utf-8", "replace")
        except OSError:  # it cannot be read: its lines' numbers are known nevertheless
            return None

    def _is_library(self, path: Path) -> bool:
        return any(path.is_relative_to(library) for library in self._libraries)
