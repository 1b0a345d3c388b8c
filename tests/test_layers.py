"""Imports point one way: from what the user sees, over the Trace, to what everything stands on."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stepscope

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(stepscope.__file__).parent

# What everybody may import, and what imports nothing of ours.
LEAVES = {"errors", "notices", "_native", "_decorate", "_annotations", "_enums"}
# A part of the package, and the parts it may import besides the leaves. The order is the flow.
MAY_IMPORT: dict[str, set[str]] = {
    **{leaf: set() for leaf in LEAVES},
    "itt": set(),
    "nvtx": set(),
    "trace": set(),
    "record": {"trace"},
    "sources": {"record", "trace"},
    "readers": {"trace"},
    "analysis": {"trace"},
    "export": {"analysis", "trace"},
    "report": {"export", "analysis", "trace"},
    "schedules": set(),
    "recorder": {"sources", "record", "trace"},
    "session": {"recorder", "schedules", "sources", "record", "trace"},
    "torch": {
        *("session", "recorder", "schedules", "sources", "record"),
        *("report", "export", "analysis", "trace"),
    },
    "patch": {"torch", "sources"},
    "migrate": set(),
    "view": {"report", "readers", "analysis", "trace"},
    "paddle": {
        *("session", "recorder", "schedules", "sources", "record", "nvtx"),
        *("report", "export", "readers", "analysis", "trace"),
    },
}
# They stand above all parts: the public names, and the command line.
TOP = {"", "cli", "__main__"}


def parts_imported(source: str) -> Iterator[str]:
    """Yield the parts of the package that a module imports, wherever in it and for whatever."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            module = node.module or ""
            is_root = module == "stepscope"
            names = [f"stepscope.{alias.name}" for alias in node.names] if is_root else [module]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "stepscope":
                yield rest.partition(".")[0]


def wrong_ways(part: str, source: str) -> set[str]:
    """Return the parts that ``part`` imports and must not."""
    return set(parts_imported(source)) - MAY_IMPORT[part] - LEAVES - {part}


def part_of(path: Path) -> str:
    """Return the part that a file belongs to: its folder, or itself at the top."""
    where = path.relative_to(ROOT)
    if len(where.parts) > 1:
        return where.parts[0]
    return "" if where.stem == "__init__" else where.stem


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(ROOT)) for path in MODULES])
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    if part in TOP:
        return
    assert part in MAY_IMPORT, f"{part} is a new part: give it a place in this table"
    wrong = wrong_ways(part, path.read_text(encoding="utf-8"))
    assert not wrong, f"{path.name} belongs to {part}, which must not import {sorted(wrong)}"


def test_the_table_itself_has_no_cycle() -> None:
    below: set[str] = set()
    for part, imported in MAY_IMPORT.items():
        assert imported <= below, f"{part} stands before {sorted(imported - below)}"
        below.add(part)


@pytest.mark.parametrize(
    "source",
    [
        "import stepscope.export.chrome",
        "from stepscope.export import chrome",
        "from stepscope import export",
        "from stepscope import record_function",
        "def late():\n    from stepscope.session import Session",
        "if TYPE_CHECKING:\n    from stepscope.cli.run import Run",
    ],
)
def test_an_import_that_points_the_other_way_is_found(source: str) -> None:
    assert wrong_ways("analysis", source)


def test_imports_along_the_flow_are_fine() -> None:
    source = "import json, numpy\nfrom stepscope import _native\nfrom stepscope.trace import model"
    assert not wrong_ways("analysis", source)
