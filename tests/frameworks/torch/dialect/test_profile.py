"""``profile`` keeps torch.profiler's contract."""

from __future__ import annotations

import json
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch

import stepscope
from recording import parents
from stepscope import ProfilerAction, ProfilerActivity, profile, record_function, schedule

if TYPE_CHECKING:
    from pathlib import Path

CPU = ProfilerActivity.CPU
NONE, WARMUP, RECORD, SAVE, _ = ProfilerAction
one = torch.ones(1)


def names(profiler: profile) -> list[str]:
    return [event.name for event in profiler.events()]


# ---- running


def test_start_and_stop() -> None:
    profiler = profile(activities=[CPU])
    profiler.start()
    one.neg()
    profiler.stop()
    one.abs()
    assert names(profiler) == ["aten::neg"]
    assert "aten::neg" in profiler.key_averages().table(sort_by="cpu_time_total", row_limit=10)


def test_a_with_block_with_a_range() -> None:
    with profile(activities=[CPU]) as profiler, record_function("inference"):
        one.neg()
    assert parents(profiler.trace) == [("inference", None), ("aten::neg", "inference")]


def test_torchs_tutorial_runs_unchanged(tmp_path: Path) -> None:
    seen = []

    def trace_handler(p: profile) -> None:
        seen.append(p.step_num)
        assert "aten::neg" in p.key_averages().table(sort_by="self_cpu_time_total", row_limit=-1)
        p.export_chrome_trace(str(tmp_path / f"trace_{p.step_num}.json"))

    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=1), on_trace_ready=trace_handler
    ) as p:
        for _ in range(8):
            one.neg()
            p.step()
    assert seen == [4]
    written = json.loads((tmp_path / "trace_4.json").read_text())
    events = [e["name"] for e in written["traceEvents"] if e.get("ph") == "X"]
    assert events.count("aten::neg") == 2
    assert {"ProfilerStep#2", "ProfilerStep#3"} <= set(events)


@pytest.mark.parametrize("repeat", [0, 1, 2])
def test_the_callback_runs_once_a_cycle_and_after_the_last_step(repeat: int) -> None:
    """Beside torch.profiler: the same calls, at the same step numbers."""
    calls: dict[str, list[int]] = {"ours": [], "torch": []}
    theirs = torch.profiler
    for who, module in (("ours", stepscope), ("torch", theirs)):
        with module.profile(
            activities=[module.ProfilerActivity.CPU],
            schedule=module.schedule(wait=1, warmup=1, active=2, repeat=repeat),
            on_trace_ready=lambda p, who=who: calls[who].append(p.step_num),
        ) as profiler:
            for _ in range(11):
                one.neg()
                profiler.step()
    assert calls["ours"] == calls["torch"] == {0: [4, 8, 11], 1: [4], 2: [4, 8]}[repeat]


@pytest.mark.parametrize("steps", range(6))
def test_leaving_in_each_state(steps: int) -> None:
    """NONE: no results. WARMUP: none delivered, 0 events. RECORD, RECORD_AND_SAVE: delivered."""
    delivered = []
    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda p: delivered.append(len(p.events())),
    ) as profiler:
        for _ in range(steps):
            one.neg()
            profiler.step()
    if profiler.current_action is NONE and steps == 0:
        with pytest.raises(AssertionError):
            profiler.events()
    elif profiler.current_action is WARMUP:
        assert delivered == []
        assert len(profiler.events()) == 0
    else:
        assert len(delivered) == 1
        assert len(profiler.events()) == delivered[0]


def test_step_without_a_schedule_only_counts() -> None:
    with profile() as profiler:
        for _ in range(3):
            one.neg()
            profiler.step()
    assert profiler.step_num == 3
    assert names(profiler) == ["aten::neg"] * 3


def test_what_it_tells_of_itself() -> None:
    steps = schedule(wait=1, warmup=1, active=1)
    profiler = profile(activities=[CPU], schedule=steps, on_trace_ready=print)
    assert profiler.schedule is steps
    assert profiler.on_trace_ready is print
    assert profiler.activities == {CPU}
    assert (profiler.step_num, profiler.current_action) == (0, NONE)
    profiler.step()
    assert (profiler.step_num, profiler.current_action) == (1, WARMUP)


def test_an_exception_inside_goes_on_after_the_trace_was_delivered() -> None:
    delivered: list[list[str]] = []
    with (
        pytest.raises(KeyError, match="mine"),
        profile(on_trace_ready=lambda p: delivered.append(names(p))) as profiler,
        record_function("outer"),
    ):
        one.neg()
        raise KeyError("mine")
    assert delivered == [["outer", "aten::neg"]]
    assert profiler.trace.slices.flags.tolist() == [0, 0]


@pytest.mark.parametrize("leaving", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_leaving_the_program_delivers_the_trace_too(leaving: BaseException) -> None:
    delivered = []
    with (
        pytest.raises(type(leaving)),
        profile(on_trace_ready=lambda p: delivered.append(names(p))),
    ):
        one.neg()
        raise leaving
    assert delivered == [["aten::neg"]]


def test_an_exception_in_the_callback_comes_out() -> None:
    def fail(_: profile) -> None:
        raise LookupError("in the callback")

    with pytest.raises(LookupError, match="in the callback"), profile(on_trace_ready=fail) as p:
        one.neg()
    assert names(p) == ["aten::neg"]


def test_an_exception_in_the_callback_at_a_step_comes_out() -> None:
    def fail(_: profile) -> None:
        raise LookupError("in the callback")

    with (
        pytest.raises(LookupError, match="in the callback"),
        profile(
            schedule=schedule(wait=0, warmup=1, active=1, repeat=1), on_trace_ready=fail
        ) as profiler,
    ):
        for _ in range(3):
            one.neg()
            profiler.step()
    assert profiler.step_num == 2
    assert "aten::neg" in names(profiler)


@pytest.mark.parametrize("record", [RECORD, SAVE])
def test_a_schedule_that_goes_back_to_warmup_never_crashes(record: ProfilerAction) -> None:
    actions = [record, WARMUP, SAVE, NONE]
    delivered = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with profile(
            schedule=lambda step: actions[step],
            on_trace_ready=lambda p: delivered.append((p.step_num, len(p.events()))),
        ) as profiler:
            for _ in range(3):
                one.neg()
                profiler.step()
    assert [str(w.message).split(":")[0] for w in caught] == ["Incorrect schedule"] * (
        record is RECORD
    )
    assert all(w.filename == __file__ for w in caught)
    assert delivered == ([(1, 2), (3, 2)] if record is SAVE else [(3, 2)])


def test_stopping_twice_keeps_the_results() -> None:
    with profile() as profiler:
        one.neg()
    profiler.stop()
    assert names(profiler) == ["aten::neg"]


def test_starting_twice_is_an_error_and_harmless() -> None:
    with profile() as profiler:
        with pytest.raises(RuntimeError, match="already started"):
            profiler.start()
        one.neg()
    assert names(profiler) == ["aten::neg"]


def test_a_restart_keeps_the_last_cycle() -> None:
    profiler = profile()
    for operator in ("neg", "abs"):
        profiler.start()
        getattr(one, operator)()
        profiler.stop()
        assert names(profiler)[0] == f"aten::{operator}"


def test_it_decorates_a_function() -> None:
    delivered = []

    @profile(on_trace_ready=lambda p: delivered.append(names(p)))
    def forward(value: Any) -> Any:
        """Negate."""
        return value.neg()

    assert forward(one).item() == -1
    forward(one)
    assert forward.__doc__ == "Negate."
    assert delivered == [["aten::neg"]] * 2


def test_everything_goes_by_keyword() -> None:
    with pytest.raises(TypeError):
        profile([CPU])  # type: ignore[misc]


# ---- results at the wrong moment


RESULTS = ("events", "key_averages")


@pytest.mark.parametrize("method", [*RESULTS, "stop"])
def test_before_the_start_there_are_no_results(method: str) -> None:
    with pytest.raises(AssertionError):
        getattr(profile(), method)()


@pytest.mark.parametrize("export", ["export_chrome_trace", "export_stacks"])
def test_before_the_start_there_is_nothing_to_export(export: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        getattr(profile(), export)(str(tmp_path / "trace.json"))
    assert list(tmp_path.iterdir()) == []


def test_without_a_cycle_there_are_no_results(tmp_path: Path) -> None:
    with profile(schedule=lambda _: NONE) as profiler:
        profiler.step()
    for method in RESULTS:
        with pytest.raises(AssertionError):
            getattr(profiler, method)()
    with pytest.raises(AssertionError):
        profiler.export_chrome_trace(tmp_path / "trace.json")


def test_while_it_records_the_events_are_empty_and_an_export_is_refused(tmp_path: Path) -> None:
    with profile() as profiler:
        one.neg()
        assert len(profiler.events()) == 0
        assert profiler.key_averages().table() == ""
        with pytest.raises(RuntimeError, match="stop"):
            profiler.export_chrome_trace(tmp_path / "trace.json")
    assert list(tmp_path.iterdir()) == []
    assert names(profiler) == ["aten::neg"]


def test_old_names_of_the_results() -> None:
    with profile() as profiler:
        one.neg()
    results = profiler.profiler
    assert [e.name for e in results.function_events] == ["aten::neg"]
    assert results.self_cpu_time_total > 0
    assert results.key_averages()[0].key == "aten::neg"
    assert results.total_average().count == 1  # type: ignore[attr-defined]


# ---- several at once


def test_nested_profilers_both_record() -> None:
    with profile() as outer:
        one.neg()
        with profile() as inner:
            one.abs()
        one.exp()
    assert names(inner)[0] == "aten::abs"
    only_outer = [name for name in names(outer) if name not in names(inner)]
    assert only_outer == ["aten::neg", "aten::exp"]
    assert set(names(inner)) <= set(names(outer))


def test_a_profiler_in_a_thread_while_another_runs() -> None:
    inner = []

    def work() -> None:
        with profile() as profiler:
            one.exp()
        inner.append(profiler)

    with profile() as outer:
        one.neg()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert names(inner[0]) == ["aten::exp"]
    assert names(outer) == ["aten::neg", "aten::exp"]
    tracks = outer.trace.slices.track
    assert tracks[0] != tracks[1]


@pytest.mark.parametrize("ours_is_outside", [True, False])
def test_torchs_own_profiler_may_run_at_the_same_time(ours_is_outside: bool) -> None:
    import torch._dynamo  # torch's profiler imports it when it starts: seen, were it the first time

    theirs = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    ours = profile()
    first, second = (ours, theirs) if ours_is_outside else (theirs, ours)
    with first, second, torch.profiler.record_function("both"):
        one.neg()
    assert names(ours) == [e.name for e in theirs.events()] == ["both", "aten::neg"]


def test_overlapping_with_torchs_profiler_without_nesting() -> None:
    theirs, ours = torch.profiler.profile(), profile()
    ours.start()
    one.neg()
    theirs.start()
    one.sign()
    ours.stop()
    one.exp()
    theirs.stop()
    assert names(ours) == ["aten::neg", "aten::sign"]
    assert [e.name for e in theirs.events()] == ["aten::sign", "aten::exp"]
