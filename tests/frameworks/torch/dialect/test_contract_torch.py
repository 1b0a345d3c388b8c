"""The contract with code that was written for torch.profiler: what holds for both, of both.

Which row of the contract is tested where stands in test_contract_rows.py.
"""

from __future__ import annotations

import gzip
import inspect
import json
import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch

import stepscope
from report_data import PageData
from stepscope import ProfilerAction, ProfilerActivity, profile, schedule
from stepscope.frameworks.torch.dialect import legacy

if TYPE_CHECKING:
    from pathlib import Path

TORCH = torch.profiler
CPU = TORCH.ProfilerActivity.CPU
one = torch.ones(1)

both = pytest.mark.parametrize("cls", [profile, TORCH.profile], ids=["ours", "torch's"])


pytestmark = pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")  # torch's


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


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda member: member.__qualname__)
def test_whoever_calls_theirs_can_call_ours(ours: Any, theirs: Any) -> None:
    have = inspect.signature(ours).parameters
    takes_more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in have.values())
    for name, wanted in inspect.signature(theirs).parameters.items():
        assert name in have or takes_more, f"{name} is missing"
        if name in have:
            assert have[name].kind == wanted.kind, name
            assert have[name].default == wanted.default, name


# ---- both worlds of enums


@pytest.mark.parametrize("ours", ProfilerAction, ids=lambda action: action.name)
def test_actions_are_equal_in_both_worlds(ours: ProfilerAction) -> None:
    theirs = TORCH.ProfilerAction[ours.name]
    assert ours == theirs
    assert theirs == ours
    assert hash(ours) == hash(theirs)
    assert {theirs: 1}[ours] == {ours: 1}[theirs] == 1
    assert ours.value == theirs.value
    others = [action for action in TORCH.ProfilerAction if action.name != ours.name]
    assert not any(ours == other or other == ours for other in others)
    assert ours != ours.name
    assert ours != ours.value


@pytest.mark.parametrize("ours", ProfilerActivity, ids=lambda activity: activity.name)
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
        assert [row.key for row in copy] == [row.key for row in results]
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


def test_stacks_need_no_verbose_config(tmp_path: Path) -> None:
    """torch's file is empty without ``_ExperimentalConfig(verbose=True)``."""
    with profile(activities=[CPU], with_stack=True) as profiler:
        one.neg()
    profiler.export_stacks(str(tmp_path / "stacks.txt"), "self_cpu_time_total")
    lines = (tmp_path / "stacks.txt").read_text(encoding="utf-8").splitlines()
    ours = [line for line in lines if "test_stacks_need_no_verbose_config" in line]
    assert ours
    assert all(line.rsplit(" ", maxsplit=1)[1].isdecimal() for line in lines)


@pytest.mark.parametrize("suffix", [".html", ".raw.json.gz", ".json.gz", ".json"])
def test_a_memory_timeline_needs_profile_memory_alone(suffix: str, tmp_path: Path) -> None:
    """torch's needs shapes and stacks as well, and its page matplotlib."""
    with profile(activities=[CPU], profile_memory=True) as profiler:
        torch.ones(1000).neg()
    path = tmp_path / f"memory{suffix}"
    profiler.export_memory_timeline(str(path), device="cpu")
    content = path.read_bytes()
    text = (gzip.decompress(content) if suffix.endswith(".gz") else content).decode()
    if suffix == ".html":
        assert 4000 in PageData.in_page(text).column("memory.size").tolist()
    else:
        assert "4000" in text  # bytes of a tensor
        assert json.loads(text)


def test_flops_and_sources_stand_under_their_own_headings() -> None:
    """torch writes each under the other's."""
    with profile(activities=[CPU], with_flops=True, with_stack=True) as profiler:
        torch.mm(torch.ones(20, 30), torch.ones(30, 40))
    table = profiler.key_averages(group_by_stack_n=1).table(max_src_column_width=200)
    rule, headings, _, *rows = table.splitlines()
    starts = [match.start() for match in re.finditer("-+", rule)]
    ends = [match.end() for match in re.finditer("-+", rule)]

    def cells(line: str) -> list[str]:
        return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]

    (row,) = [line for line in rows if "aten::mm" in line]
    shown = dict(zip(cells(headings), cells(row), strict=True))
    assert "test_flops_and_sources" in shown["Source Location"]
    assert float(shown["Total KFLOPs"]) == 2 * 20 * 30 * 40 / 1000
