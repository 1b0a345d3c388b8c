"""What users pass by mistake: each error names the value and the way out, and comes at once."""

from __future__ import annotations

import pickle
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import stepscope
from stepscope import Keep, MemoryLimit, ProfilerActivity, profile, record_function, schedule
from stepscope import paddle as dialect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEDULED = {"wait": 1, "warmup": 1, "active": 3}


@pytest.fixture(scope="module")
def prof() -> profile:
    with profile() as recorded:
        for _ in range(3):
            with record_function("a<b"):
                pass
    return recorded


def profiler(**options: Any) -> dialect.Profiler:
    return dialect.Profiler(on_trace_ready=lambda _: None, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: profile(activities=ProfilerActivity.CPU), ["ProfilerActivity.CPU", "give a list"]),
        (lambda: profile(activities="CPU"), ["activities='CPU'", "give a list"]),
        (lambda: profile(activities=["cpu"]), ["'cpu' is not a ProfilerActivity", "CPU, XPU"]),
        (lambda: profile(schedule=5), ["schedule=5", "schedule(wait=1"]),
        (lambda: profile(schedule=(1, 1, 3)), ["schedule=(1, 1, 3)", "schedule(wait=1"]),
        (lambda: profile(schedule=schedule), ["schedule=schedule: call it"]),
        (lambda: profile(schedule=lambda: 1), ["too many positional", "function of the step"]),
        (lambda: profile(on_trace_ready="x"), ["on_trace_ready='x'", "tensorboard_trace_handler("]),
        (lambda: profile(on_trace_ready=stepscope.html_handler), ["html_handler: call it"]),
        (
            lambda: profile(on_trace_ready=stepscope.tensorboard_trace_handler),
            ["tensorboard_trace_handler: call it"],
        ),
        (lambda: profile(record_shapes="no"), ["record_shapes='no'", "True or False"]),
        (lambda: profile(profile_memory="False"), ["profile_memory='False'", "True or False"]),
        (lambda: profile(with_modules=["Net"]), ["with_modules=['Net']", "True or False"]),
        (lambda: profile(with_stack="operators"), ["with_stack='operators'", "StackMode.OPER"]),
        (lambda: profile(memory_limit=1000), ["memory_limit=1000", "MemoryLimit(512 << 20)"]),
        (lambda: profile(torch_collector="x"), ["torch_collector='x'", "TorchCollector.BRIDGE"]),
        (lambda: profile(experimental_config=5), ["experimental_config=5", "ExperimentalConfig"]),
        (lambda: profile(execution_trace_observer="x"), ["observer='x'", "has no start()"]),
        (lambda: profile(custom_trace_id_callback="x"), ["custom_trace_id_callback='x'"]),
        (lambda: profile(post_processing_timeout_s="x"), ["post_processing_timeout_s='x'"]),
        (lambda: profile(record_shape=True), ["'record_shape'", "did you mean 'record_shapes'"]),
        (lambda: MemoryLimit("2G"), ["bytes='2G'", "512 << 20"]),
        (lambda: MemoryLimit(1 << 20, "newest"), ["keep='newest'", f"Keep.{Keep.NEWEST.name}"]),
        (lambda: schedule(wait=1, warmup=0.5, active=1), ["warmup=0.5", "whole number"]),
        (lambda: schedule(wait="1", warmup=1, active=1), ["wait='1'", "whole number"]),
        (lambda: schedule(wait=1, warmup=1, active=None), ["active=None", "whole number"]),
        (lambda: stepscope.read_trace(5), ["path=5", "name of a file"]),
        (lambda: stepscope.Trace.load(None), ["path=None", "name of a file"]),
        (lambda: stepscope.tensorboard_trace_handler(5), ["dir_name=5", "name of a folder"]),
        (lambda: stepscope.html_handler("x", worker_name=5), ["worker_name=5", "give a str"]),
        (lambda: profiler(targets=dialect.ProfilerTarget.CPU), ["ProfilerTarget.CPU", "a list"]),
        (lambda: profiler(scheduler=5), ["scheduler=5", "a pair of steps"]),
        (lambda: profiler(scheduler=dialect.make_scheduler), ["make_scheduler: call it"]),
        (lambda: profiler(timer_only="no"), ["timer_only='no'", "True or False"]),
        (
            lambda: dialect.Profiler(on_trace_ready=dialect.export_chrome_tracing),
            ["export_chrome_tracing: call it"],
        ),
        (lambda: dialect.make_scheduler(closed=0.5, ready=1, record=1), ["closed=0.5", "whole"]),
        (lambda: dialect.export_chrome_tracing(5), ["dir_name=5", "name of a folder"]),
        (lambda: profiler().step("x"), ["num_samples='x'", "number of samples"]),
        (lambda: profiler().step_info(5), ["unit=5", "give a str"]),
        (lambda: pickle.dumps(profile()), ["cannot be copied or pickled", "prof.trace"]),
        (lambda: pickle.dumps(profiler()), ["cannot be copied or pickled", ".trace"]),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named_with_what_to_give(
    call: Callable[[], Any], message: list[str]
) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    text = str(raised.value)
    assert [word for word in message if word not in text] == [], text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.key_averages().table(row_limit="10"), ["row_limit='10'", "-1 for all"]),
        (lambda p: p.key_averages().table(row_limit=2.5), ["row_limit=2.5", "-1 for all"]),
        (lambda p: p.key_averages().table(sort_by=5), ["sort_by=5", "give a str"]),
        (lambda p: p.key_averages().table(header=5), ["header=5", "give a str"]),
        (lambda p: p.key_averages().table(max_name_column_width="x"), ["name_column_width='x'"]),
        (lambda p: p.key_averages().table(max_name_column_width=-5), ["width=-5", "or None"]),
        (lambda p: p.key_averages(group_by_stack_n="3"), ["group_by_stack_n='3'", "whole number"]),
        (lambda p: p.key_averages(group_by_input_shape="yes"), ["group_by_input_shape='yes'"]),
        (lambda p: p.events()["x"], ["index='x'", "whole number"]),
        (lambda p: p.module_table("x"), ["depth='x'", "whole number"]),
        (lambda p: p.export_chrome_trace(""), ["path=''", "name of a file"]),
        (lambda p: p.export_chrome_trace(None), ["path=None", "name of a file"]),
        (lambda p: p.export_chrome_trace("a\0b"), ["path='a\\x00b'", "null character"]),
        (lambda p: p.export_stacks(""), ["path=''", "name of a file"]),
        (lambda p: p.export_memory_timeline("x.html", 5), ["device=5", "give a str"]),
        (lambda p: p.export_html(5), ["path=5", "name of a file"]),
        (lambda p: p.trace.save(""), ["path=''", "name of a file"]),
        (lambda p: stepscope.export_trace(p, "x.json"), ["give its .trace"]),
        (lambda p: stepscope.export_trace("x.json", p.trace), ["path=<Trace of 3 events"]),
        (lambda p: p.add_metadata(5, "x"), ["add_metadata(5, ...)", "give a str"]),
        (lambda p: p.add_metadata("x", 5), ["add_metadata('x', 5)", "add_metadata_json"]),
        (lambda p: p.add_metadata_json("x", {}), ["add_metadata_json('x', {})", "json.dumps"]),
        (lambda p: p.toggle_collection_dynamic(True, ProfilerActivity.CPU), ["give a list"]),
    ],
)  # fmt: skip
def test_a_wrong_argument_of_results_is_named(
    prof: profile, call: Callable[[profile], Any], message: list[str]
) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        call(prof)
    text = str(raised.value)
    assert [word for word in message if word not in text] == [], text


@pytest.mark.parametrize("calls", [0, 1])
def test_a_schedule_says_how_many_steps_came_and_how_many_it_needs(calls: int) -> None:
    with (
        pytest.warns(UserWarning, match=rf"called {calls} times?, and the schedule needs 2 calls"),
        profile(schedule=schedule(**SCHEDULED)) as prof,
    ):
        for _ in range(calls):
            prof.step()
    if calls == 0:  # in torch, a run that ends in its warm-up has an empty result
        with pytest.raises(AssertionError, match="step\\(\\) was called 0 times"):
            prof.key_averages()
        with pytest.raises(AssertionError, match="needs 2 calls before it records"):
            prof.export_chrome_trace("never.json")
    other = profiler(scheduler=dialect.make_scheduler(closed=1, ready=1, record=3))
    with pytest.warns(UserWarning, match="step\\(\\) was called 0 times"), other:
        pass
    with pytest.raises(RuntimeError, match="needs 2 calls before it records"):
        other.export("never.json")


def test_a_schedule_that_records_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with profile(schedule=schedule(**SCHEDULED)) as prof:
            for _ in range(10):
                prof.step()
    assert prof.trace.info.producer == "stepscope"


def test_a_request_that_the_trace_cannot_answer_says_so(prof: profile) -> None:
    with pytest.warns(UserWarning, match="no event has a stack.*with_stack=True"):
        prof.key_averages(group_by_stack_n=3)
    with pytest.warns(UserWarning, match="no event has shapes.*record_shapes=True"):
        prof.key_averages(group_by_input_shape=True)
    with pytest.warns(UserWarning, match="no call of a module.*with_modules=True"):
        prof.module_table()
    running = profile()
    running.start()
    try:
        with pytest.warns(UserWarning, match="key_averages\\(\\) is empty while .* recording"):
            running.key_averages()
    finally:
        running.stop()


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(AttributeError, match="did you mean 'profile'"):
        stepscope.Profile  # noqa: B018


def test_a_trace_is_one_short_paragraph(prof: profile) -> None:
    text = str(prof.trace)
    assert text.startswith("<Trace of 3 events in ")
    assert len(text) < 300
    assert "\n" not in text
    assert repr(prof.trace) == text


@pytest.mark.filterwarnings("ignore:module_table")
def test_notebooks_show_tables_findings_and_the_report(
    prof: profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    averages = prof.key_averages()._repr_html_()
    assert "<th" in averages
    assert "Self CPU %" in averages
    assert "a&lt;b" in averages
    assert "(outside of modules)" in prof.module_table()._repr_html_()
    assert "export_html(path)" in prof._repr_html_()
    monkeypatch.chdir(tmp_path)
    prof.export_html("my report.html")
    assert '<a href="my%20report.html"' in prof._repr_html_()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert f'<a href="{(tmp_path / "my report.html").as_uri()}"' in prof._repr_html_()
