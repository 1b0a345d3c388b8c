"""Converts a program's profiler code from one vocabulary, or one module, to another."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import libcst as cst
from libcst import CSTNode as Node

from stepscope.migrate.calls import Calls
from stepscope.migrate.conversion import Conversion
from stepscope.migrate.edits import Edits
from stepscope.migrate.imports import Imports
from stepscope.migrate.instances import Instances
from stepscope.migrate.limits import Limits
from stepscope.migrate.mapping import HOMES, RANGES, destination, direction
from stepscope.migrate.parsed import Parsed, ProgramError, dotted
from stepscope.migrate.references import (
    Imported,
    Reference,
    find_imports,
    find_other_uses,
    find_references,
)

_OF_RANGES = {"begin", "end", "__enter__", "__exit__"}


class Methods:
    """Converts the methods and attributes of one dialect's objects."""

    def __init__(self, conversion: Conversion, calls: Calls, instances: Instances) -> None:
        self._conversion = conversion
        self._parsed = conversion.parsed
        self._edits = conversion.edits
        self._way = conversion.way
        self._calls = calls
        self._instances = instances

    def convert(self) -> None:
        for node in self._parsed.nodes:
            if not isinstance(node, cst.Attribute):
                continue
            origin = self._instances.origin(node.value)
            if origin is not None and (origin.name in RANGES) == (node.attr.value in _OF_RANGES):
                self._convert(node, origin)

    def _convert(self, node: Any, origin: Reference) -> None:
        name = node.attr.value
        call: Any = self._parsed.parent(node)
        is_called = isinstance(call, cst.Call) and call.func is node
        if name == "key_averages" and is_called and name in self._way.parameters:
            self._convert_table(node, call, origin)
        elif name in self._way.missing_methods:
            self._without_counterpart(node, call if is_called else None)
        elif name in self._way.methods or name in self._way.missing_parameters:
            new_name = self._way.methods.get(name, name)
            self._edits.replace(
                self._parsed.start(node.attr), self._parsed.end(node.attr), new_name
            )
            if is_called:
                self._convert_call(call, name, origin)

    def _convert_call(self, call: Any, name: str, origin: Reference) -> None:
        arguments_left = self._calls.convert_arguments(call, name, origin)
        if name == "end" and not call.args:
            self._edits.insert(self._parsed.end(call) - 1, "None, None, None")
        if name == "summary" and name in self._way.methods:
            self._print_table(call, arguments_left)

    def _print_table(self, call: Any, arguments_left: int) -> None:
        """Put the former ``prof.summary(...)`` into a print."""
        parsed, edits = self._parsed, self._edits
        has_key = any(a.keyword is None or a.keyword.value == "sorted_by" for a in call.args)
        if not has_key:  # Paddle's default; torch does not sort by default
            opened = parsed.source.index(b"(", parsed.end(call.func)) + 1
            is_wrapped = parsed.source[opened : opened + 1].isspace()
            comma = "" if not arguments_left else "," if is_wrapped else ", "
            edits.insert(opened, f'sort_by="cpu_time_total"{comma}')
        edits.insert(parsed.start(call), "print(")
        edits.insert(parsed.end(call), ")")

    def _convert_table(self, node: Any, averages: Any, origin: Reference) -> None:
        """Convert ``print(prof.key_averages().table(...))`` to ``prof.summary(...)``."""
        parsed, edits = self._parsed, self._edits
        table: Any = parsed.parent(averages)
        call: Any = parsed.parent(table)
        is_table = isinstance(table, cst.Attribute) and table.attr.value == "table"
        shown, method = (
            (call, table) if is_table and isinstance(call, cst.Call) else (averages, node)
        )
        argument = parsed.parent(shown)
        printing: Any = parsed.parent(argument)
        is_printed = (
            isinstance(printing, cst.Call)
            and parsed.is_builtin(printing.func, "print")
            and len(printing.args) == 1
        )
        if not is_printed:
            target = self._conversion.target.module
            if shown is not call:
                self._remark_value(node, f"key_averages as a value has no counterpart in {target}")
                return
            self._remark_value(call, f"summary() of {target} prints the table and returns None")
        for group in averages.args:
            keyword = group.keyword.value if group.keyword else parsed.text(group)
            self._conversion.missing(averages, keyword)
        edits.replace(parsed.end(node.value), parsed.end(method), ".summary")
        if shown is call:
            self._calls.convert_arguments(call, "table", origin)
        else:
            edits.replace(parsed.end(method), parsed.end(averages), "()")
        if is_printed:
            self._unwrap(printing, shown)

    def _remark_value(self, node: Node, text: str) -> None:
        self._edits.remark(self._parsed.end(node), text)

    def _unwrap(self, outer: Node, inner: Node) -> None:
        """Leave only ``inner`` of ``print(inner)``, unless a comment is between them."""
        parsed, edits = self._parsed, self._edits
        before = parsed.start(outer), parsed.start(inner)
        after = parsed.end(inner), parsed.end(outer)
        if b"#" in parsed.source[slice(*before)] + parsed.source[slice(*after)]:
            edits.replace(before[0], before[0] + len("print"), "")
        else:
            edits.replace(*before, "")
            edits.replace(*after, "")

    def _without_counterpart(self, node: Any, call: Any) -> None:
        """Remove a statement without a counterpart; a value stays, with a remark."""
        parsed, edits = self._parsed, self._edits
        name = node.attr.value
        self._conversion.missing(call or node, name)
        if name == "step_info" and call is not None:
            # Whether quotes may nest in an f-string depends on the Python version.
            is_quoted = any(isinstance(a, cst.FormattedString) for a in parsed.ancestors(call))
            edits.replace(parsed.start(call), parsed.end(call), "str()" if is_quoted else '""')
            return
        statement = parsed.parent(call) if call is not None else None
        if not isinstance(statement, cst.Expr):
            return
        start, end = parsed.start(statement), parsed.end(statement)
        line = parsed.parent(statement)
        siblings = getattr(parsed.parent(line), "body", ())
        if edits.is_alone(start, end) and isinstance(siblings, tuple | list) and len(siblings) > 1:
            edits.remove(start, end)
        else:
            edits.replace(start, end, "pass")


@dataclass(frozen=True)
class Migration:
    text: str
    sources: tuple[str, ...]  # the modules whose profiler code was found
    converted: int  # uses and imports of profiler names that were converted
    remarks: tuple[str, ...]


def migrate(text: str, to: str) -> Migration:
    """Convert a program's profiler code to ``to``: paddle, torch or stepscope."""
    text, stars = _without_stars(text, to) if "*" in text else (text, 0)
    parsed = Parsed(text)
    imports = find_imports(parsed)
    references = find_references(parsed, imports)
    sources = {r.dialect for r in references} | {i.dialect for i in imports if i.dialect}
    edits = Edits(parsed.source)
    for node in parsed.nodes:
        if isinstance(node, (cst.SimpleString, cst.FormattedString)):
            edits.no_comment_in(parsed.start(node), parsed.end(node))
    converted = 0
    for source in sorted(sources, key=lambda dialect: dialect.module):
        target = destination(source, to)
        if target is not source:
            conversion = Conversion(parsed, edits, source, target, direction(source, target))
            used = [reference for reference in references if reference.dialect is source]
            converted += _convert(conversion, used, imports)
            _mark_others(conversion, imports)
    return Migration(
        _checked(edits.apply()) if edits else text,
        tuple(sorted(dialect.module for dialect in sources)),
        converted + stars,
        tuple(edits.remark_texts().values()),
    )


def _convert(conversion: Conversion, references: list[Reference], imports: list[Imported]) -> int:
    """Convert one dialect's code; return the number of uses and imports."""
    spelling = Imports(conversion, imports)
    calls = Calls(conversion, spelling)
    instances = Instances(conversion.parsed, references)
    Limits(conversion, references, instances).convert()
    Methods(conversion, calls, instances).convert()
    for reference in references:
        calls.convert_arguments_of(reference)
    for reference in references:
        calls.convert_name(reference)
    return len(references) + spelling.convert()


def _mark_others(conversion: Conversion, imports: list[Imported]) -> None:
    """Mark uses of a profiler's modules that have no mapping; they stay unchanged."""
    if not conversion.way.parameters:
        return  # the same vocabulary: they work as before
    for use in find_other_uses(conversion.parsed, imports, conversion.source):
        conversion.edits.remark(conversion.parsed.end(use.node), f"{use.path} is not converted")


def _checked(text: str) -> str:
    """Return the text if it is a valid program; anything else must never be written."""
    try:
        ast.parse(text)
    except SyntaxError as error:
        line = text.splitlines()[(error.lineno or 1) - 1].strip()
        raise ProgramError(
            f"the conversion would not be Python at `{line}` ({error.msg}): "
            "change this line by hand, and convert again"
        ) from error
    return text


def _without_stars(text: str, to: str) -> tuple[str, int]:
    """Replace ``from torch.profiler import *`` by the names that are used."""
    parsed = Parsed(text)
    edits = Edits(parsed.source)
    stars = 0
    for node in parsed.nodes:
        if not isinstance(node, cst.ImportFrom) or not isinstance(node.names, cst.ImportStar):
            continue
        dialect = HOMES.get(dotted(node.module)) if node.module and not node.relative else None
        if dialect is None or destination(dialect, to) is dialect:
            continue
        unbound = {
            name.value
            for name in parsed.nodes
            if isinstance(name, cst.Name) and parsed.is_read(name) and not parsed.assignments(name)
        }
        names = sorted(unbound & dialect.names)
        if names:
            edits.replace(parsed.start(node.names), parsed.end(node.names), ", ".join(names))
            stars += 1
    return (edits.apply() if edits else text), stars
