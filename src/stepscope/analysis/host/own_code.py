"""Whose code a frame runs: the program's own, a framework's, or another library's."""

from __future__ import annotations

import re

from stepscope.analysis.host.landmarks import landmarks
from stepscope.analysis.host.own_lines import LAUNCHER, Place, is_own_file
from stepscope.analysis.shared import shared
from stepscope.trace.model import Trace

OWN = ""


def generator_of(file: str) -> str:
    """Return the package that wrote a file to run it, as torch.compile does; empty for others."""
    path = file.replace("\\", "/")
    known = landmarks().generated
    return next((package for pattern, package in known if re.search(pattern, path)), "")


class OwnCode:
    """Tells the files of a trace's program from those of libraries."""

    def __init__(self, trace: Trace) -> None:
        self._libraries = frozenset(trace.info.libraries)
        self._known: dict[str, str] = {}

    def library(self, file: str) -> str:
        """Return the library that a file belongs to, OWN for the program's own."""
        if file not in self._known:
            self._known[file] = self._find(file)
        return self._known[file]

    def is_own(self, place: Place) -> bool:
        """Tell whether a frame is in a file of the program."""
        return self.library(place.file) == OWN

    def _find(self, file: str) -> str:
        path = file.replace("\\", "/")
        if generator := generator_of(path):
            return generator
        if path.endswith(LAUNCHER):
            return "stepscope"
        for folder in ("site-packages/", "dist-packages/"):
            path = path.rpartition(folder)[2]
        first = path.partition("/")[0].removesuffix(".py")
        # A name without a folder is a module of its own: `queue.py` beside the program is not
        # Python's when the program's folder is where modules are imported from.
        if first in self._libraries or not is_own_file(file):
            return first or "?"
        return OWN


@shared
def own_code(trace: Trace) -> OwnCode:
    """Return whose code is whose in a trace."""
    return OwnCode(trace)
