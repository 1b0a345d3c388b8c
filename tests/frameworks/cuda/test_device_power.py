"""Power, clocks and temperature of devices, read from a library that stands in for NVML."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from c_stubs import compile_library
from command_line import script, stepscope_run
from made_power import readings, with_power
from made_steps import BASE, steps
from report_data import PageData
from stepscope import _native
from stepscope.analysis.device.power import device_power
from stepscope.analysis.findings import Finding, Severity, find_problems
from stepscope.formats import export_trace, read_trace
from stepscope.report.base.payload import Payload
from stepscope.report.sections.kernels import add_kernels
from stepscope.report.sections.timeline import add_timeline
from stepscope.trace.model import Trace

STUB = Path(__file__).with_name("nvml_stub.c")
PROGRAM = """\
import os, time, stepscope
for i in range(6):
    with stepscope.record_function("work"):
        time.sleep(0.01)
    if i == 3 and os.fork() == 0:
        os._exit(0)  # the child has no thread that reads
time.sleep(0.1)
"""


@pytest.fixture
def libraries(tmp_path: Path) -> tuple[Path, Path]:
    """Return a present-day NVML, and an old one."""
    paths = tmp_path / "nvml.so", tmp_path / "nvml_old.so"
    for path, words in zip(paths, ([], ["-DOLD"]), strict=True):
        compile_library(STUB, path, *words)
    return paths


@pytest.mark.slow
def test_a_run_with_power(tmp_path: Path, libraries: tuple[Path, Path]) -> None:
    program = script(tmp_path, PROGRAM)
    new, old = (
        stepscope_run(
            *("--power", "--sample", "off", "-o", f"{path.stem}.stepscope", str(program)),
            cwd=tmp_path,
            STEPSCOPE_NVML=str(path),
        )
        for path in libraries
    )
    assert (new.returncode, old.returncode) == (0, 0), new.stderr + old.stderr
    line = next(line for line in new.stderr.splitlines() if line.startswith("  power"))
    assert "SM clock 1,500 of 2,000 MHz; 61 °C at most; clocks held down by power" in line
    assert "NVML, 1 device every" in new.stderr

    trace = Trace.load(tmp_path / "nvml.stepscope")
    (power,) = device_power(trace)
    assert (power.device, power.steps) == ("0", 0)
    assert (power.most_watts, power.limit_watts) == (250.0, 300.0)
    assert (power.busy_share, power.memory_share) == (pytest.approx(0.9), pytest.approx(0.4))
    assert power.held_by_heat == 0.0
    # What an older driver does not tell is left out, and its energy is what the power adds up to.
    (plain,) = device_power(Trace.load(tmp_path / "nvml_old.stepscope"))
    assert (plain.joules_by, plain.busy_share, plain.most_celsius) == ("power", None, 51.0)
    assert plain.mean_watts == pytest.approx(240.0)
    assert (plain.held_by_heat, plain.held_by_power) == (1.0, 0.0)

    export_trace(trace, tmp_path / "trace.json")
    (again,) = device_power(read_trace(tmp_path / "trace.json"))
    assert (again.readings, again.limit_watts) == (power.readings, 300.0)
    export_trace(trace, tmp_path / "trace.pftrace")
    counters = read_trace(tmp_path / "trace.pftrace").marks
    assert (counters.phase == ord("C")).sum() >= 6 * power.readings
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    assert {event["name"] for event in counters} >= {"power", "clocks", "temperature", "energy"}
    (fragment,) = {json.dumps(e["args"]) for e in counters if e["name"] == "clocks"}
    assert json.loads(fragment) == {"SM MHz": 1500, "memory MHz": 2600}


def test_a_run_without_a_driver(tmp_path: Path) -> None:
    done = stepscope_run(
        *("--power", "--sample", "off", "-o", "out.stepscope", str(script(tmp_path, PROGRAM))),
        cwd=tmp_path,
        STEPSCOPE_NVML=str(tmp_path / "none.so"),
    )
    assert done.returncode == 0
    assert done.stderr.count("power and clocks are not recorded: NVML") == 1
    assert "none.so: cannot open shared object file" in done.stderr
    assert "work" in done.stderr


def test_energy_of_a_step() -> None:
    made = steps(BASE, count=12)  # 1 ms each
    every = [100_000 * i for i in range(121)]
    counted = with_power(
        made,
        readings(
            every,
            power_mw=[200_000] * 121,
            energy_mj=[5_000 + 30 * i for i in range(121)],  # 300 W
            sm_mhz=[1_000 if i < 60 else 2_000 for i in range(121)],
            reasons=[0x4 if i < 60 else 0x1 for i in range(121)],
        ),
    )
    (power,) = device_power(counted)
    assert (power.steps, power.joules_by) == (12, "counter")
    assert power.joules_per_step == pytest.approx(0.3)
    assert (power.mean_watts, power.mean_sm_mhz) == (pytest.approx(300), pytest.approx(1_500))
    assert (power.held_by_power, power.held_by_heat) == (pytest.approx(0.5), 0.0)
    assert power.most_celsius is None
    # A counter that hardly moves tells less than the power does.
    slow = with_power(
        made, readings(every, power_mw=[200_000] * 121, energy_mj=[5_000] * 60 + [9_000] * 61)
    )
    (power,) = device_power(slow)
    assert (power.joules_by, power.joules_per_step) == ("power", pytest.approx(0.2))


def test_clocks_that_are_held_down() -> None:
    made, every = steps(BASE, count=12), [1_000_000 * i for i in range(13)]

    def finding_at(mhz: int, reasons: int) -> Finding | None:
        columns = readings(
            every, power_mw=[300_000] * 13, sm_mhz=[mhz] * 13, reasons=[reasons] * 13
        )
        problems = find_problems(with_power(made, columns))
        return next((problem for problem in problems if problem.id == "held-down-clocks"), None)

    by_power, by_heat = finding_at(1_400, 0x4), finding_at(1_400, 0x40)
    assert by_power is not None
    assert by_heat is not None
    assert by_power.title == "Device 0 runs at 70% of its clock: held down by its power limit"
    assert (by_power.severity, by_heat.severity) == (Severity.LOW, Severity.MEDIUM)
    assert "1,400 MHz of 2,000 MHz" in by_power.text
    assert finding_at(1_980, 0x4) is None  # hardly lower
    assert finding_at(1_400, 0x1) is None  # it has nothing to do


def test_a_readings_limit(libraries: tuple[Path, Path]) -> None:
    _native.load_nvml(str(libraries[0]))
    sampler = _native.PowerSampler(
        interval_ns=1_000_000, limit_bytes=3 * 56, keep_newest=True, age_ns=0, devices=[]
    )
    with pytest.raises(RuntimeError, match="no device"):
        _native.PowerSampler(1_000_000, 0, keep_newest=False, age_ns=0, devices=[7])
    sampler.start()
    while sampler.counts()["passes"] < 5:
        pass
    sampler.stop()
    counts = sampler.counts()
    assert len(sampler.columns()["time_ns"]) == 3
    assert counts["lost"] == counts["passes"] - 3


def test_the_report_has_the_curves() -> None:
    columns = readings([0, 5_000_000, 12_000_000], power_mw=[100_000, 200_000, 300_000])
    payload = Payload()
    trace = with_power(steps(BASE, count=12), columns)
    add_timeline(trace, payload)
    add_kernels(trace, payload)
    values = PageData(payload.packed()).values
    assert values["timeline.counters"] == [{"name": "power", "unit": "W", "group": "GPU 0"}]
    assert values["timeline.groups"][0]["name"] == "GPU 0"
    assert values["power.rows"] == 1
