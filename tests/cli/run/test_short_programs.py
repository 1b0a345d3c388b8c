"""A program that ends before anything is recorded: a short answer, and a trace all the same."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from command_line import python, saved_trace, script, stepscope_run
from stepscope import read_trace

if TYPE_CHECKING:
    from pathlib import Path

# It ends at once, unless the machine is so busy that it takes longer than a short program.
ENDS_AT_ONCE = "raise SystemExit"


def test_the_recording_stays_a_stream_that_everything_reads(tmp_path: Path) -> None:
    script(tmp_path, ENDS_AT_ONCE)
    done = stepscope_run("program.py", cwd=tmp_path)
    assert done.returncode == 0
    assert "program.py: Nothing that takes time was recorded." in done.stderr
    (path,) = tmp_path.glob("*.stepscope")
    assert f"  saved     {path.name}" in done.stderr
    assert list(saved_trace(tmp_path).names()) == ["program.py"]
    assert list(read_trace(path).names()) == ["program.py"]
    summary = python("-m", "stepscope", "summary", path.name, cwd=tmp_path)
    assert "program.py" in summary.stdout
    assert "never sealed" not in summary.stderr


def test_it_can_be_sent_to_somebody_else(tmp_path: Path) -> None:
    script(tmp_path, "import time; time.sleep(0.01)")
    stepscope_run("-q", "program.py", cwd=tmp_path)
    (path,) = tmp_path.glob("*.stepscope")
    shutil.copytree(path, tmp_path / "copy.stepscope")
    assert list(read_trace(tmp_path / "copy.stepscope").names()) == ["program.py"]


@pytest.mark.parametrize(
    "options", [("-o", "run.stepscope"), ("--json", "run.json"), ("--report",)]
)
def test_what_was_asked_for_is_made(tmp_path: Path, options: tuple[str, ...]) -> None:
    script(tmp_path, ENDS_AT_ONCE)
    done = stepscope_run(*options, "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.stepscope")
    assert (path / "meta.json").exists()
    assert all((tmp_path / word).exists() for word in options[1:])


def test_how_it_ended_is_told(tmp_path: Path) -> None:
    script(tmp_path, "raise ValueError('no')")
    done = stepscope_run("program.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "  ended     by ValueError: no" in done.stderr
