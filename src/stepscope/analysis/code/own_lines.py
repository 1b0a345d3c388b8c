"""Whose code a frame runs: the program's own, a framework's or another library's."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import summed
from stepscope.analysis.base.tree import distinct_ids
from stepscope.analysis.code.stacks import KnownStacks
from stepscope.trace.model import Int64, Stacks, Trace
from stepscope.trace.names import FRAME, MODULE_PREFIX
from stepscope.trace.strings import Strings

IsOwn = Callable[[str], bool]
ReadsPlace = Callable[[str], "Place | None"]

OWN = ""  # the library of the program itself
NO_LINE = -1

LAUNCHER = "/bin/stepscope"  # the script of an environment that starts us
_LIBRARY_PARTS = ("site-packages/", "dist-packages/", "lib/python3")
# Common libraries beside the frameworks; every other file counts as the user's.
_LIBRARIES = frozenset({"autograd", "numpy", "scipy", "stepscope", "tqdm"})


class Place(NamedTuple):
    """Where a frame is."""

    file: str
    line: int
    function: str


def place_of(frame: str) -> Place | None:
    """Return where a frame is, None for one that is in no file (``<built-in function len>``)."""
    match = FRAME.fullmatch(frame)
    if not match or match[1].startswith(MODULE_PREFIX):
        return None
    return Place(match[1], int(match[2]), match[3])


def is_own_file(path: str) -> bool:
    """Tell by its path whether a file is the user's, not Python's, torch's or a library's.

    Recorders leave out the folder that a module was imported from, so a library's file begins
    with the library's name.
    """
    path = path.replace("\\", "/")
    if path.startswith("<"):
        return path.startswith("<ipython-input")
    if any(part in path for part in _LIBRARY_PARTS) or path.endswith(LAUNCHER):
        return False
    first = path.partition("/")[0].removesuffix(".py")
    is_library = first in _LIBRARIES or first in landmarks().packages
    return not is_library and first not in sys.stdlib_module_names


def own_lines(
    table: Stacks, strings: Strings, is_own: IsOwn, read: ReadsPlace = place_of
) -> tuple[list[Place], Int64]:
    """Return the user's lines in order, and each stack's innermost one."""
    place_of_line: dict[tuple[str, int], Place] = {}
    own_file: dict[str, bool] = {}
    for frame in distinct_ids(table.frame).tolist():
        place = read(strings[frame])
        if place is None:
            continue
        if place.file not in own_file:
            own_file[place.file] = is_own(place.file)
        if own_file[place.file]:
            place_of_line.setdefault((place.file, place.line), place)
    places = [place_of_line[key] for key in sorted(place_of_line)]
    return places, known_lines(table, strings, places, read)


def known_lines(
    table: Stacks, strings: Strings, places: list[Place], read: ReadsPlace = place_of
) -> Int64:
    """Return the line of each stack's innermost frame, NO_LINE if it has none."""
    row_of = {(place.file, place.line): row for row, place in enumerate(places)}
    line_of_string = np.full(len(strings) + 1, NO_LINE, np.int64)
    for frame in distinct_ids(table.frame).tolist():
        place = read(strings[frame])
        if place is not None:
            line_of_string[frame] = row_of.get((place.file, place.line), NO_LINE)
    line = line_of_string[table.frame]
    line[0] = NO_LINE
    return line


def innermost_lines(table: Stacks, line: Int64) -> Int64:
    """Return the innermost known line of each stack."""
    line = line.copy()
    at = np.arange(len(table))
    climbing = np.flatnonzero((line == NO_LINE) & (at > 0))
    while len(climbing):
        at[climbing] = table.parent[at[climbing]]
        innermost = line[at[climbing]]
        line[climbing] = innermost
        climbing = climbing[(innermost == NO_LINE) & (at[climbing] > 0)]
    return line


def totals_by_line(stacks: KnownStacks, line: Int64, lines: int, values: Int64) -> Int64:
    """Sum a slice's value for every line on its stack, once per line."""
    table = stacks.table
    parent = table.parent.astype(np.int64)
    of_stack = summed(stacks.rows, values, len(table))
    within = of_stack.copy()  # of each stack and all that continue it
    at = np.flatnonzero(of_stack)
    amount = of_stack[at]
    while len(at):
        at = parent[at]
        at, amount = at[at > 0], amount[at > 0]
        within += summed(at, amount, len(within))
    rows = np.flatnonzero(line != NO_LINE)
    again = np.zeros(len(table), bool)  # the line is also further out: counted there
    at, climbing = parent[rows], rows
    while len(climbing := climbing[at > 0]):
        at = at[at > 0]
        again[climbing] |= line[at] == line[climbing]
        at = parent[at]
    rows = rows[~again[rows]]
    return summed(line[rows], within[rows], lines)


def generator_of(file: str) -> str:
    """Return the package that generated a file, as torch.compile does; empty for others."""
    path = file.replace("\\", "/")
    generators = landmarks().generated
    return next((package for pattern, package in generators if re.search(pattern, path)), "")


class OwnCode:
    """Tells the files of a trace's program from those of libraries."""

    def __init__(self, trace: Trace) -> None:
        self._libraries = frozenset(trace.info.libraries)
        self._library_of: dict[str, str] = {}

    def library(self, file: str) -> str:
        """Return the library that a file belongs to, OWN for the program."""
        if file not in self._library_of:
            self._library_of[file] = self._find(file)
        return self._library_of[file]

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
