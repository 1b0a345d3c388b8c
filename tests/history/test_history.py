"""``stepscope history``: the order of runs, the changes, text and page."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gate_traces import run
from stepscope.analysis.compare.change_points import change_points
from stepscope.cli import main
from stepscope.history.changes import history_of
from stepscope.history.page import history_html
from stepscope.history.runs import in_order, run_of

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

HOUR_NS = 3600 * 10**9
BEGAN_NS = 1_790_000_000 * 10**9


def committed(trace: Trace, number: int, commit: str, branch: str = "main") -> Trace:
    """Return a trace that was recorded some hours after the first, of a commit."""
    expected = {"commit": commit, "branch": branch, "changed": "no"}
    wall_ns = BEGAN_NS + number * HOUR_NS
    return replace(trace, info=replace(trace.info, wall_offset_ns=wall_ns, revision=expected))


def slower_from(count: int, first: int) -> list[Trace]:
    """Return runs of as many commits; from one of them on, steps take longer and do more."""
    return [
        committed(
            run(seed=i, steps=30, slow=100 * (i >= first), ops=5 + (i >= first)), i, f"{i:040x}"
        )
        for i in range(count)
    ]


class TestChangePoints:
    def test_noise_has_none(self) -> None:
        generator = np.random.default_rng(3)
        alarms = [bool(change_points(generator.normal(100, 3, 24), seed=i)) for i in range(40)]
        assert sum(alarms) <= 4

    def test_each_change_is_found_where_it_is(self) -> None:
        series = [100, 101, 100, 99, 100, 110, 111, 110, 109, 110, 95, 94, 95, 96, 95, 95]
        result = change_points(series)
        assert [item.at for item in result] == [5, 10]
        assert result[0].change == pytest.approx(0.10)

    def test_one_odd_value_is_no_change(self) -> None:
        assert change_points([100, 101, 99, 100, 180, 100, 101, 99, 100, 100, 101, 99]) == []

    def test_a_small_change_is_of_no_interest(self) -> None:
        assert change_points([1000.0] * 8 + [1004.0] * 8) == []
        assert len(change_points([1000.0] * 8 + [1004.0] * 8, least_effect=0.001)) == 1

    @pytest.mark.parametrize("series", [[], [5.0], [5.0] * 30, [0.0] * 10])
    def test_what_says_nothing(self, series: list[float]) -> None:
        assert change_points(series) == []


class TestHistory:
    def test_the_change_and_its_commits(self) -> None:
        traces = slower_from(12, 7)
        runs, order = in_order([run_of(trace, f"{i}") for i, trace in enumerate(traces)], None)
        history = history_of("train.py", runs, order)
        by_name = {item.metric.name: item for item in history.changes}
        assert set(by_name) == {"step_time", "all_ops"}
        change = by_name["step_time"]
        assert (change.last.name, change.first.name) == ("6", "7")
        assert change.is_worse
        assert change.change == pytest.approx(0.10, abs=0.02)
        assert "between 0000000000 and 0000000000" in change.words

    def test_an_unchanged_program_has_no_change(self) -> None:
        traces = slower_from(12, 99)
        history = history_of("", [run_of(trace, "") for trace in traces], "")
        assert history.changes == ()

    def test_names_are_hostile(self) -> None:
        nasty = '</script><script>alert("x")</script>\n\udcff'
        runs = [run_of(committed(run(), i, "a" * 40, nasty), nasty) for i in range(3)]
        page = history_html([history_of(nasty, runs, "")], nasty)
        page.encode()
        assert "<script" not in page

    @pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
    def test_runs_of_old_commits_are_put_in_their_place(self, tmp_path: Path) -> None:
        def git(*words: str) -> str:
            who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
            done = subprocess.run(
                ["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True
            )
            return done.stdout.strip()

        git("init")
        commits = []
        for number in range(3):
            git("commit", "--allow-empty", "-m", str(number))
            commits.append(git("rev-parse", "HEAD"))
        made = [run_of(committed(run(), 2 - i, commits[i]), str(i)) for i in range(3)]
        runs, order = in_order(made, tmp_path)
        assert [item.name for item in runs] == ["0", "1", "2"]
        assert order == "in the order of commits"
        runs, order = in_order(made, None)
        assert [item.name for item in runs] == ["2", "1", "0"]


class TestVerb:
    def test_text_json_and_page(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "runs").mkdir()
        for i, trace in enumerate(slower_from(10, 5)):
            trace.save(tmp_path / "runs" / f"{i}.stepscope")
        (tmp_path / "runs" / "broken.stepscope").mkdir()
        assert main(["history", "runs"]) == 0
        output = capsys.readouterr()
        assert "10 runs of 10 commits, 2 changes." in output.out
        assert "worse   step time from 1.00 ms to 1.10 ms" in output.out
        page = (tmp_path / "stepscope-history.html").read_text()
        assert page.count("<circle") == 20
        assert page.count('class="cut worse"') == 2
        assert main(["history", "runs", "--json", "-o", "other.html"]) == 0
        parsed = json.loads(capsys.readouterr().out)
        assert [all_op["metric"] for all_op in parsed["programs"][0]["changes"]] == [
            "step_time",
            "all_ops",
        ]
        assert main(["history", "runs", "--branch", "other"]) == 2
        assert "no run of the branch other" in capsys.readouterr().err
        assert main(["history", "nowhere"]) == 2
        assert main(["history", "runs", "-o", "page.txt"]) == 2
