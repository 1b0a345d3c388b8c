"""``profile``: activities, options and metadata, as torch.profiler's contract has them."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import os
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch

import stepscope
from stepscope import ProfilerActivity, profile
from stepscope.frameworks.torch.dialect.options import ExperimentalConfig, record_options
from stepscope.record.options import STACKS, RecordOptions, StackMode
from stepscope.record.source import known_options

if TYPE_CHECKING:
    from pathlib import Path

CPU, CUDA = ProfilerActivity.CPU, ProfilerActivity.CUDA
one = torch.ones(1)


def names(profiler: profile) -> list[str]:
    return [event.name for event in profiler.events()]


# ---- activities


def test_cpu_is_the_default_and_can_be_recorded() -> None:
    assert profile().activities == {CPU}
    assert CPU in stepscope.supported_activities()


def test_an_activity_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="CPU"):
        profile(activities=[CPU, CPU])


def test_no_activity_is_an_error() -> None:
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[])


def test_an_iterator_works() -> None:
    with profile(activities=(a for a in [CPU])) as profiler:
        one.neg()
    assert names(profiler) == ["aten::neg"]


def test_torchs_own_enum_works_and_mixes_with_ours() -> None:
    assert profile(activities=[torch.profiler.ProfilerActivity.CPU]).activities == {CPU}
    with pytest.raises(ValueError, match="CPU"):
        profile(activities=[torch.profiler.ProfilerActivity.CPU, CPU])


@pytest.mark.parametrize("wrong", [None, "CPU", 0, object], ids=repr)
def test_nonsense_is_named(wrong: Any) -> None:
    with pytest.raises(TypeError, match="ProfilerActivity"):
        profile(activities=[wrong])


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
class TestWithoutCuda:
    def test_cuda_alone_is_an_error(self) -> None:
        with pytest.raises(AssertionError, match="CUDA is not available"):
            profile(activities=[CUDA])

    def test_cpu_and_cuda_warns_where_it_was_written_and_records_the_cpu(self) -> None:
        with pytest.warns(UserWarning, match="CUDA is not available") as caught:
            profiler = profile(activities=[CPU, CUDA])
        assert [w.filename for w in caught] == [__file__]
        with profiler:
            one.neg()
        assert names(profiler) == ["aten::neg"]

    def test_use_cuda_is_deprecated_and_means_what_it_says(self) -> None:
        with pytest.warns(FutureWarning, match="use_cuda") as caught:
            assert profile(use_cuda=False).activities == {CPU}
        assert [w.filename for w in caught] == [__file__]
        with pytest.warns(FutureWarning, match="use_cuda"), pytest.warns(match="CUDA is not"):
            profile(use_cuda=True)


# ---- options


OPTIONS = {
    "record_shapes": RecordOptions(shapes=True),
    "profile_memory": RecordOptions(memory=True),
    "with_stack": RecordOptions(stacks=StackMode.CALLS),
    "with_flops": RecordOptions(shapes=True),
    "with_modules": RecordOptions(modules=True),
}
OFF: dict[str, Any] = dict.fromkeys(OPTIONS, False)


def asked(options: RecordOptions) -> dict[str, Any]:
    return {name: options[option] for name, option in known_options().items()}


@pytest.mark.parametrize("option", OPTIONS)
def test_what_an_option_asks_of_the_sources(option: str) -> None:
    assert asked(record_options(**{**OFF, option: True})) == asked(OPTIONS[option])
    assert asked(record_options(**OFF)) == asked(RecordOptions())


@pytest.mark.parametrize("mode", StackMode)
def test_with_stack_takes_a_mode_too(mode: StackMode) -> None:
    assert record_options(**{**OFF, "with_stack": mode})[STACKS] is mode


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_records_and_can_be_read_back(option: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profiler = profile(**{option: True})
    assert getattr(profiler, option) is True
    with profiler:
        one.neg()
    assert "aten::neg" in names(profiler)


def test_options_that_are_off_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profile(record_shapes=False, with_stack=False, experimental_config=None)


# ---- experimental_config


@pytest.mark.parametrize(
    "config",
    [
        torch.profiler._ExperimentalConfig(verbose=True, capture_overload_names=True),
        ExperimentalConfig(verbose=True, profile_all_threads=True),
        {"verbose": True},
        SimpleNamespace(trace_only=True),
        object(),
    ],
    ids=lambda config: type(config).__name__,
)
def test_a_config_that_asks_for_nothing_more_is_silent(config: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profiler = profile(experimental_config=config)
    assert profiler.experimental_config is config


def torchs_config_of_metrics() -> list[object]:
    """Return torch's own where it still takes them, up to 2.14."""
    with contextlib.suppress(TypeError):
        config = torch.profiler._ExperimentalConfig(
            profiler_metrics=["sm"], profiler_measure_per_kernel=True, verbose=True
        )
        return [config]
    return []


@pytest.mark.parametrize(
    "config",
    [
        *torchs_config_of_metrics(),
        ExperimentalConfig(profiler_metrics=["sm"], profiler_measure_per_kernel=True, verbose=True),
        {"profiler_metrics": ["sm"], "profiler_measure_per_kernel": True},
        SimpleNamespace(profiler_measure_per_kernel=True, profiler_metrics=["sm"]),
    ],
    ids=lambda config: type(config).__name__,
)
def test_what_has_no_effect_is_named_in_one_warning(config: object) -> None:
    with pytest.warns(UserWarning, match="profiler_measure_per_kernel, profiler_metrics") as caught:
        profiler = profile(experimental_config=config)
    assert [w.filename for w in caught] == [__file__]
    assert "verbose" not in str(caught[0].message)
    with profiler:
        one.neg()
    assert names(profiler) == ["aten::neg"]


def test_our_config_has_torchs_fields_and_defaults() -> None:
    theirs = torch.profiler._ExperimentalConfig.__init__.__doc__
    assert theirs is not None
    gone = {"profiler_metrics", "profiler_measure_per_kernel"}  # since 2.15
    for field in dataclasses.fields(ExperimentalConfig):
        assert f" {field.name}: " in theirs or field.name in gone


# ---- metadata


def exported(profiler: profile, path: Path) -> dict[str, Any]:
    profiler.export_chrome_trace(path)
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content


def test_metadata_is_kept_before_during_and_after(tmp_path: Path) -> None:
    profiler = profile()
    profiler.add_metadata("before", "1")
    profiler.preset_metadata_json("preset", '{"a": [1, 2]}')
    with profiler:
        profiler.add_metadata("during", "2")
        profiler.add_metadata_json("json", "[1, null, true]")
    profiler.add_metadata("after", "3")
    written = exported(profiler, tmp_path / "trace.json")
    assert {key: written[key] for key in ("before", "during", "after", "preset", "json")} == {
        "before": "1",
        "during": "2",
        "after": "3",
        "preset": {"a": [1, 2]},
        "json": [1, None, True],
    }


HOSTILE = ['a"b', "back\\slash", "line\nbreak", "</script>", "\u2028", "🚀", "\0", "", "\ud800"]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_metadata_gives_a_valid_file(text: str, tmp_path: Path) -> None:
    with profile() as profiler:
        one.neg()
    profiler.add_metadata("value", text)
    profiler.add_metadata(f"key {text}", "x")
    written = exported(profiler, tmp_path / "trace.json")
    if text != "\ud800":  # has no UTF-8 form
        assert written["value"] == text
        assert written[f"key {text}"] == "x"


@pytest.mark.parametrize("text", ["{", "", "nope", "[1,]", '{"a": 1} x', "NaN"], ids=repr)
def test_metadata_that_is_no_json_is_refused_with_its_value(text: str) -> None:
    import re

    profiler = profile()
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        profiler.add_metadata_json("key", text)
    with profiler:
        pass
    assert "key" not in profiler.trace.info.user


def test_metadata_does_not_replace_the_trace_itself(tmp_path: Path) -> None:
    with profile() as profiler:
        one.neg()
    for key in ("traceEvents", "schemaVersion", "baseTimeNanoseconds"):
        profiler.add_metadata(key, "mine")
    written = exported(profiler, tmp_path / "trace.json")
    assert isinstance(written["traceEvents"], list)
    assert written["traceEvents"]


def test_the_trace_has_an_id_that_the_user_may_choose(tmp_path: Path) -> None:
    profiler = profile(custom_trace_id_callback=lambda: "mine")
    assert profiler.get_trace_id() is None
    with profiler:
        pass
    assert profiler.get_trace_id() == "mine"
    assert exported(profiler, tmp_path / "trace.json")["trace_id"] == "mine"
    profiler.set_custom_trace_id_callback(lambda: "other")
    with profiler:
        pass
    assert profiler.get_trace_id() == "other"
    with profile() as first, profile() as second:
        pass
    assert first.get_trace_id() != second.get_trace_id()


def test_an_export_may_be_repeated_to_any_path(tmp_path: Path) -> None:
    with profile() as profiler:
        one.neg()
    plain, packed = tmp_path / "a.json", tmp_path / "b.json.gz"
    for path in (plain, str(packed), os.fspath(plain)):
        profiler.export_chrome_trace(path)
    unpacked = json.loads(gzip.decompress(packed.read_bytes()))
    assert unpacked["traceEvents"] == json.loads(plain.read_bytes())["traceEvents"]
