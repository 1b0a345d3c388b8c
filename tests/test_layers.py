"""Imports point one way, and nothing neutral knows a framework."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = Path(stepscope.__file__).parent
NATIVE = Path(__file__).parents[1] / "native"
MODULES = {
    ".".join(("stepscope", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in sorted(ROOT.rglob("*.py"))
}

# What everybody may import, and what imports nothing of ours but another of these.
LEAVES = {
    *("arguments", "errors", "notices", "private_folders", "registry", "enums", "units"),
    *("background", "extensions", "lazy"),
    "_native",
}
# A part of the package, and the parts it may import besides the leaves. The order is the flow.
NEUTRAL: dict[str, set[str]] = {
    **{leaf: set() for leaf in LEAVES},
    "trace": set(),
    "record": {"trace"},
    "analysis": {"trace"},
    "formats": {"analysis", "trace"},
    "query": {"analysis", "trace"},
    "job": {"formats", "analysis", "trace"},
    "text": {"job", "formats", "analysis", "trace"},
    "report": {"job", "formats", "text", "analysis", "trace"},
    "gate": {"text", "formats", "analysis", "trace"},
    "history": {"text", "analysis", "trace"},
    "live": {"record", "formats", "analysis", "trace"},
    "view": {"report", "live", "record", "formats", "analysis", "trace"},
    "remember": set(),
    "remedies": {"remember"},
    "migrate": {"torch", "paddle"},  # as names in the programs that it rewrites
}
FRAMEWORKS = {"frameworks": {"report", "text", "formats", "analysis", "record", "trace", "nvtx"}}
# A part's rooms (the packages in it) and the rooms of the part that each may import, lowest first.
# "beside" stands for the modules that lie beside the rooms.
ROOMS: dict[str, dict[str, str]] = {
    "record": {
        "stream": "",
        "beside": "stream",
        "read_back": "stream beside",
        "inside": "stream beside",
    },
    "analysis": {
        "base": "",
        "calls": "base",
        "work": "base calls",
        "code": "base calls",
        "flops": "base",
        "memory": "base calls code",
        "steps": "base calls work code",
        "needless": "base",
        "host": "base calls work code flops memory steps",
        "device": "base calls work code flops steps",
        "findings": "base calls work code memory steps needless device",
        "beside": "base calls work code flops memory steps needless host device findings",
        "compare": "base calls work code memory steps host findings beside",
    },
    "formats": {
        "base": "",
        "chrome": "base",
        "nsight": "base",
        "perfetto": "base chrome",
        "rocm": "base",
        "beside": "base chrome nsight perfetto rocm",
    },
    "report": {
        "base": "",
        "sections": "base",
        "beside": "base sections",
    },
    "remedies": {
        "inside": "",
        "beside": "inside",
    },
    "frameworks": {
        "cuda": "",
        "python": "",
        "torch": "cuda python",
        "paddle": "cuda python torch",
        "beside": "cuda python torch paddle",
    },
    "cli": {
        "base": "",
        "run": "base",
        "verbs": "base run",
        "beside": "base run verbs",
    },
}
# The rooms of native/, and those whose headers each may include.
NATIVE_ROOMS: dict[str, str] = {
    "include": "",
    "core": "include",
    "sampler": "core",
    "cuda": "core sampler",
    "read_back": "include core sampler cuda",
    "json": "include core",
    "protobuf": "json",
    "perfetto": "core json protobuf",
    "paddle": "core json protobuf",
    "pickle": "json",
    "python": "include core sampler cuda read_back json protobuf perfetto paddle pickle",
    "tests": "include core sampler read_back json perfetto paddle",
}
MAY_IMPORT = {**NEUTRAL, "itt": {"record"}, "nvtx": {"record"}, **FRAMEWORKS}
# They stand above all parts: the public names, the dialects' faces, the command line, and what
# other tools load: integrations import a library when it is used.
TOP = {"", "torch", "paddle", "cli", "__main__", "integrations"}

_OURS = re.compile(r"stepscope(\.\w+)+")
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_FRAMEWORKS_FILE = re.compile(r"(torch|paddle|jax)/")
_DYNAMIC = {"import_module", "__import__", "resolve_name", "lazy_names", "loader"}
# It imports what others name: a text of theirs that names a module counts as their import of it.
_IMPORTS_FOR_OTHERS = "stepscope.lazy"


@cache
def imported_by(module: str) -> frozenset[str]:
    """Return every module of ours that one imports."""
    return frozenset(modules_imported(MODULES[module].read_text(encoding="utf-8")))


def modules_imported(source: str) -> Iterator[str]:
    """Yield every module of ours that a text imports, wherever in it, for whatever, however.

    A text that names a module counts as an import of it, and so does importing what is only known
    when it runs: neither is a way around.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if below in MODULES or node.module == "stepscope" else node.module or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for match in _OURS.finditer(node.value):
                yield from _named_by_text(match[0], node.value)
        elif isinstance(node, ast.Call) and _called(node.func) in _DYNAMIC:
            yield from () if node.args and all(map(_is_told, node.args)) else ("stepscope.*",)


def _named_by_text(name: str, text: str) -> Iterator[str]:
    """Yield a module that a text names for importing; prose and paths do not."""
    if text == name or text.startswith(f"{name}:"):
        yield name


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_told(name: ast.expr) -> bool:
    """Tell whether a name that is imported is written there, or begins as another package does."""
    if isinstance(name, ast.JoinedStr) and isinstance(name.values[0], ast.Constant):
        package, dot, _ = str(name.values[0].value).partition(".")
        return bool(dot) and package != "stepscope"
    if isinstance(name, ast.Dict):
        return all(isinstance(key, ast.Constant) for key in name.keys)
    return isinstance(name, ast.Constant) or ast.unparse(name) == "__name__"


def parts_of(modules: Iterable[str]) -> set[str]:
    """Return the parts of the package that these modules belong to."""
    names = (name.split(".") for name in modules)
    return {name[1] for name in names if name[0] == "stepscope" and len(name) > 1}


def wrong_ways(part: str, modules: Iterable[str]) -> set[str]:
    """Return the parts of these modules that ``part`` must not import."""
    return parts_of(modules) - MAY_IMPORT[part] - LEAVES - {part}


def part_of(module: str) -> str:
    """Return the part that a module belongs to: its folder, or itself at the top."""
    return [*module.split("."), ""][1]


def room_of(module: str) -> str:
    """Return the room of its part that a module belongs to, or "beside"."""
    below = module.split(".")[2:]
    is_in_room = len(below) > 1 or (below and MODULES[module].name == "__init__.py")
    return below[0] if is_in_room else "beside"


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    part = part_of(module)
    if part in TOP or module == _IMPORTS_FOR_OTHERS:
        return
    assert part in MAY_IMPORT, f"{part} is a new part: give it a place in this table"
    wrong = wrong_ways(part, imported_by(module))
    assert not wrong, f"{module} belongs to {part}, which must not import {sorted(wrong)}"


def test_nothing_neutral_knows_a_framework() -> None:
    assert not any("frameworks" in allowed for allowed in NEUTRAL.values())
    for module in MODULES:
        if part_of(module) in NEUTRAL:
            assert "frameworks" not in parts_of(imported_by(module)), module


@pytest.mark.parametrize("rooms", [*ROOMS.values(), NATIVE_ROOMS])
def test_no_table_of_rooms_has_a_cycle(rooms: dict[str, str]) -> None:
    below: set[str] = set()
    for room, imported in rooms.items():
        assert below.issuperset(imported.split()), f"{room} stands before what it imports"
        below.add(room)


@pytest.mark.parametrize("part", ROOMS)
def test_rooms_of_a_part_import_one_way(part: str) -> None:
    for module in (module for module in MODULES if part_of(module) == part):
        room = room_of(module)
        assert room in ROOMS[part], f"{part}.{room} is a new room: give it a place in this table"
        rooms = {
            room_of(name) for name in imported_by(module) & set(MODULES) if part_of(name) == part
        }
        wrong = rooms - set(ROOMS[part][room].split()) - {room}
        assert not wrong, (
            f"{module} belongs to {part}.{room}, which must not import {sorted(wrong)}"
        )


def test_rooms_of_native_code_include_one_way() -> None:
    files = [path for path in NATIVE.rglob("*") if path.suffix in {".h", ".cpp"}]
    assert files
    for path in files:
        room = path.relative_to(NATIVE).parts[0]
        if room == "bridges":
            continue  # it builds the bridge to torch, which knows the headers of torch as well
        assert room in NATIVE_ROOMS, f"native/{room} is a new room: give it a place in this table"
        included = _INCLUDE.findall(path.read_text(encoding="utf-8"))
        # Files of the same room may be named without it; the headers in include/ are stepscope/'s.
        folders = [name.partition("/")[0] for name in included if "/" in name]
        rooms = {"include" if folder == "stepscope" else folder for folder in folders}
        wrong = rooms - set(NATIVE_ROOMS[room].split()) - {room}
        assert not wrong, f"{path.name} belongs to {room}, which must not include {sorted(wrong)}"


def test_nothing_neutral_names_a_file_of_a_framework() -> None:
    # Each framework registers its own: analysis/base/landmarks.py.
    for module, path in MODULES.items():
        if part_of(module) not in NEUTRAL:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not _FRAMEWORKS_FILE.match(node.value), f"{module}, line {node.lineno}"


def test_the_table_itself_has_no_cycle() -> None:
    below = {"torch", "paddle"}
    for part, imported in MAY_IMPORT.items():
        assert imported <= below, f"{part} stands before {sorted(imported - below)}"
        below.add(part)


@pytest.mark.parametrize("of", [str, lambda module: (part_of(module), room_of(module))])
def test_no_circle_between_modules_or_rooms(of: Callable[[str], object]) -> None:
    imports: dict[object, set[object]] = {}
    for module in MODULES.keys() - {"stepscope"}:
        others = {of(name) for name in imported_by(module) & MODULES.keys() - {"stepscope"}}
        imports.setdefault(of(module), set()).update(others - {of(module)})
    TopologicalSorter(imports).prepare()  # raises CycleError, and names the modules


@pytest.mark.parametrize(
    "source",
    [
        "import stepscope.formats.chrome",
        "from stepscope.formats import chrome",
        "from stepscope import formats",
        "from stepscope import record_function",
        "def late():\n    from stepscope.record.session import Session",
        "if TYPE_CHECKING:\n    from stepscope.cli.run import Run",
        "import_module('stepscope.frameworks.paddle.flops')",
        "importlib.import_module(f'stepscope.{name}')",
        "importlib.import_module(f'steps{rest}.frameworks')",
        "loader(f'stepscope.{name}:export')",
        "loader('stepscope.report.build:export_html')",
        "lazy_names(__name__, {'stepscope.report.build': 'export_html'})",
        "lazy_names(__name__, {home: 'export_html'})",
        "HOME = 'stepscope.frameworks.torch.flops:FORMULAS'\nload(HOME)",
        "__import__(''.join(['steps', 'cope.frameworks']))",
    ],
)
def test_an_import_that_points_the_other_way_is_found(source: str) -> None:
    assert wrong_ways("analysis", modules_imported(source))


def test_imports_along_the_flow_are_fine() -> None:
    source = "import json, numpy\nfrom stepscope import _native\nfrom stepscope.trace import model"
    source += "\nimport_module(f'paddle.profiler.{name}')"
    assert not wrong_ways("analysis", modules_imported(source))
