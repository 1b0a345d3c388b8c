"""What is imported when it is first used is there, and is what type checkers are told."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.formats import FORMATS
from stepscope.lazy import lazy_names, loader

ROOT = Path(stepscope.__file__).parent
PACKAGES = ["", ".analysis", ".integrations", ".job", ".paddle"]
EXTRA = {"load_ipython_extension": "stepscope.integrations.notebook"}  # what %load_ext calls


def calls_of(function: str, source: Path) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == function
    ]


def homes_in(source: Path) -> dict[str, str]:
    """Return the module of each name that is imported when it is used."""
    return {
        name: home
        for call in calls_of("lazy_names", source)
        for homes in call.args[1:]
        for home, names in ast.literal_eval(homes).items()
        for name in names.split()
    }


def told_to_type_checkers(source: Path) -> dict[str, str]:
    """Return the home of each name that only a type checker imports."""
    return {
        alias.name: str(node.module)
        for block in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


SOURCES = sorted(ROOT.rglob("*.py"))
LOADED = [ast.literal_eval(call.args[0]) for item in SOURCES for call in calls_of("loader", item)]
NAMED = [f"{home}:{name}" for item in SOURCES for name, home in homes_in(item).items()]


@pytest.mark.parametrize("place", [*LOADED, *NAMED])
def test_what_is_named_is_there(place: str) -> None:
    module, _, name = place.partition(":")
    assert attrgetter(name)(import_module(module)) is not None


@pytest.mark.parametrize("name", PACKAGES)
def test_public_names_are_seen_and_are_what_type_checkers_think(name: str) -> None:
    package = import_module(f"stepscope{name}")
    source = Path(inspect.getfile(package))
    result = told_to_type_checkers(source)
    homes = homes_in(source)
    assert {public: result.get(public) for public in homes} | EXTRA == homes | EXTRA
    assert {*package.__all__} - {*result} <= {"record_function"}, "that is there from the start"
    assert {*package.__all__} <= {*dir(package)}
    assert all(getattr(package, public) is not None for public in package.__all__)


@pytest.mark.parametrize("format", list(FORMATS), ids=lambda format: format.title)
def test_every_format_has_its_functions(format: Any, tmp_path: Path) -> None:
    if format.reader is not None:
        inspect.signature(format.reader()).bind(tmp_path, progress=None)
    if format.writer is not None:
        inspect.signature(format.writer()).bind(None, tmp_path, progress=None)
    if format.matches is not None:
        assert not format.matches(tmp_path / "none", b"nothing")
    assert format.reader or format.writer


def test_a_name_is_looked_up_once_and_one_that_is_made_each_time() -> None:
    look_up, _ = lazy_names(__name__, {"json": "dumps"}, made={"anew": list})
    import json

    assert look_up("dumps") is json.dumps
    assert globals().pop("dumps") is json.dumps
    assert look_up("anew") is not look_up("anew")


def test_what_a_loader_names_may_be_in_a_class() -> None:
    assert loader("pathlib:Path.cwd")() == Path.cwd


def test_a_name_that_is_missing_is_asked_for_by_its_nearest() -> None:
    for package, wrong, meant in [
        ("stepscope.analysis", "step_brakedown", "step_breakdown"),
        ("stepscope.job", "straggler", "stragglers"),
        ("stepscope.paddle", "RecordEvents", "RecordEvent"),
    ]:
        with pytest.raises(AttributeError, match=f"{wrong!r}; did you mean '{meant}'"):
            getattr(import_module(package), wrong)
