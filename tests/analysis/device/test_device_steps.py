"""Steps as devices see them, beside the host's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from made_trace import Call, trace_of_calls
from stepscope.analysis.answer import answer
from stepscope.analysis.device.steps import device_step, device_steps
from stepscope.cli import main
from stepscope.cli.base.device import device_text
from stepscope.trace.model import save_trace

if TYPE_CHECKING:
    from pathlib import Path

    from report_page import Reports
    from stepscope.trace.model import Trace

DEVICE = 3


def stepped(
    host_us: int, device_us: int, count: int = 4, *, marks: bool = False, pause_us: int = 0
) -> Trace:
    """Return steps that launch one kernel each; the device works after the host, one by one."""
    calls, free = [], 0
    for number in range(count):
        at = number * host_us
        begin = max(at + pause_us + 20, free)
        free = begin + device_us
        calls += [
            Call(f"ProfilerStep#{number}", at, at + host_us, "user_annotation"),
            Call("aten::mm", at + pause_us + 1, at + pause_us + 9),
            Call(
                "cudaLaunchKernel",
                at + pause_us + 2,
                at + pause_us + 6,
                "cuda_runtime",
                correlation=number,
            ),
            Call("gemm", begin, free, "kernel", DEVICE, correlation=number),
        ]
        if marks:
            mark = Call(
                f"ProfilerStep#{number}", begin - 3, free + 3, "gpu_user_annotation", DEVICE
            )
            calls.append(mark)
    return trace_of_calls(calls, end_ns=max(free, count * host_us) * 1000)


@pytest.mark.parametrize("marks", [False, True])
def test_a_host_that_runs_ahead_of_its_device(*, marks: bool) -> None:
    trace = stepped(16_000, 19_000, marks=marks)
    rows = device_steps(trace)
    assert rows.by_marks == marks
    assert rows.step.tolist() == [0, 1, 2, 3]
    assert rows.host_ns.tolist() == [16_000_000] * 4
    assert rows.device_ns.tolist() == [19_000_000] * 3 + [19_000_000 + 6_000 * marks]
    assert rows.limit == ("device",) * 4
    step = device_step(trace)
    assert step is not None
    assert (step.host_ns, step.device_ns, step.limit) == (16_000_000, 19_000_000, "device")


def test_a_device_that_waits_for_its_host() -> None:
    trace = stepped(10_000, 4_000)
    step = device_step(trace)
    assert step is not None
    assert (step.host_ns, step.device_ns) == (10_000_000, 10_000_000)
    assert (step.busy_ns, step.waiting_ns) == (4_000_000, 6_000_000)
    assert step.limit == "host"


def test_the_time_before_the_first_kernel_of_an_only_step() -> None:
    step = device_step(stepped(10_000, 3_000, 1, pause_us=6_000))
    assert step is not None
    assert (step.device_ns, step.busy_ns, step.limit) == (9_020_000, 3_000_000, "host")


def test_nothing_is_known_without_steps_or_device() -> None:
    assert device_step(trace_of_calls([Call("aten::mm", 0, 10)])) is None
    kernel = Call("gemm", 0, 10, "kernel", DEVICE)
    assert device_step(trace_of_calls([kernel])) is None
    assert answer(trace_of_calls([Call("aten::mm", 0, 10)])).device is None


def test_terminal_and_json_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "made.stepscope")
    save_trace(stepped(16_000, 19_000), path)
    assert main(["summary", path, "--device", "steps"]) == 0
    out = capsys.readouterr().out
    text = "a step takes 19.0 ms on device 10 and 16.0 ms on the host: the device is the bottleneck"
    assert text in out
    assert "On the device" in device_text(stepped(16_000, 19_000), "steps", 10)
    assert main(["summary", path, "--json"]) == 0
    text = json.loads(capsys.readouterr().out)["device"]
    assert (text["step_ns"], text["host_step_ns"]) == (19_000_000, 16_000_000)
    assert (text["limit"], text["by"]) == ("device", "launches in the step")


def test_the_overview_says_it(reports: Reports) -> None:
    page = reports.open(stepped(16_000, 19_000))
    text = page.locator(".device-step").inner_text()
    assert text.startswith("A step takes 19.0 ms on device 10 and 16.0 ms on the host: ")
    assert "the device is the bottleneck" in text
