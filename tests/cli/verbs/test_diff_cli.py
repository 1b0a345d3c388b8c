"""``stepscope diff`` on the command line, and its page in a browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from made_steps import BASE, steps
from report_page import Reports, chromium, reports
from stepscope.cli import main

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["chromium", "reports"]


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """Two traces: the second has an operator more."""
    paths = [tmp_path / "a.stepscope", tmp_path / "b.stepscope"]
    steps(BASE).save(paths[0])
    steps([*BASE, ("", "</script><b>erf", 300)], longer=300).save(paths[1])
    return [str(path) for path in paths]


def test_all_forms(pair: list[str], capsys: pytest.CaptureFixture[str], reports: Reports) -> None:
    assert main(["diff", *pair, "--json"]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert parsed["step"]["verdict"] == "slower"
    for table in parsed["tables"]:
        assert sum(row["difference_ns"] for row in table["rows"]) == parsed["difference_ns"]
    page = reports._folder / "page.html"
    assert main(["diff", "--before", pair[0], "--after", pair[1], "-o", str(page)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("A step has become slower: from 1.00 ms to 1.30 ms, +30.0%")
    assert "one run per side" in out
    assert main(["diff", *pair, "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("**A step has become slower")
    shown = reports.open(page)
    assert "slower" in shown.inner_text("h1")
    assert shown.inner_text(".diff-table tbody tr td").startswith("</script>")
    shown.goto(page.as_uri() + "#flame")
    assert shown.locator(".diff-box").count() >= 5
    shown.goto(page.as_uri() + "#timelines")
    assert shown.locator(".diff-timeline canvas").count() == 4
    first, second = shown.locator(".timeline-place").all()
    assert first.inner_text() == second.inner_text()
    before = second.inner_text()
    shown.keyboard.press("w")  # zoom in
    assert first.inner_text() == second.inner_text() != before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a"], "1 traces were given"),
        ([], "give BEFORE and AFTER"),
        (["--before", "a"], "or --after"),
        (["a", "b", "--after", "c"], "not both"),
        (["--run", "x.py"], "--run was given 1 times"),
        (["--run", "x.py", "--run", "'"], "No closing quotation"),
        (["--run", "x.py", "--run", "python"], "names no program"),
        (["--run", "x.py", "--run", "y.py", "--repeat", "0"], "at least one run"),
        (["a", "b", "-o", "page.txt"], "use that suffix"),
        (["a", "b", "--least-effect", "200"], "is a percentage"),
    ],
)
def test_mistakes_are_named(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *words]) == 2
    assert message in capsys.readouterr().err
