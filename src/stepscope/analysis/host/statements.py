"""The program's text at a line: what a recorded frame cannot tell."""

from __future__ import annotations

import ast
from functools import lru_cache

from stepscope.analysis.host.own_lines import Place
from stepscope.analysis.host.source_files import SourceFiles

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


def statement_at(files: SourceFiles, place: Place) -> tuple[Function | None, ast.stmt | None]:
    """Return the innermost function and simple statement at a line; None where there is no text."""
    function: Function | None = None
    found: ast.stmt | None = None
    for node in _statements_around(files, place):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            function = node
        elif not hasattr(node, "body"):
            found = node
    return function, found


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
    """Return the names that a program's text imports, and the module behind each."""
    found: dict[str, str] = {}
    tree = _parsed(text)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            found |= {each.asname or each.name.partition(".")[0]: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {each.asname or each.name: node.module or "." for each in node.names}
    return found


def _statements_around(files: SourceFiles, place: Place) -> list[ast.stmt | ast.Module]:
    """Return the module and the statements that cover a line, the outermost first."""
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
