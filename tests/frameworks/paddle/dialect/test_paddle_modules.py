"""What programs use of paddle.profiler's modules: utils, profiler, and Paddle's statistics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import stepscope.paddle as paddle_profiler
from recording import run_python
from stepscope.paddle import utils
from stepscope.paddle.profiler import get_profiler

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def configured(folder: Path, **config: Any) -> paddle_profiler.Profiler:
    path = folder / "profiler.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return get_profiler(path)


def function(name: str, **kwargs: Any) -> dict[str, Any]:
    return {name: {"module": "paddle.profiler", "use_direct": False, "args": [], "kwargs": kwargs}}


def test_the_flag_tells_whether_a_profiler_is_started() -> None:
    profiler = paddle_profiler.Profiler(on_trace_ready=lambda _: None)
    assert not utils._is_profiler_used
    with profiler:
        assert utils._is_profiler_used
        assert utils.in_profiler_mode()
    assert not utils.in_profiler_mode()
    with paddle_profiler.Profiler(timer_only=True):
        assert not utils.in_profiler_mode()


def test_a_file_configures_a_profiler(tmp_path: Path) -> None:
    profiler = configured(
        tmp_path,
        targets=["Cpu"],
        scheduler=function("make_scheduler", closed=1, ready=1, record=2, repeat=1),
        on_trace_ready=function("export_chrome_tracing", dir_name=str(tmp_path / "traces")),
        timer_only=False,
    )
    with profiler:
        for _ in range(5):
            profiler.step()
    assert profiler.targets == {paddle_profiler.ProfilerTarget.CPU}
    assert len(list((tmp_path / "traces").iterdir())) == 1
    pair = configured(tmp_path, scheduler=[3, 4]).scheduler
    assert pair(3) is paddle_profiler.ProfilerState.RECORD_AND_RETURN
    assert configured(tmp_path, timer_only=True).timer_only


def test_what_is_wrong_in_a_file_is_said_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    no_such = {"no_such": {"module": "no_such_module", "use_direct": True}}
    profiler = configured(
        tmp_path, targets=3, scheduler=no_such, on_trace_ready={"x": {}}, timer_only="yes"
    )
    stdout = capsys.readouterr().out
    for name in ("targets", "scheduler", "on_trace_ready", "timer_only"):
        assert f"Set {name} parameter error, use default parameter instead." in stdout
    assert profiler.scheduler(7) is paddle_profiler.ProfilerState.RECORD
    assert get_profiler(tmp_path / "none.json").timer_only is False
    assert "Use default parameters instead." in capsys.readouterr().out


def test_a_name_that_would_be_paddles_says_so_without_paddle() -> None:
    code = """
        import sys
        sys.modules["paddle"] = None
        import stepscope.paddle
        try:
            stepscope.paddle.profiler_statistic.StatisticData
        except AttributeError as error:
            print(error)
        print(stepscope.paddle.profiler_statistic.SortedKeys.CPUTotal)
    """
    done = run_python(code)
    first, second = done.stdout.splitlines()
    assert "'StatisticData': it would be Paddle's" in first
    assert second == "SortedKeys.CPUTotal"


def test_types_print_as_paddles_do() -> None:
    from stepscope.frameworks.paddle.event_types import TracerEventType

    kernel = TracerEventType.Kernel
    assert (str(kernel), f"{kernel}", repr(kernel)) == (
        *("TracerEventType.Kernel", "TracerEventType.Kernel"),
        "<TracerEventType.Kernel: 4>",
    )
    assert kernel == 4
    assert kernel != TracerEventType.Memcpy
