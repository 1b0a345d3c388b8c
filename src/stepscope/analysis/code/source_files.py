"""The files that a trace names, where they are on this machine, and the statements in them."""

from __future__ import annotations

import ast
import linecache
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from stepscope.analysis.code.own_lines import OWN, Place, is_own_file, own_code
from stepscope.trace.model import Trace

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module

_MOST_BYTES = 1_000_000  # of one file: nobody wrote a longer one by hand


class SourceFiles:
    """The files of a program by their recorded names, which lack the folder."""

    def __init__(self, trace: Trace, roots: Sequence[Path] | None = None) -> None:
        """Find out where to look.

        With ``roots``, ``text`` returns only files below these folders: a trace may name any file,
        and must not decide which of them are shown to others.
        """
        self._libraries = _library_folders()
        self._roots = None if roots is None else [Path(os.path.realpath(name)) for name in roots]
        self._code = own_code(trace)
        self._texts: dict[str, str | None] = {}
        # Another machine's trace names no folder: what is imported here may be the same program.
        folders = trace.info.code_folders or (*sys.path, ".")
        info = trace.info
        self._recorded_ns = info.wall_offset_ns and info.start_ns + info.wall_offset_ns
        self._folders = [
            folder
            for folder in dict.fromkeys(Path(name).absolute() for name in folders)
            if not _is_below(folder, self._libraries)
        ]

    def is_own(self, file: str) -> bool:
        """Tell whether a file is the user's, by its location or else its name."""
        path = self.path(file)
        if path is not None:
            return not _is_below(path, self._libraries) and is_own_file(str(path))
        return self._code.library(file) == OWN and _file_in(self._libraries, file) is None

    def path(self, file: str) -> Path | None:
        """Return where a file is, None where it is not here."""
        return _file_in(self._folders, file)

    def is_newer(self, file: str) -> bool:
        path = self.path(file)
        if path is None or not self._recorded_ns:
            return False
        return path.stat().st_mtime_ns > self._recorded_ns

    def text(self, file: str) -> str | None:
        """Return the text of a file or of a notebook's cell; None for others."""
        if file not in self._texts:
            self._texts[file] = self._read(file)
        return self._texts[file]

    def _read(self, file: str) -> str | None:
        path = self.path(file)
        if path is None:
            cell = linecache.cache.get(
                file
            )  # only its existence is checked: a trace may name any file
            if cell is None or len(cell) != 4 or cell[1] is not None:  # a file has a time of change
                return None
            return "".join(cell[2])
        if self.is_withheld(file):
            return None
        try:
            if path.stat().st_size > _MOST_BYTES:
                return None
            return path.read_bytes().decode("utf-8", "replace")
        except OSError:  # it cannot be read: its lines' numbers are known nevertheless
            return None

    def is_withheld(self, file: str) -> bool:
        """Tell whether a file exists here, but outside of the folders that may be shown."""
        path = self.path(file)
        if self._roots is None or path is None:
            return False
        return not _is_below(Path(os.path.realpath(path)), self._roots)


def program_folders(raw: Mapping[str, Any] | None = None) -> list[Path]:
    """Return the folders of a program: those of its modules, and its working folder.

    ``raw`` is what its process has noted of itself; without it, the program is the one that runs.
    """
    if raw is None:
        main_file = getattr(sys.modules.get("__main__"), "__file__", None)
        raw = {"cwd": str(Path.cwd()), "main_file": main_file, "path": sys.path}
    current = Path(str(raw.get("cwd") or "/"))
    main, path = raw.get("main_file"), raw.get("path")
    folders = [current / entry for entry in path if isinstance(entry, str)] if path else []
    folders += [current, *([current / Path(main).parent] if isinstance(main, str) and main else [])]
    libraries = _library_folders()
    return [folder for folder in dict.fromkeys(folders) if not _is_below(folder, libraries)]


def _library_folders() -> list[Path]:
    folders = [
        *site.getsitepackages(),
        site.getusersitepackages(),
        sysconfig.get_path("stdlib"),
        str(Path(__file__).parents[3]),  # our own packages, if used from a checkout
    ]
    return [Path(folder).absolute() for folder in folders]


def _is_below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _file_in(folders: Iterable[Path], file: str) -> Path | None:
    """Return the first matching file of Python code."""
    if not file.endswith(".py") or "\0" in file:
        return None
    paths = (folder / file for folder in folders)  # an absolute name stays what it is
    try:
        return next((path for path in paths if path.is_file()), None)
    except OSError:  # a name that no file can have
        return None


def statement_at(files: SourceFiles, place: Place) -> tuple[Function | None, ast.stmt | None]:
    """Return the innermost function and simple statement at a line; None without source text."""
    function: Function | None = None
    statement: ast.stmt | None = None
    for node in _statements_around(files, place):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            function = node
        elif not hasattr(node, "body"):
            statement = node
    return function, statement


def called_methods(files: SourceFiles, place: Place) -> frozenset[str]:
    """Return the names of the methods that the statement at a line calls."""
    statement = statement_at(files, place)[1]
    if statement is None:
        return frozenset()
    return frozenset(
        node.func.attr
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )


def imported_module(files: SourceFiles, place: Place, name: str) -> str | None:
    """Return the module that a name stands for in a frame's file; None if it is not imported."""
    text = None if files.is_newer(place.file) else files.text(place.file)
    return _imports(text).get(name) if text is not None else None


@lru_cache(maxsize=64)
def _imports(text: str) -> dict[str, str]:
    """Return the names that a text imports, and the modules behind them."""
    modules: dict[str, str] = {}
    tree = _parsed(text)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            modules |= {
                alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            modules |= {alias.asname or alias.name: node.module or "." for alias in node.names}
    return modules


def _statements_around(files: SourceFiles, place: Place) -> list[ast.stmt | ast.Module]:
    """Return the module and the statements around a line, the outermost first."""
    text = None if files.is_newer(place.file) else files.text(place.file)
    tree = _parsed(text) if text is not None else None
    if tree is None:
        return []
    around = (
        node
        for node in ast.walk(tree)  # outer nodes come first
        if isinstance(node, ast.stmt) and _covers(node, place.line)
    )
    return [tree, *around]


@lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _covers(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)
