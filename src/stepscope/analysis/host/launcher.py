"""Frames that are not the program's: those of ``stepscope run`` and of whatever started it."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.tree import ids_where
from stepscope.trace.model import Bool, Stacks
from stepscope.trace.strings import Strings

_OWN = ("stepscope/cli/", "stepscope/__main__.py")
_RUNPY = ("<frozen runpy>", "runpy.py")


def launcher_rows(table: Stacks, strings: Strings) -> Bool:
    """Tell which rows of the stacks are frames around the program: ours, and those of ``runpy``.

    With our own ones go all that called them: the script in a virtual environment's ``bin``.
    """
    ours = _in_files(table, strings, _OWN)
    runpy = _in_files(table, strings, _RUNPY)
    marked = np.zeros(len(table), np.bool_)
    if not ours.any() and not runpy.any():
        return marked
    marked[0] = True  # what runpy runs at the outermost place, it runs for the launcher
    parent = table.parent.tolist()
    for row in np.flatnonzero(ours | runpy).tolist():  # callers stand above
        marked[row] = bool(ours[row]) or bool(marked[parent[row]])
    above = np.unique(table.parent[np.flatnonzero(ours)])
    while len(above := above[above > 0]):
        marked[above] = True
        above = np.unique(table.parent[above])
    marked[0] = False
    return marked


def _in_files(table: Stacks, strings: Strings, files: tuple[str, ...]) -> Bool:
    def wanted(frame: str) -> bool:
        file = frame.partition("(")[0]
        return any(file.startswith(each) or f"/{each}" in file for each in files)

    found = np.isin(table.frame, ids_where(table.frame[1:], strings, wanted))
    found[0] = False
    return found
