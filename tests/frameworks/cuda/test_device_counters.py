"""Hardware counters of devices, from what PM sampling would tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c_stubs import compile_library
from command_line import python, script, stepscope_run
from made_steps import BASE, steps
from stepscope.analysis.answer import answer
from stepscope.analysis.device.counters import counter_means, device_counters
from stepscope.frameworks.cuda.counter_columns import hardware_counters_captured, on_our_clock
from stepscope.trace.build import build
from stepscope.trace.join import merge_parts

NAMES = ["SM active", "DRAM throughput", "tensor pipe"]
AHEAD_NS = 1_700_000_000_000_000_000  # the device's clock is not ours


def device(**facts: Any) -> dict[str, Any]:
    defaults = {"number": 0, "obstacle": "", "metrics": ["sm", "", "tensor"], "chip": "GH100"}
    bounds = [(AHEAD_NS, -500, 500), (AHEAD_NS + 12_000_000, 11_999_900, 12_000_300)]
    return defaults | {"bounds": bounds, "overflowed": False} | facts


def samples() -> dict[str, Any]:
    """Return a sample every ms of 12 steps: half of them full, half empty."""
    count = 12
    full = np.where(np.arange(count) < 6, 100_000, 0)
    return {
        "start_ns": AHEAD_NS + 1_000_000 * np.arange(count),
        "end_ns": AHEAD_NS + 1_000_000 * np.arange(1, count + 1),
        "device": np.zeros(count, np.int64),
        "counter0": full,
        "counter1": np.full(count, -1),
        "counter2": np.full(count, 33_400),
    }


def test_counters_of_the_steps() -> None:
    made = steps(BASE, count=12)
    part = hardware_counters_captured(samples(), [device()], NAMES)
    assert part is not None
    trace = build(merge_parts([made, part]), made.info)
    active, tensor = counter_means(trace)
    assert (active.name, active.most) == ("SM active", 1.0)
    assert active.mean == pytest.approx(0.5, abs=1e-3)
    assert (tensor.name, tensor.mean) == ("tensor pipe", pytest.approx(0.33))
    curves = device_counters(trace)
    assert [(curve.name, curve.unit) for curve in curves] == [
        ("SM active", "%"),
        ("tensor pipe", "%"),
    ]
    assert curves[0].time_ns[1] - curves[0].time_ns[0] == 1_000_000
    assert abs(int(curves[0].time_ns[0])) <= 300
    summaries = answer(trace).to_json()["counters"]
    assert [summary["device"] for summary in summaries] == ["0", "0"]


def test_a_device_without_counters() -> None:
    assert hardware_counters_captured(samples(), [device(obstacle="no rights")], NAMES) is None
    assert hardware_counters_captured(samples(), [], NAMES) is None


def test_the_clocks_of_device_and_host() -> None:
    def shift(*bounds: tuple[int, int, int]) -> int:
        return int(on_our_clock(np.array([5_000]), bounds)[0]) - 5_000

    assert shift() == 0
    assert shift((1_000, 10, 20)) == -985
    assert shift((1_000, 10, 20), (2_000, 1_012, 1_050)) == -984
    assert shift((0, 10, 20), (1_000, 10, 20)) == -985  # the first was never told


def test_a_device_that_counts_ticks_of_half_a_ns() -> None:
    bounds = [(4_000_000_000, 100, 200), (6_000_000_000, 1_000_000_100, 1_000_000_200)]
    moments = np.array([4_000_000_000, 5_000_000_000, 6_000_000_000])
    assert on_our_clock(moments, bounds).tolist() == [150, 500_000_150, 1_000_000_150]


def test_a_run_without_a_driver(tmp_path: Path) -> None:
    program = script(tmp_path, "import stepscope\nwith stepscope.record_function('work'): pass\n")
    done = stepscope_run(
        *("--counters", "--sample", "off", "-o", "out.stepscope", str(program)),
        cwd=tmp_path,
        STEPSCOPE_CUPTI="off",
    )
    assert done.returncode == 0
    assert done.stderr.count("stepscope: hardware counters are not recorded: ") == 1
    assert "work" in done.stderr


FORKED = """
import os, sys
from stepscope import _native

sampler = _native.CounterSampler(sys.argv[1], 1_000_000, 0, False, 0, [["sm"]])
assert sampler.start()
child = os.fork()
if not child:
    del sampler
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
sampler.stop()
assert [(each["chip"], each["obstacle"]) for each in sampler.devices()] == [("stub", "")]
"""


def test_a_forked_child_leaves_the_counters_to_its_parent(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"  # the name under which the driver is looked for
    stub = Path(__file__).with_name("pm_stub.c")
    compile_library(stub, library, f"-Wl,-soname,{library.name}")
    done = python("-c", FORKED, str(library), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
