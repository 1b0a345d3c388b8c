"""The files that a trace speaks of, where they are on this machine."""

from __future__ import annotations

import linecache
import site
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.analysis.host.own_code import OWN, own_code
from stepscope.analysis.host.own_lines import is_own_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.trace.model import Trace

_MOST_BYTES = 1_000_000  # of one file: nobody wrote a longer one by hand


class SourceFiles:
    """The files of a program, by the names that a recorder gave them: without the folder."""

    def __init__(self, trace: Trace) -> None:
        """Find out where to look."""
        libraries = [
            *site.getsitepackages(),
            site.getusersitepackages(),
            sysconfig.get_path("stdlib"),
            str(Path(__file__).parents[3]),  # our own, where they are used from a checkout
        ]
        self._libraries = [Path(folder).absolute() for folder in libraries]
        self._code = own_code(trace)
        self._texts: dict[str, str | None] = {}
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
        return self._code.library(file) == OWN and _found_in(self._libraries, file) is None

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
        if file not in self._texts:
            self._texts[file] = self._read(file)
        return self._texts[file]

    def _read(self, file: str) -> str | None:
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


def _found_in(folders: Iterable[Path], file: str) -> Path | None:
    """Return the first such file of Python code."""
    if not file.endswith(".py") or "\0" in file:
        return None
    paths = (folder / file for folder in folders)  # an absolute name stays what it is
    try:
        return next((path for path in paths if path.is_file()), None)
    except OSError:  # a name that no file can have
        return None
