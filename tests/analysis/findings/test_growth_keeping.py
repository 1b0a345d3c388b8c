"""The statement that keeps what another one has made is found in the program's text."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from sample_traces import recording
from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.code.source_files import SourceFiles
from stepscope.analysis.findings.growth import keeping_path

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = {
    "appended": """
        def step(x):
            made = model(x)  # made
            loss = made.sum()
            history.append(made.detach())  # kept
        """,
    "at once": """
        for x in data:
            history.append(model(x))  # made, kept
        """,
    "added up": """
        for x in data:
            loss = (model(x) - x).abs().mean()  # made
            total += loss  # kept
        """,
    "in a cache": """
        def tile(key):
            image = render(key)  # made
            tiles[key] = image  # kept
            return image
        """,
    "of an object": """
        class Run:
            def step(self, x):
                self.last = x
                scores = self.model(x)  # made
                self.shown = scores
                self.scores += [scores]  # kept
        """,
    "lost from sight": """
        def step(x):
            made = model(x)  # made, kept
            report(made)
        """,
    "an attribute of it": """
        def step(x):
            made = model(x)  # made, kept
            sizes.append(made.shape)
        """,
    "of several lines": """
        def step(x):
            history.append(
                model(x)  # made, kept
            )
        """,
}


def files_in(folder: Path) -> SourceFiles:
    return SourceFiles(recording(code_folders=(str(folder),)))


def marked(text: str, word: str) -> int:
    return next(
        number for number, line in enumerate(text.splitlines(), 1) if word in line.partition("#")[2]
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_line_that_keeps(name: str, tmp_path: Path) -> None:
    text = dedent(PROGRAMS[name])
    (tmp_path / "program.py").write_text(text)
    made = Place("program.py", marked(text, "made"), "step")
    remaining = keeping_path((made,), files_in(tmp_path)) or (made,)
    assert remaining == (made._replace(line=marked(text, "kept")),)


def test_a_result_is_followed_to_the_caller(tmp_path: Path) -> None:
    text = dedent(
        """
        def forward(x):
            y = x @ x
            return y

        def step(x):
            scores = forward(x)
            kept.append(scores)

        step(1)
        """
    )
    (tmp_path / "program.py").write_text(text)
    path = (
        Place("program.py", 10, "<module>"),
        Place("program.py", 7, "step"),
        Place("program.py", 3, "forward"),
    )
    path_there = keeping_path(path, files_in(tmp_path))
    assert path_there == (path[0], Place("program.py", 8, "step"))


def test_without_its_text_nothing_is_known(tmp_path: Path) -> None:
    assert keeping_path((Place("nowhere.py", 3, "step"),), files_in(tmp_path)) is None
