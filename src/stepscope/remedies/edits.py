"""Edits of a program's source: small replacements that leave every other character as it is."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stepscope.errors import StepscopeError

Place = Sequence[Any]
"""File, line, column, last line, last column and function, as the survey tells them."""


class Edit(NamedTuple):
    """One replacement, in characters of the file as it stands."""

    path: str
    start: int
    end: int
    text: str


class NoPlaceError(StepscopeError):
    """The source has no place for an edit."""


class Source:
    """One file: its text, its syntax tree, and where in the text a node lies."""

    def __init__(self, path: str) -> None:
        self.path = path
        with Path(path).open(encoding="utf-8", newline="") as file:
            self.text = file.read()
        self.tree = ast.parse(self.text)
        self._lines = self.text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self.newline = "\r\n" if "\r\n" in self.text else "\n"

    def offset(self, line: int, column: int) -> int:
        """Return the place in the text of a line and a column, which Python counts in bytes."""
        before = self._lines[line - 1].encode()[:column].decode(errors="ignore")
        return self._starts[line - 1] + len(before)

    def bounds(self, node: Any) -> tuple[int, int]:
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def segment(self, node: Any) -> str:
        start, end = self.bounds(node)
        return self.text[start:end]

    def call_at(self, place: Place) -> ast.Call:
        """Return the call with exactly these bounds."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and place[1:5] == [
                *(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            ]:
                return node
        raise NoPlaceError(f"{self.path}:{place[1]}: there is no call")

    def function_at(self, line: int) -> ast.FunctionDef:
        """Return the function whose first line, decorators included, is this one."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
                if line in (first, node.lineno):
                    return node
        raise NoPlaceError(f"{self.path}:{line}: there is no function")

    def parent_statement(self, node: ast.AST) -> ast.stmt | None:
        """Return the statement that consists of this expression alone."""
        for statement in ast.walk(self.tree):
            if isinstance(statement, ast.Expr) and statement.value is node:
                return statement
        return None

    def function_around(self, line: int) -> ast.FunctionDef | None:
        """Return the innermost function around a line."""
        around = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
        ]
        return max(around, key=lambda node: node.lineno, default=None)

    def loop_around(self, line: int) -> ast.For | ast.While | None:
        """Return the outermost loop around a line in the function that the line belongs to."""
        function = self.function_around(line)
        loops = [
            node
            for node in ast.walk(function or self.tree)
            if isinstance(node, ast.For | ast.While)
            and node.lineno <= line <= (node.end_lineno or 0)
            and self.function_around(node.lineno) is function
        ]
        return min(loops, key=lambda node: node.lineno, default=None)

    def uses(self, name: str) -> bool:
        """Tell whether the file has a meaning of its own for a name."""
        return any(
            name
            in (getattr(node, "id", ""), getattr(node, "name", ""), getattr(node, "asname", ""))
            for node in ast.walk(self.tree)
        )

    # ---- edits

    def set_keyword(self, call: ast.Call, name: str, value: str) -> Edit:
        """Give a call a keyword, or another value for one that it has."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return Edit(self.path, *self.bounds(keyword.value), value)
            if keyword.arg is None:
                raise NoPlaceError(f"{self.path}:{call.lineno}: it passes ** options")
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        if not arguments:
            _, end = self.bounds(call)
            return Edit(self.path, end - 1, end - 1, f"{name}={value}")
        end = max(self.bounds(argument)[1] for argument in arguments)
        return Edit(self.path, end, end, f", {name}={value}")

    def insert_before(self, node: Any, *lines: str) -> Edit:
        """Insert lines above a statement, indented as it is."""
        start = self.offset(node.lineno, 0)
        indentation = self.text[start : self.offset(node.lineno, node.col_offset)]
        if indentation.strip():
            raise NoPlaceError(f"{self.path}:{node.lineno}: the line holds another statement")
        text = "".join(f"{indentation}{line}{self.newline}" for line in lines)
        return Edit(self.path, start, start, text)

    def insert_after_imports(self, *lines: str) -> Edit:
        """Insert lines below the imports that stand at the top of the file."""
        last = 0
        for node in self.tree.body:
            is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if not (isinstance(node, ast.Import | ast.ImportFrom) or is_docstring):
                break
            last = node.end_lineno or 0
        start = self._starts[last]
        text = "".join(f"{line}{self.newline}" for line in lines)
        if start and not self.text[:start].endswith(("\n", "\r")):
            text = self.newline + text
        return Edit(self.path, start, start, text)

    def imports(self, name: str) -> bool:
        """Tell whether a module of this name is imported at the top level, under that name."""
        return any(
            isinstance(node, ast.Import)
            and any((alias.asname or alias.name) == name for alias in node.names)
            for node in self.tree.body
        )


class Sources:
    """The files of the program, each read once."""

    def __init__(self) -> None:
        self._read: dict[str, Source] = {}

    def __getitem__(self, path: str) -> Source:
        if path not in self._read:
            try:
                self._read[path] = Source(path)
            except (OSError, UnicodeDecodeError, SyntaxError) as error:
                raise NoPlaceError(f"{path}: {error}") from None
        return self._read[path]

    def edited(self, edits: Iterable[Edit]) -> dict[str, str]:
        """Return the new texts of the files; equal edits are made once."""
        edits, texts = list(edits), {}
        for path in dict.fromkeys(edit.path for edit in edits):
            text = self[path].text
            at = len(text)
            wanted = dict.fromkeys(edit for edit in edits if edit.path == path)
            for edit in sorted(wanted, key=lambda edit: (edit.start, edit.end), reverse=True):
                if edit.end > at:
                    raise NoPlaceError(f"{path}: two changes of the same place")
                text = text[: edit.start] + edit.text + text[edit.end :]
                at = edit.start
            texts[path] = text
        return texts

    def diff(self, texts: dict[str, str], folder: Path) -> str:
        """Return a patch for ``git apply`` in a folder."""
        lines: list[str] = []
        for path, text in texts.items():
            name = Path(path).relative_to(folder).as_posix()
            lines += [
                line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
                for line in difflib.unified_diff(
                    self[path].text.splitlines(keepends=True),
                    text.splitlines(keepends=True),
                    f"a/{name}",
                    f"b/{name}",
                )
            ]
        return "".join(lines)
