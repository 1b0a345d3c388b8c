"""``stepscope try``: what it prints, writes and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.cli import main
from stepscope.cli.verbs.try_ import budget
from stepscope.remedies.edits import Sources

PROGRAM = '''\
"""Counts the pairs that stand in the wrong order, again and again."""
ROWS = [(i * 7919) % 1009 for i in range(1200)]


def inversions(rows):
    count = 0
    for place, value in enumerate(rows):
        for other in rows[place:]:
            count += value > other
    return count


print(sum(inversions(ROWS) % (step + 1) for step in range(40)))
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "count.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("3m", 180), ("1h30m", 5400)]
)
def test_a_budget_is_a_time(text: str, seconds: float) -> None:
    assert budget(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "fast", "3 m"])
def test_what_is_no_time_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", "--budget", text, "-c", "pass"]) == 2
    assert "use 90s, 3m or 1h" in capsys.readouterr().err


def test_there_is_nothing_to_apply_before_a_trial(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["try", "--apply"]) == 2
    assert "`stepscope try COMMAND` writes it" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["", "inside/a"])
def test_a_patch_is_applied_in_the_current_folder(
    folder: Path, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if place:  # a folder of a git repository
        subprocess.run(["git", "init", "-q", "."], check=True)
    here = folder / place
    here.mkdir(parents=True, exist_ok=True)
    (here / "count.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(here)
    sources = Sources()
    path = str(here / "count.py")
    texts = sources.edited([sources[path].insert_after_imports("import gc")])
    (here / "try.diff").write_text(sources.diff(texts, here), encoding="utf-8")
    assert main(["try", "--apply"]) == 0
    assert (here / "count.py").read_text(encoding="utf-8") == texts[path]
    assert main(["try", "--apply"]) == 2
    assert "try.diff does not apply" in capsys.readouterr().err


@pytest.mark.slow
def test_a_function_that_is_computed_again_is_remembered(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["try", "--budget", "10m", "--json", "count.py"])
    output = capsys.readouterr()
    if code == 2 and "cannot be kept apart on this machine" in output.err:
        pytest.skip(output.err)
    answer = json.loads(output.out)
    (tried,) = answer["tried"]
    assert tried["title"] == "remember inversions"
    assert tried["took_effect"]
    assert tried["is_in_patch"]
    assert answer["equality"] == "exact"
    assert answer["gain"]["low"] > 2  # 40 times the work in the function
    assert "+@remember\n" in answer["patch"]
    assert (folder / "count.py").read_text(encoding="utf-8") == PROGRAM
    assert main(["try", "--apply"]) == 0
    assert "@remember" in (folder / "count.py").read_text(encoding="utf-8")
