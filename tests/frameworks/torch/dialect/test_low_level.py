"""What torch's low-level profiler does, and ``profile`` inherits: parts of a run, ids, pauses."""

from __future__ import annotations

import gzip
import itertools
import json
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch

import stepscope
from recording import run_python
from stepscope import ExecutionTraceObserver, ProfilerActivity, profile, record_function, schedule
from stepscope.frameworks.torch.torch_source import TorchCollector
from stepscope.torch import LowLevelProfile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CPU, CUDA = ProfilerActivity.CPU, ProfilerActivity.CUDA
one = torch.ones(1)


def names(profiler: LowLevelProfile) -> list[str]:
    return [event.name for event in profiler.events()]


# ---- without a schedule

LOW_LEVEL = [LowLevelProfile, torch.profiler._KinetoProfile, profile]


@pytest.mark.parametrize("cls", LOW_LEVEL, ids=["ours", "torch's", "ours, with a schedule"])
def test_a_run_in_three_parts(cls: Any) -> None:
    profiler = cls(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.prepare_trace()
    one.abs()
    profiler.start_trace()
    one.neg()
    profiler.stop_trace()
    one.sin()
    assert names(profiler) == ["aten::neg"]


@pytest.mark.parametrize("cls", LOW_LEVEL[:2], ids=["ours", "torch's"])
def test_start_and_stop(cls: Any) -> None:
    profiler = cls(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    one.neg()
    profiler.stop()
    assert names(profiler) == ["aten::neg"]
    assert profiler.key_averages()[0].count == 1


@pytest.mark.parametrize("cls", LOW_LEVEL[:2], ids=["ours", "torch's"])
@pytest.mark.parametrize("part", ["start_trace", "stop_trace", "stop", "events", "key_averages"])
def test_parts_that_come_too_early_are_errors(cls: Any, part: str) -> None:
    profiler = cls(activities=[torch.profiler.ProfilerActivity.CPU])
    with pytest.raises(AssertionError):
        getattr(profiler, part)()


def test_starting_twice_is_an_error_that_harms_nothing() -> None:
    profiler = LowLevelProfile()
    profiler.start()
    one.neg()
    with pytest.raises(RuntimeError, match="already recording"):
        profiler.start_trace()
    profiler.stop()
    profiler.stop()
    assert names(profiler) == ["aten::neg"]


def test_profile_is_a_low_level_profiler_too() -> None:
    assert issubclass(profile, LowLevelProfile)
    assert issubclass(torch.profiler.profile, torch.profiler._KinetoProfile)
    from stepscope.torch import _ExperimentalConfig, _KinetoProfile  # as torch names them

    assert _KinetoProfile is LowLevelProfile
    assert _ExperimentalConfig is stepscope.ExperimentalConfig


# ---- several cycles


def cycles(**options: Any) -> list[str]:
    """Record abs and then neg with one profiler, and return what it kept."""
    profiler = profile(**options)
    for work in (one.abs, one.neg):
        with profiler:
            work()
    return names(profiler)


def test_a_new_run_replaces_the_last() -> None:
    assert cycles() == ["aten::neg"]


def test_acc_events_keeps_all_runs_in_the_order_of_time() -> None:
    """torch appends the older after the newer."""
    assert [name for name in cycles(acc_events=True) if name != "aten::empty"] == [
        *("aten::abs", "aten::abs"),  # abs calls itself
        "aten::neg",
    ]


def test_acc_events_with_a_schedule(tmp_path: Path) -> None:
    seen = []

    def ready(profiler: profile) -> None:
        seen.append([event.trace_name for event in profiler.events() if "Step" in event.name])

    steps = schedule(wait=1, warmup=1, active=1)
    with profile(schedule=steps, acc_events=True, on_trace_ready=ready) as profiler:
        for _ in range(9):
            one.neg()
            profiler.step()
    assert seen == [
        ["ProfilerStep#2"],
        ["ProfilerStep#2", "ProfilerStep#5"],
        ["ProfilerStep#2", "ProfilerStep#5", "ProfilerStep#8"],
    ]
    averages = {row.key: row.count for row in profiler.key_averages()}
    assert averages == {"ProfilerStep*": 3, "aten::neg": 3}
    starts = [event.time_range.start for event in profiler.events()]
    assert starts == sorted(starts)
    profiler.export_chrome_trace(tmp_path / "all.json")
    events = json.loads((tmp_path / "all.json").read_bytes())["traceEvents"]
    assert sum(event["name"] == "aten::neg" for event in events) == 3


# ---- turning it off and on


def toggled(cls: Any, enum: Any, **options: Any) -> list[str]:
    """Return what is recorded of ranges and operators around and in a pause."""
    with cls(activities=[enum.CPU], **options) as profiler:
        with torch.profiler.record_function("around"):
            one.neg()
            profiler.toggle_collection_dynamic(False, [enum.CPU])
            one.sin()
            with torch.profiler.record_function("in the pause"):
                one.cos()
            open_range = torch.profiler.record_function("out of the pause")
            open_range.__enter__()
            profiler.toggle_collection_dynamic(True, [enum.CPU])
            one.neg()
            open_range.__exit__(None, None, None)
        one.neg()
    return names(profiler)


def test_what_starts_in_a_pause_is_left_out_as_in_torch() -> None:
    ours = toggled(profile, ProfilerActivity)
    assert ours == ["around", "aten::neg", "aten::neg", "aten::neg"]
    assert toggled(torch.profiler.profile, torch.profiler.ProfilerActivity) == ours


def test_it_works_with_torchs_collector_too() -> None:
    recorded = toggled(profile, ProfilerActivity, torch_collector=TorchCollector.KINETO)
    assert recorded.count("aten::neg") == 3
    assert not {"aten::sin", "aten::cos", "in the pause"} & set(recorded)


def test_our_own_ranges_pause_as_well() -> None:
    with profile() as profiler:
        with record_function("before"):
            profiler.toggle_collection_dynamic(False, {CPU})
            with record_function("in the pause"):
                pass
            profiler.toggle_collection_dynamic(False, {CPU})  # already off
            profiler.toggle_collection_dynamic(True, {CPU})
        profiler.toggle_collection_dynamic(True, {CPU})  # already on
        with record_function("after"):
            pass
        profiler.toggle_collection_dynamic(False, {CPU})
        with record_function("at the end"):
            pass
    assert names(profiler) == ["before", "after"]
    with profiler, record_function("the next run begins with it on"):
        pass
    assert names(profiler) == ["the next run begins with it on"]


def test_a_pause_is_of_one_profiler() -> None:
    with profile() as other, profile() as profiler:
        profiler.toggle_collection_dynamic(False, [CPU])
        one.neg()
        profiler.toggle_collection_dynamic(True, [CPU])
        one.abs()
    assert "aten::neg" in names(other)
    assert "aten::neg" not in names(profiler)
    assert "aten::abs" in names(profiler)


def test_a_pause_holds_for_all_threads() -> None:
    with profile() as profiler:
        profiler.toggle_collection_dynamic(False, [CPU])
        thread = threading.Thread(target=one.neg)
        thread.start()
        thread.join()
    assert names(profiler) == []


def test_activities_that_are_not_recorded_and_moments_that_do_not_matter() -> None:
    profiler = profile()
    profiler.toggle_collection_dynamic(False, [CPU])  # before the start: nothing happens
    with profiler:
        profiler.toggle_collection_dynamic(False, [CUDA])
        one.neg()
    profiler.toggle_collection_dynamic(False, [CPU])
    assert names(profiler) == ["aten::neg"]
    with pytest.raises(TypeError, match="'CPU' is not a ProfilerActivity"):
        profiler.toggle_collection_dynamic(True, ["CPU"])


# ---- ids


@pytest.mark.parametrize("cls", [profile, torch.profiler.profile], ids=["ours", "torch's"])
def test_each_cycle_has_an_id_of_its_own(cls: Any) -> None:
    numbers = itertools.count()
    seen = []
    with cls(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=1),
        custom_trace_id_callback=lambda: f"id-{next(numbers)}",
        on_trace_ready=lambda profiler: seen.append(profiler.get_trace_id()),
    ) as profiler:
        for _ in range(4):
            profiler.step()
    assert seen == ["id-0", "id-1"]


def test_the_callback_may_be_changed_between_cycles() -> None:
    profiler = LowLevelProfile(custom_trace_id_callback=lambda: "first")
    assert profiler.get_trace_id() is None
    for expected in ("first", "second"):
        profiler.start()
        profiler.stop()
        assert profiler.get_trace_id() == profiler.trace.info.user["trace_id"] == expected
        profiler.set_custom_trace_id_callback(lambda: "second")


# ---- execution traces


@pytest.mark.parametrize(
    "observer",
    [ExecutionTraceObserver, torch.profiler.ExecutionTraceObserver],
    ids=["ours", "torch's"],
)
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_torchs_observer_runs_with_the_profiler(
    observer: Callable[[], Any], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"graph{suffix}"
    one.sin()
    with profile(execution_trace_observer=observer().register_callback(str(path))) as profiler:
        one.neg()
    one.cos()
    content = path.read_bytes()
    nodes = json.loads(gzip.decompress(content) if suffix.endswith("gz") else content)["nodes"]
    seen = {node["name"] for node in nodes}
    assert "aten::neg" in seen
    assert not {"aten::sin", "aten::cos"} & seen
    assert names(profiler) == ["aten::neg"]
    assert profiler.trace.info.sources["observer"] == "ExecutionTraceObserver"


def test_an_observer_sees_the_recorded_steps_only(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    observer = ExecutionTraceObserver().register_callback(str(path))
    with profile(
        schedule=schedule(wait=1, warmup=1, active=1, repeat=1), execution_trace_observer=observer
    ) as profiler:
        for work in (one.sin, one.cos, one.neg, one.abs):
            work()
            profiler.step()
    seen = {node["name"] for node in json.loads(path.read_bytes())["nodes"]}
    assert "aten::neg" in seen
    assert not {"aten::sin", "aten::cos", "aten::abs"} & seen


def test_any_object_may_observe() -> None:
    class Journal:
        def __init__(self) -> None:
            self.asked: list[str] = []

        def __getattr__(self, name: str) -> Callable[[], None]:
            return lambda: self.asked.append(name)

    journal = Journal()
    with profile(execution_trace_observer=journal):
        one.neg()
    assert journal.asked == ["start", "stop", "cleanup"]


@pytest.mark.slow
def test_torchs_variable_asks_for_an_observer() -> None:
    done = run_python(
        """
        import json, torch
        from stepscope import profile
        with profile() as p:
            torch.ones(1).neg()
        path = p.execution_trace_observer.get_output_file_path()
        assert "aten::neg" in {node["name"] for node in json.load(open(path))["nodes"]}
        import os; os.remove(path)
        """,
        ENABLE_PYTORCH_EXECUTION_TRACE="1",
    )
    assert done.returncode == 0, done.stderr


def test_without_torch_an_observer_says_what_to_use() -> None:
    done = run_python(
        """
        import sys
        sys.modules["torch"] = None
        import stepscope
        try:
            stepscope.ExecutionTraceObserver()
        except stepscope.UnsupportedError as error:
            print(error)
        """
    )
    assert done.returncode == 0, done.stderr
    assert "needs torch installed; prof.trace.save(path)" in done.stdout


# ---- the rest


def test_a_timeout_of_what_takes_no_time_is_accepted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profiler = profile(post_processing_timeout_s=0.5)
    assert profiler.post_processing_timeout_s == 0.5
    with profiler:
        one.neg()
    assert names(profiler) == ["aten::neg"]
