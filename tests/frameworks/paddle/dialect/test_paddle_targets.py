"""What is asked for in ``targets``, and other arguments that not every machine can honour."""

from __future__ import annotations

import warnings
from enum import Enum

import pytest

from stepscope.frameworks.paddle.dialect.targets import supported_targets
from stepscope.paddle import Profiler, ProfilerTarget

UNSUPPORTED = [target for target in ProfilerTarget if target not in supported_targets()]


def test_the_cpu_is_supported_everywhere() -> None:
    assert ProfilerTarget.CPU in supported_targets()
    assert Profiler().targets == supported_targets()
    assert Profiler(targets=[]).targets == supported_targets()


@pytest.mark.parametrize("target", UNSUPPORTED, ids=str)
def test_an_unsupported_target_is_warned_about_and_dropped(target: ProfilerTarget) -> None:
    with pytest.warns(UserWarning, match=f"{target} is not supported") as caught:
        prof = Profiler(targets=[ProfilerTarget.CPU, target, target])
    assert prof.targets == {ProfilerTarget.CPU}
    assert [warning.filename for warning in caught] == [__file__]


def test_supported_targets_are_not_warned_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Profiler(targets=(t for t in supported_targets())).targets == supported_targets()


def test_paddles_own_members_are_taken_by_name() -> None:
    theirs = Enum("ProfilerTarget", {"CPU": 0, "GPU": 1})
    assert Profiler(targets=[theirs["CPU"]]).targets == {ProfilerTarget.CPU}
    assert theirs["CPU"] == ProfilerTarget.CPU
    assert {ProfilerTarget.CPU} == {theirs["CPU"]}


@pytest.mark.parametrize("wrong", ["CPU", 0, Enum("ProfilerTarget", {"TPU": 9})["TPU"]], ids=repr)
def test_what_is_no_target_is_a_clear_error(wrong: object) -> None:
    with pytest.raises(TypeError, match="choose from CPU, GPU, XPU, CUSTOM_DEVICE") as caught:
        Profiler(targets=[wrong])
    assert repr(wrong) in str(caught.value)


def test_custom_device_types_are_warned_about() -> None:
    with pytest.warns(UserWarning, match=r"custom_device_types=\['npu'\]"):
        Profiler(custom_device_types=["npu"])


def test_a_callback_that_cannot_be_called_is_a_clear_error() -> None:
    with pytest.raises(TypeError, match=r"on_trace_ready='\./log'"):
        Profiler(on_trace_ready="./log")  # type: ignore[arg-type]
