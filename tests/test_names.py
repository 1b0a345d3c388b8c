"""Names say what a value is: past participles and pronouns say only what happened to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[1]
VAGUE = {"each", "found", "held", "kept", "known", "left", "said", "them", "those", "told"}

# ``held`` is the table of the blocks that are held at some time: a trace's public name of it.
ALLOWED = {("src/stepscope/trace/schema.py", "held")}

AS_USERS_WRITE = "tests/bottlenecks/"  # programs to profile, whose lines are part of the answers

# A local variable, a member or a parameter of C++: a type, the name, and what ends a declaration.
DECLARED_IN_CPP = re.compile(
    rf"[\w>&*\]] (?:\*|&)?(?P<name>(?:{'|'.join(sorted(VAGUE))})_?)(?: = | : |[;,){{(\[])"
    rf"|\[[\w, ]*\b(?P<bound>{'|'.join(sorted(VAGUE))})\b[\w, ]*\] (?:=|:)"
)

COMMENT_OR_TEXT = re.compile(
    r"//.*|^ *(?:/\*|\*| \* ).*|\"(?:\\.|[^\"])*\"|^ *(?:return|delete) .*"
)


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the lines and names of all variables, parameters, attributes, functions, classes."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def vague_names(folder: str) -> list[str]:
    return [
        f"{path}:{line}: {name}"
        for file in sorted((CLONE / folder).rglob("*.py"))
        for path in [file.relative_to(CLONE).as_posix()]
        for line, name in names_in(ast.parse(file.read_text(encoding="utf-8")))
        if name.strip("_") in VAGUE
        and (path, name) not in ALLOWED
        and not path.startswith(AS_USERS_WRITE)
    ]


@pytest.mark.parametrize("folder", ["benchmarks", "src", "tests", "tools"])
def test_names_say_what_a_value_is(folder: str) -> None:
    assert vague_names(folder) == []


def test_names_in_cpp_say_what_a_value_is() -> None:
    vague = [
        f"{file.relative_to(CLONE)}:{number}: {line.strip()}"
        for folder in ("native", "src/stepscope/frameworks")
        for kind in ("*.cpp", "*.h")
        for file in sorted((CLONE / folder).rglob(kind))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if DECLARED_IN_CPP.search(COMMENT_OR_TEXT.sub("", line))
    ]
    assert vague == []


@pytest.mark.parametrize(
    "line",
    ["found = 1", "for each in ():\n    pass", "def of(known): ...", "self._told = 2",
     "[left for left in ()]", "with open() as kept:\n    pass", "(said := 3)", "held: int = 4",
     "import this as them", "lambda each: 5", "def told(): ..."],
)  # fmt: skip
def test_every_way_to_bind_a_name_is_seen(line: str) -> None:
    assert VAGUE & {name.strip("_") for _, name in names_in(ast.parse(line))}


@pytest.mark.parametrize(
    "line",
    ["const auto found = ids.find(id);", "for (const auto& each : all) {", "std::string told;",
     "int add(int known, int more);", "auto [left, right] = pair;", "size_t kept_ = 0;",
     "[](const Row& each) { return each.id; }", "std::vector<int> found(3);"],
)  # fmt: skip
def test_every_way_to_declare_a_name_in_cpp_is_seen(line: str) -> None:
    assert DECLARED_IN_CPP.search(line)
