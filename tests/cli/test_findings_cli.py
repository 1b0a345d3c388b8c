"""What `stepscope summary` and `stepscope run` tell of problems."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from command_line import EXAMPLES, script, stepscope_run
from made_trace import Call, trace_of_calls
from stepscope.cli import main
from stepscope.trace.model import save_trace as save

if TYPE_CHECKING:
    from pathlib import Path

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
RANGE = "user_annotation"


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """Return a trace with two problems: slow loading, and garbage that is collected."""
    calls = []
    for step in range(6):
        start, length = step * 1000, 1000
        calls += [
            Call(f"ProfilerStep#{step}", start, start + length, RANGE),
            Call(LOADER, start, start + length // 2, RANGE),
            Call("aten::mm", start + length // 2, start + length - 50),
            Call("Python garbage collection 2", start + length - 50, start + length),
        ]
    path = tmp_path / "slow.stepscope"
    save(trace_of_calls(calls, end_ns=10_000_000), path)
    return path


def output_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_the_summary_tells_title_numbers_and_fix(
    slow: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", str(slow)]) == 0
    lines = output_lines(capsys)
    at = lines.index("1. Data loading takes 50% of a step (high)")
    assert lines[at + 1].startswith("An average step takes 1.00 ms; for 500 µs of that the")
    assert lines[at + 2].startswith("fix: Load in the background")
    assert any(
        line.startswith("2. Python's garbage collector takes 5.0% of the steps") for line in lines
    )


@pytest.mark.parametrize(("limit", "shown"), [("1", 1), ("all", 2), ("none", 0)])
def test_how_many_are_told_is_for_the_user_to_say(
    slow: Path, capsys: pytest.CaptureFixture[str], limit: str, shown: int
) -> None:
    assert main(["summary", str(slow), "--findings", limit]) == 0
    lines = output_lines(capsys)
    assert sum(line.startswith("fix: ") for line in lines) == shown
    assert ("1 finding more: --findings all" in lines) == (limit == "1")


def test_a_limit_that_is_none_is_refused(slow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(slow), "--findings", "many"]) == 2
    assert "'many' is not a finding count; use 5, all or none" in capsys.readouterr().err


def test_findings_can_be_saved(slow: Path, tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    assert main(["summary", str(slow), "--save-findings", str(path)]) == 0
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert [item["id"] for item in saved] == ["data-loading", "garbage-collection"]
    assert saved[0]["severity"] == "high"
    assert saved[0]["evidence"]["q"] == LOADER


def test_a_file_that_cannot_be_written_is_told_in_a_line(
    slow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "no" / "folder.json"
    assert main(["summary", str(slow), "--save-findings", str(path)]) == 2
    assert f"{path}: No such file or directory" in capsys.readouterr().err


def test_where_nothing_is_wrong_the_summary_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fine.stepscope"
    save(trace_of_calls([Call("aten::mm", 0, 10)], end_ns=10_000), path)
    assert main(["summary", str(path)]) == 0
    assert "findings  no known problem found" in output_lines(capsys)


def test_a_run_tells_them_too(tmp_path: Path) -> None:
    script(tmp_path, "print('hello')")
    done = stepscope_run("-o", "run", "program.py", cwd=tmp_path)
    assert "findings  no known problem found" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "title"),
    [
        ("slow_dataloader.py", "1. Data loading takes "),
        ("host_bound.py", "1. The optimizer runs 864 small operators per step"),
    ],
)
def test_the_examples_of_the_guide_have_the_problem_that_it_names(
    tmp_path: Path, example: str, title: str
) -> None:
    pytest.importorskip("torch")
    # One thread: on a busy machine several would mostly wait for each other.
    done = stepscope_run(str(EXAMPLES / example), cwd=tmp_path, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    if title.startswith("1. The optimizer") and "device 0" in done.stderr:
        pytest.skip("with a GPU it has other problems")
    assert title in done.stderr
