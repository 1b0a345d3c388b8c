"""The contract with code that was written for torch.profiler: what holds for both, of both.

Rows of the contract that have a file of tests of their own are listed at the end.
"""

from __future__ import annotations

import ast
import inspect
import json
import pickle
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch

import stepscope
from recording import nothing_left_on
from stepscope import ProfilerAction, ProfilerActivity, profile, schedule
from stepscope.torch import legacy

if TYPE_CHECKING:
    from collections.abc import Iterator

TORCH = torch.profiler
CPU = TORCH.ProfilerActivity.CPU
one = torch.ones(1)

both = pytest.mark.parametrize("cls", [profile, TORCH.profile], ids=["ours", "torch's"])


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Warning: Profiler clears events")  # torch's
        yield


# ---- names and signatures


def test_every_public_name_of_torchs_is_ours_too() -> None:
    assert set(TORCH.__all__) <= set(stepscope.__all__)
    assert set(TORCH.__all__) <= set(dir(stepscope.torch))


PAIRS = [
    (profile, TORCH.profile),
    (stepscope.torch.LowLevelProfile, TORCH._KinetoProfile),
    (legacy.profile, torch.autograd.profiler.profile),
    *(
        (getattr(stepscope, name), getattr(TORCH, name))
        for name in ("schedule", "tensorboard_trace_handler", "supported_activities")
    ),
    *(
        (getattr(profile, name), getattr(TORCH.profile, name))
        for name in (
            *("start", "step", "stop", "prepare_trace", "start_trace", "stop_trace"),
            *("events", "key_averages", "export_chrome_trace", "export_stacks"),
            *("export_memory_timeline", "toggle_collection_dynamic", "add_metadata"),
            *("add_metadata_json", "preset_metadata_json", "get_trace_id"),
            "set_custom_trace_id_callback",
        )
    ),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda each: each.__qualname__)
def test_whoever_calls_theirs_can_call_ours(ours: Any, theirs: Any) -> None:
    have = inspect.signature(ours).parameters
    takes_more = any(each.kind is each.VAR_KEYWORD for each in have.values())
    for name, wanted in inspect.signature(theirs).parameters.items():
        assert name in have or takes_more, f"{name} is missing"
        if name in have:
            assert have[name].kind == wanted.kind, name
            assert have[name].default == wanted.default, name


# ---- both worlds of enums


@pytest.mark.parametrize("ours", ProfilerAction, ids=lambda each: each.name)
def test_actions_are_equal_in_both_worlds(ours: ProfilerAction) -> None:
    theirs = TORCH.ProfilerAction[ours.name]
    assert ours == theirs
    assert theirs == ours
    assert hash(ours) == hash(theirs)
    assert {theirs: 1}[ours] == {ours: 1}[theirs] == 1
    assert ours.value == theirs.value
    others = [each for each in TORCH.ProfilerAction if each.name != ours.name]
    assert not any(ours == other or other == ours for other in others)
    assert ours != ours.name
    assert ours != ours.value


@pytest.mark.parametrize("ours", ProfilerActivity, ids=lambda each: each.name)
def test_activities_are_equal_in_both_worlds(ours: ProfilerActivity) -> None:
    theirs = getattr(TORCH.ProfilerActivity, ours.name)
    assert ours == theirs
    assert hash(ours) == hash(theirs)
    assert ours.value == theirs.value
    assert theirs in {ours}
    assert theirs in [ours]
    assert ours != ours.name
    assert ours != ours.value


@both
@pytest.mark.parametrize("make_schedule", [schedule, TORCH.schedule], ids=["our", "their"])
def test_a_schedule_of_either_drives_either(cls: Any, make_schedule: Any) -> None:
    """theirs takes ours as long as it only compares actions, and it does."""
    delivered = []
    steps = make_schedule(wait=1, warmup=1, active=2, repeat=1)
    ready = lambda profiler: delivered.append(profiler.step_num)  # noqa: E731
    with cls(activities=[CPU], schedule=steps, on_trace_ready=ready) as profiler:
        for _ in range(5):
            one.neg()
            profiler.step()
    assert delivered == [4]
    assert sum(event.name == "aten::neg" for event in profiler.events()) == 2


def test_an_action_that_only_torch_itself_may_set_is_refused() -> None:
    stopped = TORCH.ProfilerAction.DEVICE_STOPPED
    for cls in (profile, TORCH.profile):
        with pytest.raises(ValueError, match="DEVICE_STOPPED"):
            cls(activities=[CPU], schedule=lambda _: stopped)
    with pytest.raises(TypeError, match="'RECORD' for step 0"):
        profile(schedule=lambda _: "RECORD")


# ---- what code reads of a profiler


@both
def test_before_the_start(cls: Any) -> None:
    profiler = cls(activities=[CPU])
    profiler.step()
    profiler.preset_metadata_json("key", "1")
    profiler.toggle_collection_dynamic(False, [CPU])
    assert profiler.profiler is None
    assert profiler.get_trace_id() is None
    for result in ("events", "key_averages", "stop"):
        with pytest.raises(AssertionError):
            getattr(profiler, result)()


@both
def test_attributes_that_code_reads(cls: Any) -> None:
    ready = lambda _: None  # noqa: E731
    with cls(
        activities=[CPU],
        record_shapes=True,
        on_trace_ready=ready,
        schedule=TORCH.schedule(wait=0, warmup=1, active=1),
    ) as profiler:
        assert profiler.step_num == 0
        assert profiler.current_action == TORCH.ProfilerAction.WARMUP
        profiler.step()
        assert profiler.current_action == TORCH.ProfilerAction.RECORD_AND_SAVE
        one.neg()
        profiler.step()
    assert profiler.on_trace_ready is ready
    assert CPU in profiler.activities
    assert profiler.schedule(1) == TORCH.ProfilerAction.RECORD_AND_SAVE
    assert (profiler.record_shapes, profiler.with_stack, profiler.acc_events) == (
        True,
        False,
        False,
    )
    assert profiler.use_device is None


@both
def test_the_inner_profiler(cls: Any) -> None:
    with cls(activities=[CPU]) as profiler:
        one.neg()
    inner = profiler.profiler
    assert [event.name for event in inner.function_events] == ["aten::neg"]
    assert inner.self_cpu_time_total > 0
    assert inner.total_average().count == 1
    assert inner.key_averages()[0].key == "aten::neg"
    assert "aten::neg" in inner.table()
    assert inner.trace_id == profiler.get_trace_id()


@both
def test_attributes_that_code_sets(cls: Any) -> None:
    """Lightning does."""
    delivered = []
    with cls(activities=[CPU], schedule=TORCH.schedule(wait=50, warmup=1, active=1)) as profiler:
        profiler.schedule = lambda _: TORCH.ProfilerAction.RECORD
        profiler.on_trace_ready = lambda profiler: delivered.append(profiler.step_num)
        profiler.step_num = 7
        profiler.step()
        one.neg()
    assert delivered == [8]
    assert "aten::neg" in {event.name for event in profiler.events()}


@both
def test_results_can_be_pickled(cls: Any) -> None:
    with cls(activities=[CPU], record_shapes=True) as profiler:
        torch.mm(torch.ones(2, 3), torch.ones(3, 4))
    for results in (profiler.events(), profiler.key_averages()):
        copy = pickle.loads(pickle.dumps(results))
        assert [each.key for each in copy] == [each.key for each in results]
        assert copy.table() == results.table()
        assert pickle.loads(pickle.dumps(results[0])).cpu_time_total == results[0].cpu_time_total


@pytest.mark.parametrize(
    "name", ["cuda_time_total", "self_cuda_time_total", "cuda_time", "cuda_memory_usage"]
)
def test_old_names_of_averages_warn_and_work(name: str) -> None:
    """Today's torch has but one of them left."""
    with profile() as profiler:
        one.neg()
    with pytest.warns(FutureWarning, match=name.replace("cuda", "device")):
        assert getattr(profiler.key_averages()[0], name) == 0


# ---- files


@both
def test_what_is_preset_is_in_the_file(cls: Any, tmp_path: Path) -> None:
    profiler = cls(activities=[CPU], record_shapes=True)
    profiler.preset_metadata_json("preset", '{"a": [1, null]}')
    with profiler:
        one.neg()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    content = json.loads((tmp_path / "trace.json").read_bytes())
    assert content["preset"] == {"a": [1, None]}
    assert content["trace_id"] == profiler.get_trace_id()


@both
def test_what_was_asked_for_is_in_the_file(cls: Any, tmp_path: Path) -> None:
    """TensorBoard's plugin reads it there."""
    with cls(activities=[CPU], record_shapes=True, profile_memory=True) as profiler:
        one.neg()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    content = json.loads((tmp_path / "trace.json").read_bytes())
    assert content["record_shapes"] == content["profile_memory"] == 1
    assert "with_stack" not in content


# ---- where the other rows are tested

ELSEWHERE = {
    "test_profile_options.py": {
        "activities": "test_an_activity_twice_is_an_error",
        "activities from a generator": "test_an_iterator_works",
        "use_cuda": "test_use_cuda_is_deprecated_and_means_what_it_says",
        "experimental_config": "test_what_has_no_effect_is_named_in_one_warning",
        "metadata before the start": "test_metadata_is_kept_before_during_and_after",
        "export_chrome_trace": "test_an_export_may_be_repeated_to_any_path",
        "add_metadata": "test_hostile_metadata_gives_a_valid_file",
        "add_metadata_json": "test_metadata_that_is_no_json_is_refused_with_its_value",
        "supported_activities": "test_cpu_is_the_default_and_can_be_recorded",
    },
    "test_low_level.py": {
        "low-level profile": "test_a_run_in_three_parts",
        "acc_events": "test_acc_events_keeps_all_runs_in_the_order_of_time",
        "toggle_collection_dynamic": "test_what_starts_in_a_pause_is_left_out_as_in_torch",
        "trace id": "test_each_cycle_has_an_id_of_its_own",
        "ExecutionTraceObserver": "test_torchs_observer_runs_with_the_profiler",
    },
    "test_session.py": {
        "ProfilerAction": "test_a_warmup_that_leads_to_nothing_is_warned_about",
        "exit": "test_a_stop_during_warmup_delivers_nothing_and_leaves_an_empty_trace",
        "nested profilers": "test_nested_sessions_both_record",
    },
    "test_profile.py": {"step()": "test_the_callback_runs_once_a_cycle_and_after_the_last_step"},
    "test_schedules.py": {"schedule": "test_every_step_is_torchs"},
    "test_tensorboard.py": {
        "tensorboard_trace_handler": "test_a_hostile_worker_stays_in_the_folder"
    },
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_row_that_is_tested_elsewhere_is(name: str) -> None:
    tree = ast.parse((Path(__file__).parent / name).read_text(encoding="utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert set(ELSEWHERE[name].values()) <= functions
