"""Converts a program's profiler code from one vocabulary, or one module, to another."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import libcst as cst

from stepscope.migrate.calls import Calls
from stepscope.migrate.conversion import Conversion
from stepscope.migrate.edits import Edits
from stepscope.migrate.imports import Imports
from stepscope.migrate.instances import Instances
from stepscope.migrate.limits import Limits
from stepscope.migrate.mapping import HOMES, destination, direction
from stepscope.migrate.methods import Methods
from stepscope.migrate.parsed import Parsed, ProgramError, dotted
from stepscope.migrate.references import (
    Imported,
    Reference,
    find_imports,
    find_other_uses,
    find_references,
)


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
