"""Two traces compared: rows add up to the change, and what was only renamed is no change."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import stepscope
from gate_traces import run
from made_steps import BASE, STEP, steps
from made_trace import Call, Sample, trace_of_calls
from sample_traces import ONE_RANK
from stepscope.analysis.compare.diff import diff_traces
from stepscope.analysis.compare.statistics import Verdict
from stepscope.errors import StepscopeError
from stepscope.text.diff import diff_markdown, diff_text

if TYPE_CHECKING:
    from stepscope.analysis.compare.model import Diff
    from stepscope.trace.model import Trace


def assert_adds_up(difference: Diff) -> None:
    """Every table has every ns of both sides."""
    for table in difference.tables:
        assert table.before_ns == difference.before_ns, table.by
        assert table.after_ns == difference.after_ns, table.by
        assert table.difference_ns == difference.difference_ns, table.by


def test_rows_add_up_and_the_guilty_one_is_first() -> None:
    slower = [*BASE[:2], ("", "aten::add", 250)]
    difference = diff_traces([steps(BASE)], [steps(slower, longer=200)])
    assert_adds_up(difference)
    assert difference.difference_ns == 200_000
    assert difference.rows[0].what == "aten::add"
    assert difference.rows[0].difference_ns == 200_000
    assert difference.step.verdict is Verdict.SLOWER
    assert "Most of it is aten::add: +200 µs a step" in difference.verdict
    assert difference.table("phase").rows
    with pytest.raises(KeyError, match="this comparison has work, phase"):
        difference.table("colour")


def test_a_renamed_module_is_no_change() -> None:
    renamed = [(module.replace("net", "encoder"), *rest) for module, *rest in BASE]
    difference = diff_traces([steps(BASE)], [steps(renamed)])
    assert_adds_up(difference)
    assert all(row.difference_ns == 0 for table in difference.tables for row in table.rows)
    assert not any(row.status in ("new", "gone") for row in difference.rows)
    was = {row.module: row.was for row in difference.rows if row.status == "renamed"}
    assert was["encoder.first"] == "aten::mm in net.first"


def test_work_in_another_order_is_no_change() -> None:
    difference = diff_traces([steps(BASE)], [steps(BASE[::-1])])
    assert all(row.difference_ns == 0 and row.status == "same" for row in difference.rows)


def test_work_that_moved_to_another_module_is_one_row() -> None:
    relu = ("net.first", "aten::relu", 40)
    moved = ("net.second", "aten::relu", 40)
    difference = diff_traces([steps([*BASE, relu])], [steps([*BASE, moved])])
    row = next(row for row in difference.rows if row.name == "aten::relu")
    assert (row.status, row.difference_ns) == ("moved", 0)


def test_a_line_that_moved_down_its_file_is_no_change() -> None:
    difference = diff_traces([steps(BASE)], [steps(BASE, line=19)])
    assert_adds_up(difference)
    lines = difference.table("line").rows
    assert [(row.status, row.was) for row in lines] == [("moved", "train.py:7 main")]


def test_calls_in_an_edited_file_with_renamed_classes_are_no_change() -> None:
    """As torch.profiler writes them: a function by its first line, a module by its class."""

    def edited(shift: int, net: str) -> Trace:
        calls = []
        for step in range(10):
            at = step * 1_000
            calls += [
                Call(f"ProfilerStep#{step}", at, at + 990, "user_annotation"),
                Call(f"nn.Module: {net}_0", at + 10, at + 900, "python_function"),
                Call(f"net.py({20 + shift}): forward", at + 20, at + 890, "python_function"),
                Call(f"net.py({70 + shift}): forward", at + 30, at + 400, "python_function"),
                Call("aten::mm", at + 50, at + 300),
                Call("aten::add", at + 500, at + 800),
            ]
        return trace_of_calls(calls)

    difference = diff_traces([edited(0, "Net")], [edited(7, "Encoder")])
    assert_adds_up(difference)
    assert all(row.difference_ns == 0 for table in difference.tables for row in table.rows)
    assert {row.status for row in difference.rows} == {"same", "moved", "renamed"}


def test_the_lines_of_a_loop_are_one_row_of_the_work() -> None:
    def loop(took: int) -> Trace:
        calls, samples = [], []
        for i in range(12):
            start = i * 1000
            calls.append(Call(f"ProfilerStep#{i}", start, start + 500 + took, "user_annotation"))
            calls.append(Call("aten::mm", start + 10, start + 400))
            for at in range(start + 400, start + 500 + took, 20):
                frame = f"train.py({7 + at // 20 % 2}): count"
                samples.append(Sample(at, at + 20, (frame,)))
        return trace_of_calls(calls, samples=samples)

    difference = diff_traces([loop(100)], [loop(200)])
    assert_adds_up(difference)
    assert [row.what for row in difference.rows if row.difference_ns] == ["train.py count"]
    lines = {row.what for row in difference.table("line").rows}
    assert {"train.py:7 count", "train.py:8 count"} <= lines


def test_new_and_gone_work_is_called_so() -> None:
    extra = [*BASE, ("", "aten::erf", 100)]
    difference = diff_traces([steps(BASE)], [steps(extra)])
    assert difference.rows[0].what == "aten::erf"
    assert difference.rows[0].status == "new"
    back = diff_traces([steps(extra)], [steps(BASE)])
    assert (back.rows[0].what, back.rows[0].status) == ("aten::erf", "gone")
    assert [(q.what, q.before, q.after) for q in difference.counts] == [("operators", 3, 4)]


def test_runs_of_a_busy_machine_still_show_an_extra_operator() -> None:
    """Steps of one run take twice as long, whatever is in them; an operator more is certain."""
    slow = [(module, name, took * 2) for module, name, took in BASE]
    before = [steps(BASE), steps(slow, longer=STEP), steps(BASE), steps(BASE), steps(BASE)]
    extra = ("", "aten::erf", 60)
    after = [steps([*BASE, extra], longer=60) for _ in range(4)]
    after.append(steps([*slow, ("", "aten::erf", 120)], longer=STEP + 120))
    difference = diff_traces(before, after)
    assert_adds_up(difference)
    assert difference.step.verdict is Verdict.SLOWER
    assert difference.step.low <= 0.06 <= difference.step.high + 0.01
    assert not diff_traces(before, before).step.is_real


def test_without_steps_the_whole_trace_is_one() -> None:
    calls = [Call("aten::mm", 0, 300), Call("aten::add", 400, 450)]
    difference = diff_traces([trace_of_calls(calls)], [trace_of_calls(calls[:1])])
    assert_adds_up(difference)
    assert difference.unit == "run"
    assert difference.step.verdict is Verdict.UNKNOWN
    assert any("no steps" in remark for remark in difference.step.remarks)


def test_it_tells_itself_in_every_form(tmp_path) -> None:
    paths = [tmp_path / "a.stepscope", tmp_path / "b.stepscope"]
    steps(BASE).save(paths[0])
    steps([*BASE, ("", "evil|`<script>", 90)]).save(paths[1])
    result = stepscope.diff(paths[0], str(paths[1]))
    parsed = json.loads(json.dumps(result.to_json()))
    assert parsed["difference_ns"] == sum(
        row["difference_ns"] for row in parsed["tables"][0]["rows"]
    )
    text, markdown = diff_text(result), diff_markdown(result)
    assert "with one run per side, a change" in text
    assert "| **all** |" in markdown
    assert "\\|'<script>" in markdown
    assert "<script>" not in result._repr_html_()


def test_mistakes_are_named() -> None:
    with pytest.raises(TypeError, match="before must be a trace, a path or several"):
        stepscope.diff(3, "b")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="after has no trace"):
        stepscope.diff(steps(BASE), [])
    with pytest.raises(StepscopeError, match="nowhere"):
        stepscope.diff(steps(BASE), "nowhere.json")


def test_real_traces_add_up() -> None:
    traces = [stepscope.read_trace(path) for path in ONE_RANK]
    for one, other in pairwise(traces):
        assert_adds_up(diff_traces([one], [other], findings=False))


def test_names_of_two_frameworks_meet_once() -> None:
    """Paddle has several events for one operator: its time before is that of one of them."""
    paddle = [(module, name, took) for module, name, took in BASE[:2]]
    paddle += [("", "add dygraph", 20), ("", "add infer_meta", 5), ("", "add_", 9)]
    difference = diff_traces([steps(BASE)], [steps(paddle)])
    assert_adds_up(difference)
    assert_adds_up(diff_traces([steps(paddle)], [steps(BASE)]))
    was = [row.was for row in difference.table("operator").rows if row.was]
    assert was == ["aten::add"]


def test_an_operator_in_the_middle_of_a_gap_is_all_that_changed() -> None:
    """It splits the gap in two, of which neither tells how fast the machine was."""
    before = [run(seed=seed) for seed in range(5)]
    after = [run(seed=seed + 10, slow=100) for seed in range(5)]
    difference = diff_traces(before, after)
    assert difference.step.verdict is Verdict.SLOWER
    assert difference.step.change == pytest.approx(0.1, abs=0.01)
    assert difference.rows[0].what == "aten::sort"
