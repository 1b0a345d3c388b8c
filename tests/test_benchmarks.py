"""What stands beside the package, and is run by hand, uses names that the package has."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "tools").glob("*.py")])


def imported(path: Path) -> list[tuple[str, str]]:
    """Return the modules of the package that a script imports from, and the names."""
    return [
        (node.module, name.name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.partition(".")[0] == "stepscope"
        for name in node.names
    ]


def has(module: str, name: str) -> bool:
    if hasattr(importlib.import_module(module), name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_it_imports_what_there_is(script: Path) -> None:
    assert [f"{module}.{name}" for module, name in imported(script) if not has(module, name)] == []
