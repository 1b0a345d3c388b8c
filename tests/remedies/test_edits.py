"""Edits change the lines that they name, and no other character."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from stepscope.remedies.edits import NoPlaceError, Source, Sources
from stepscope.remedies.trial import patched_by_git

PROGRAM = '''\
"""A program."""
from __future__ import annotations
import torch

def train(model, data):
    for epoch in range(3):
        for batch in data:
            optimizer = torch.optim.SGD(  # with a comment
                model.parameters(), lr=0.1,
            )
            optimizer.step( )

@torch.compile
def forward(x): return x
'''


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return Source(str(path))


def call(source: Source, name: str) -> ast.Call:
    calls = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    return next(node for node in calls if ast.unparse(node.func).endswith(name))


def edited(source: Source, *edits: object) -> str:
    return Sources().edited(edits)[source.path]  # type: ignore[arg-type]


def test_a_keyword_is_added_after_the_last_argument(source: Source) -> None:
    text = edited(source, source.set_keyword(call(source, "SGD"), "fused", "True"))
    assert text == PROGRAM.replace("lr=0.1,", "lr=0.1, fused=True,")


def test_a_keyword_that_is_there_gets_another_value(source: Source) -> None:
    text = edited(source, source.set_keyword(call(source, "SGD"), "lr", "0.2"))
    assert text == PROGRAM.replace("0.1", "0.2")


def test_a_call_without_arguments_gets_its_first(source: Source) -> None:
    text = edited(source, source.set_keyword(call(source, "step"), "closure", "None"))
    assert "optimizer.step( closure=None)" in text


def test_options_that_are_passed_with_stars_leave_no_place(tmp_path: Path) -> None:
    path = tmp_path / "stars.py"
    path.write_text("f(**options)\n", encoding="utf-8")
    source = Source(str(path))
    with pytest.raises(NoPlaceError):
        source.set_keyword(call(source, "f"), "fused", "True")


def test_an_import_stands_below_the_others(source: Source) -> None:
    text = edited(source, source.insert_after_imports("import gc"))
    assert text == PROGRAM.replace("import torch\n", "import torch\nimport gc\n")


def test_a_statement_stands_before_the_outermost_loop_of_the_function(source: Source) -> None:
    loop = source.loop_around(11)
    assert loop is not None
    text = edited(source, source.insert_before(loop, "gc.freeze()"))
    assert text == PROGRAM.replace("    for epoch", "    gc.freeze()\n    for epoch")


def test_a_decorator_stands_right_above_the_function(source: Source) -> None:
    text = edited(source, source.insert_before(source.function_at(13), "@remember"))
    assert "@torch.compile\n@remember\ndef forward" in text


def test_a_name_that_the_file_uses_is_not_taken(source: Source) -> None:
    assert [source.uses(name) for name in ("train", "torch", "loader", "gc")] == [
        *(True, True, False, False)
    ]


def test_two_changes_that_insert_the_same_line_insert_it_once(source: Source) -> None:
    line = source.insert_after_imports("import gc")
    assert edited(source, line, line).count("import gc") == 1


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["\n", ""])
def test_git_applies_the_patch(tmp_path: Path, newline: str, end: str) -> None:
    path = tmp_path / "pakét" / "train.py"
    path.parent.mkdir()
    text = (PROGRAM.rstrip("\n") + end).replace("\n", newline)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
    sources = Sources()
    source = sources[str(path)]
    wanted = sources.edited(
        [
            source.insert_after_imports("import gc"),
            source.insert_before(source.function_at(13), "@remember"),
        ]
    )
    assert wanted[str(path)].count(newline) == text.count(newline) + 2
    assert patched_by_git(sources, wanted, tmp_path) == wanted
