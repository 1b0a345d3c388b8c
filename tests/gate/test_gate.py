"""``stepscope gate``: rules, baselines, what is judged, and how that is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gate_traces import run
from stepscope.cli import main
from stepscope.errors import StepscopeError
from stepscope.gate.baselines import keep, stored
from stepscope.gate.config import read_config
from stepscope.gate.judge import judge
from stepscope.gate.model import Outcome
from stepscope.gate.rules import Allowance, Rules, rules_of
from stepscope.gate.show import judgement_markdown, judgement_text

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.gate.model import Check, Judgement


def checks(judgement: Judgement) -> dict[str, Check]:
    return {check.rule: check for check in judgement.checks}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, and nothing that a service says."""
    for word in ("GITHUB_BASE_REF", "GITHUB_STEP_SUMMARY", "GITHUB_REF_NAME", "GITHUB_HEAD_REF"):
        monkeypatch.delenv(word, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "refs" / "heads" / "topic").write_text("1" * 40)
    return tmp_path


class TestJudgement:
    def test_the_same_program_breaks_no_rule(self) -> None:
        before = [run(seed=seed) for seed in range(3)]
        after = [run(seed=seed + 10) for seed in range(3)]
        judgement = judge(before, after, Rules())
        assert judgement.ok
        assert {item.outcome for item in judgement.checks} == {Outcome.PASSED}

    def test_one_operator_more_is_one_too_many(self) -> None:
        judgement = judge([run()], [run(ops=6, seed=1)], Rules())
        assert [all_op.rule for all_op in judgement.failed] == ["all_ops"]
        assert judgement.failed[0].guilty.startswith("aten::add: 6 a step, 5 before")
        assert judge([run()], [run(ops=6)], rules_of({"ops": 1})).ok
        assert judge([run()], [run(ops=6)], rules_of({"ops": "20%"})).ok
        assert not judge([run()], [run(ops=6)], rules_of({"ops": "19%"})).ok

    def test_runs_of_other_lengths_are_compared_by_step(self) -> None:
        assert judge([run(steps=40)], [run(steps=25)], rules_of({"ops": 0})).ok
        assert not judge([run(steps=40)], [run(steps=25, ops=6)], rules_of({"ops": 0})).ok

    def test_a_baseline_that_varies_allows_what_it_had(self) -> None:
        before = [run(ops=5), run(ops=7)]
        assert judge(before, [run(ops=7)], rules_of({"ops": 0})).ok
        assert not judge(before, [run(ops=8)], rules_of({"ops": 0})).ok

    def test_a_synchronisation_is_named_with_its_line(self) -> None:
        judgement = judge([run()], [run(reads=2)], rules_of({"sync": 0}))
        check = checks(judgement)["synchronisations"]
        assert check.outcome is Outcome.FAILED
        assert "aten::_local_scalar_dense at train (train.py:11): 2 a step" in check.guilty

    def test_a_slower_step_is_found_with_its_operator(self) -> None:
        before = [run(seed=seed) for seed in range(5)]
        after = [run(seed=seed + 10, slow=100) for seed in range(5)]
        judgement = judge(before, after, rules_of({"step_time": "5%"}))
        check = checks(judgement)["step_time"]
        assert check.outcome is Outcome.FAILED
        assert check.change.startswith(("+9.9%", "+10.0%", "+10.1%"))
        assert check.guilty.startswith("aten::sort (new): +100 µs a step, 1 calls and 0 before")
        assert judge(before, after, rules_of({"step_time": "15%"})).ok
        assert checks(judge(after, before, Rules()))["step_time"].outcome is Outcome.BETTER

    def test_the_time_of_an_operator(self) -> None:
        before = [run(seed=seed, slow=100) for seed in range(5)]
        after = [run(seed=seed + 10, slow=200) for seed in range(5)]
        rules = rules_of({"operators": {"aten::sort": {"time": "20%", "calls": 0}}})
        result = checks(judge(before, after, rules))
        assert result["aten::sort"].outcome is Outcome.FAILED
        assert result["aten::sort calls"].outcome is Outcome.PASSED

    def test_limits_need_no_baseline(self) -> None:
        rules = rules_of({"max": {"ops": 4, "synchronisations": 0, "step_time": "900us"}})
        assert not rules.need_baseline
        judgement = judge([], [run(reads=1)], rules)
        assert [item.rule for item in judgement.failed] == [
            "max ops", "max synchronisations", "max step_time",
        ]  # fmt: skip
        assert judge([], [run()], rules_of({"max": {"ops": 5, "step_time": "2ms"}})).ok

    def test_what_was_not_recorded_is_said_where_it_was_asked_for(self) -> None:
        judgement = judge([run()], [run()], rules_of({"peak_memory": 0}))
        assert checks(judgement)["peak_memory"].outcome is Outcome.UNKNOWN
        assert "--memory" in judgement_text(judgement)
        assert "peak_memory" not in checks(judge([run()], [run()], Rules()))

    def test_hostile_names_break_neither_markdown_nor_a_line(self) -> None:
        rules = rules_of({"operators": {"a|b\n<script>`x`": {"calls": 0}}})
        markdown = judgement_markdown(judge([run()], [run()], rules))
        assert "<script>" not in markdown.replace("\\<script\\>", "")
        assert len(markdown.splitlines()) == 6


class TestRules:
    @pytest.mark.parametrize(
        ("value", "allowed"),
        [
            (0, Allowance()),
            ("5%", Allowance(0.05)),
            ("10MB", Allowance(amount=10 * 2**20)),
            (True, Allowance(0.01)),
        ],
    )
    def test_an_allowance(self, value: Any, allowed: Allowance) -> None:
        assert rules_of({"peak_memory": value}).grow == {"peak_memory": allowed}

    @pytest.mark.parametrize(
        ("settings", "says"),
        [
            ({"step_tim": "5%"}, "did you mean 'step_time'"),
            ({"colour": 1}, "There are step_time, ops, all_ops"),
            ({"ops": "many"}, "ops='many'"),
            ({"ops": -1}, "ops=-1"),
            ({"max": {"peak_memory": "much"}}, 'such as "200MB"'),
            ({"max": 3}, "give a table"),
            ({"operators": {"aten::mm": {"size": 1}}}, "give time or calls"),
            ({"step_time": float("nan")}, "step_time=nan"),
        ],
    )
    def test_a_wrong_rule_is_named(self, settings: dict[str, Any], says: str) -> None:
        with pytest.raises(StepscopeError, match=says):
            rules_of(settings)

    def test_files(self, here: Path) -> None:
        (here / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
        assert read_config().rules == Rules()
        (here / "pyproject.toml").write_text(
            '[tool.stepscope.gate]\nbaseline = "perf"\nkernels = 0\n'
            '[tool.stepscope.gate.max]\npeak_memory = "1GB"\n'
        )
        (here / "deep").mkdir()
        config = read_config(start=here / "deep")
        assert config.baseline == here / "perf"
        assert config.rules.grow == {"kernels": Allowance()}
        assert config.rules.most == {"peak_memory": 2**30}
        (here / "stepscope.toml").write_text("[gate]\nops = 3\n")
        assert read_config().rules.grow == {"ops": Allowance(amount=3)}
        (here / "stepscope.toml").write_text("[gate\n")
        with pytest.raises(StepscopeError, match=r"stepscope\.toml"):
            read_config()


class TestBaselines:
    def test_a_branch_keeps_its_own(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = here / "store"
        with pytest.raises(StepscopeError, match="--store"):
            stored(store, root=here)
        keep(store, "main", [run()])
        assert stored(store, root=here) == store / "main"
        first = keep(store, "topic", [run(), run()])
        assert stored(store, root=here) == first
        assert len(list(keep(store, "topic", [run()]).iterdir())) == 1
        monkeypatch.setenv("GITHUB_BASE_REF", "main")
        assert stored(store, root=here) == store / "main"
        assert keep(store, "feature/../../x", [run()]).parent == store
        assert sorted(path.name for path in store.iterdir() if path.name.startswith(".")) == []


class TestVerb:
    def saved(self, here: Path, name: str, **options: int) -> str:
        run(**options).save(here / f"{name}.stepscope")
        return f"{name}.stepscope"

    def test_from_the_baseline_to_the_verdict(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        good, bad = self.saved(here, "good"), self.saved(here, "bad", reads=1)
        assert main(["gate", good]) == 2
        assert "--store" in capsys.readouterr().err
        assert main(["gate", good, "--missing-ok"]) == 0
        assert main(["gate", "--store", good]) == 0
        assert (here / ".stepscope" / "baselines" / "topic" / "1.stepscope").is_dir()
        assert main(["gate", good]) == 0
        assert not (here / "stepscope-gate.html").exists()
        capsys.readouterr()
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "summary.md"))
        assert main(["gate", bad]) == 1
        output = capsys.readouterr().out
        assert "FAILED" in output
        assert "aten::_local_scalar_dense at train (train.py:11)" in output
        page = here / "stepscope-gate.html"
        assert page.as_uri() in output
        assert page.is_file()
        assert "❌" in (here / "summary.md").read_text()
        assert main(["gate", bad, "--baseline", good, "--json", "--rule", "sync=1"]) == 0
        assert json.loads(capsys.readouterr().out)["ok"] is True
        assert main(["gate", bad, "--baseline", good, "--rule", "max.sync=0", "--markdown"]) == 1
        assert "| synchronisations a step |" in capsys.readouterr().out

    def test_folders_hold_several_runs(self, here: Path, capsys: Any) -> None:
        (here / "before").mkdir()
        (here / "after").mkdir()
        for seed in range(3):
            run(seed=seed).save(here / "before" / f"{seed}.stepscope")
            run(seed=seed + 10).save(here / "after" / f"{seed}.stepscope")
        assert main(["gate", "after", "--baseline", "before"]) == 0
        (here / "empty").mkdir()
        assert main(["gate", "after", "--baseline", "empty"]) == 2
        assert "no trace in this folder" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["nothing.stepscope"], "nothing.stepscope"),
            (["--rule", "fast=1"], "no rule 'fast'"),
            (["--rule", "step_time"], "NAME=VALUE"),
            (["--config", "no.toml"], "no.toml"),
            (["--baseline", "no.stepscope"], "no.stepscope"),
        ],
    )
    def test_wrong_uses_end_with_2(
        self, here: Path, capsys: Any, words: list[str], says: str
    ) -> None:
        good = self.saved(here, "good")
        assert main(["gate", good, *words]) == 2
        assert says in capsys.readouterr().err
