"""The statement that keeps what another one has made: ``kept.append(x)`` after ``x = model(y)``.

A trace knows which line asked for memory; who holds on to it is told by the program's text.
"""

from __future__ import annotations

import ast

from stepscope.analysis.host.own_lines import Place
from stepscope.analysis.host.source_files import SourceFiles
from stepscope.analysis.host.statements import Function, statement_at

_KEEPS = frozenset(
    {"append", "appendleft", "add", "extend", "insert", "put", "put_nowait", "setdefault", "update"}
)

_ASKS = frozenset({"item", "tolist", "numel", "size", "dim", "data_ptr", "keys"})


def keeping_path(path: tuple[Place, ...], files: SourceFiles) -> tuple[Place, ...] | None:
    """Return the own frames up to the statement that keeps the result of the innermost line.

    The result is followed through assignments and returns; None where it is lost from sight, or
    where there is no text.
    """
    for depth in range(len(path), 0, -1):
        place = path[depth - 1]
        function, statement = statement_at(files, place)
        if function is None or statement is None:
            return None
        if _keeps(statement):
            return path[:depth]
        if isinstance(statement, ast.Return):
            continue
        if keeper := _keeper(function, statement):
            return (*path[: depth - 1], place._replace(line=keeper.lineno))
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or not _is_returned(
            function, statement
        ):
            return None
    return None


def adds_up(place: Place, files: SourceFiles) -> bool:
    """Tell whether the statement there is ``total += x``: a number as often as a graph."""
    return isinstance(statement_at(files, place)[1], ast.AugAssign)


def _keeper(function: Function, statement: ast.stmt) -> ast.stmt | None:
    """Return the statement of a function that keeps a name which another one assigns.

    One that adds to something goes before one that may replace what was there.
    """
    names = _assigned(statement)
    found = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.stmt)
        and not hasattr(node, "body")
        and node is not statement
        and _keeps(node)
        and _uses(node, names)
    ]
    return min(found, key=lambda node: isinstance(node, ast.Assign), default=None)


def _keeps(statement: ast.AST) -> bool:
    """Tell whether a statement puts something where it stays."""
    if isinstance(statement, ast.AugAssign):
        return True
    if isinstance(statement, ast.Assign):
        return any(
            isinstance(target, ast.Attribute | ast.Subscript) for target in statement.targets
        )
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        return isinstance(called, ast.Attribute) and called.attr in _KEEPS
    return False


def _assigned(statement: ast.stmt) -> set[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return {node.id for each in targets for node in ast.walk(each) if isinstance(node, ast.Name)}


def _uses(statement: ast.AST, names: set[str]) -> bool:
    """Tell whether a statement keeps one of some names: not if it takes a size or a number."""
    nodes = list(ast.walk(statement))
    methods = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    only_asked = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Attribute) and (id(node) not in methods or node.attr in _ASKS)
    }
    return any(
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id in names
        and id(node) not in only_asked
        for node in nodes
    )


def _is_returned(function: Function, statement: ast.stmt) -> bool:
    names = _assigned(statement)
    return any(isinstance(node, ast.Return) and _uses(node, names) for node in ast.walk(function))
