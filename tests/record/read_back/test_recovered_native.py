"""What native sources keep is the same whether their process hands it over or leaves it behind."""

from __future__ import annotations

import re
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from c_stubs import compile_library
from command_line import script
from inside import Ended, run_inside
from stepscope.frameworks.cuda.options import wanted_records
from stepscope.record.read_back.recovering import captured_of, trace_of
from stepscope.record.stream.left_behind import LeftBehind
from stepscope.record.stream.places import StreamFolders
from stepscope.record.stream.processes import ProcessId
from stepscope.trace.model import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

DEVICE_TESTS = Path(__file__).parents[2] / "frameworks" / "cuda"

# Records by itself while its process leaves a stream, and saves what it has recorded.
RECORDED = """
import sys
from stepscope import _native, record_function
from stepscope.record.limits import Keep, MemoryLimit
from stepscope.record.recorder import Recorder
{imports}
recorder = Recorder({sources}, {limit})
recorder.prepare()
recorder.start()
{body}
recorder.stop().save(sys.argv[1])
"""
NOTHING_ELSE = {"sample_ns": "0", "tasks": "0", "gc_ns": ""}


def both(
    folder: Path,
    body: str,
    *,
    imports: str = "",
    sources: str = "[]",
    limit: str = "None",
    plan: Mapping[str, str] = NOTHING_ELSE,
) -> tuple[Trace, Trace]:
    """Return one recording as its process saved it, and as it is recovered from its stream."""
    saved = folder / "saved.stepscope"
    program = RECORDED.format(body=body, imports=imports, sources=sources, limit=limit)
    done = run_inside(folder / "run", ["-c", program, str(saved)], plan)
    assert done.code == 0, done.err
    return Trace.load(saved), trace_left(done)


def trace_left(done: Ended) -> Trace:
    """Return what another process makes of the stream that a program has left."""
    folders = StreamFolders(f"{done.folder}/disk", str(done.folder), ProcessId.own())
    rest = LeftBehind.of(folders, str(done.pid))
    return trace_of(rest, captured_of(rest))


@pytest.mark.parametrize("keep_newest", [False, True])
def test_what_a_limit_costs_is_told(tmp_path: Path, keep_newest: bool) -> None:
    count = 5_000
    program = f"""
from stepscope import record_function
for _ in range({count}):
    with record_function("one of many"): pass
"""
    plan = {"limit_bytes": str(64 << 10), "keep_newest": str(int(keep_newest)), **NOTHING_ELSE}
    trace = trace_left(run_inside(tmp_path / "run", ["-c", program], plan))
    lost = trace.info.losses
    assert (lost.policy, lost.limit_bytes) == ("oldest" if keep_newest else "newest", 64 << 10)
    remaining = list(trace.names()).count("one of many")
    assert 0 < remaining < count // 2
    imports = 50  # that may be lost, too
    assert count - remaining <= lost.events < count - remaining + imports


SAMPLER = "from stepscope.frameworks.python.sampler import Sampler"
SAMPLED = "while sampler.progress()[1] < 20: pass"


def test_what_the_sampler_did_is_told(tmp_path: Path) -> None:
    sources = "[sampler := Sampler(1_000_000)]"
    saved, result = both(tmp_path, SAMPLED, imports=SAMPLER, sources=sources)
    assert re.match(r"every .*, using .*% of a core", result.info.sources["sampler"])
    assert result.info.sources["sampler"] == saved.info.sources["sampler"]


def sampled_rows(trace: Trace) -> list[tuple[Any, ...]]:
    """Return the samples of a trace, with all that their columns refer to."""
    samples = trace.samples
    stacks = [
        [trace.strings[i] for i in trace.stacks.frames(row)] for row in samples.stack.tolist()
    ]
    tids = [trace.tracks[track].tid for track in samples.track.tolist()]
    numbers = (samples.time_ns, samples.duration_ns, samples.state, samples.wait)
    return sorted(
        zip(*(column.tolist() for column in numbers), tids, map(str, stacks), strict=True)
    )


def test_samples_are_as_long_as_they_were(tmp_path: Path) -> None:
    waits = """
import threading
def wait(seconds): threading.Event().wait(seconds)
for seconds in (0.4, 0.01, 0.3): wait(seconds)
"""
    sources = "[sampler := Sampler(1_000_000)]"
    saved, result = both(tmp_path, waits + SAMPLED, imports=SAMPLER, sources=sources)
    rows = sampled_rows(saved)
    assert max(row[1] for row in rows) > 300_000_000
    assert sampled_rows(result) == rows


def test_samples_that_a_limit_costs_are_counted(tmp_path: Path) -> None:
    many = "while sampler.progress()[1] < 5_000: pass"
    sources = "[sampler := Sampler(100_000, MemoryLimit(64 << 10), budget=1.0)]"
    saved, result = both(tmp_path, many, imports=SAMPLER, sources=sources)
    assert saved.info.losses.events > 0
    assert result.info.losses.events == saved.info.losses.events


def test_what_the_sampler_of_a_killed_program_did_is_told(tmp_path: Path) -> None:
    program = "import os\nn = 0\nwhile n < 3e7: n += 1\nos.kill(os.getpid(), 9)"
    done = run_inside(tmp_path / "run", ["-c", program])
    assert done.code == -signal.SIGKILL
    result = trace_left(done).info.sources["sampler"]
    assert re.match(r"every .*, using .*% of a core", result)


# ---- memory that is held

HELD = """
import time, torch
kept = []

def block():
    return torch.empty(16 << 20, dtype=torch.uint8)

for _ in range(5):
    kept.append(block())
short = block()
del short
gone = kept.pop()
until = time.monotonic() + 0.3
while time.monotonic() < until: pass
del gone
"""
TORCH = """
from stepscope.record.options import RecordOptions
from stepscope.record.source import make_sources
import torch
"""


def held_rows(trace: Trace) -> list[tuple[Any, ...]]:
    """Return the blocks that ``block`` has allocated, with all that their columns refer to."""
    blocks = trace.held
    stacks = [[trace.strings[i] for i in trace.stacks.frames(row)] for row in blocks.stack.tolist()]
    tids = [trace.tracks[track].tid for track in blocks.track.tolist()]
    devices = [trace.strings[device] for device in blocks.device.tolist()]
    numbers = (blocks.time_ns, blocks.duration_ns, blocks.size, blocks.is_held)
    columns = (column.tolist() for column in numbers)
    rows = zip(*columns, tids, devices, map(str, stacks), strict=True)
    return sorted(row for row in rows if ": block" in row[-1])


@needs_torch
def test_memory_that_is_held_has_its_lines(tmp_path: Path) -> None:
    sources = "make_sources(RecordOptions(held_memory=True))"
    saved, result = both(tmp_path, HELD, imports=TORCH, sources=sources)
    rows = held_rows(saved)
    assert sorted(row[3] for row in rows) == [0, 1, 1, 1, 1]
    # The process has its own sample of all memory, which goes on after the recording that is saved.
    assert sorted(row[2:] for row in held_rows(result)) == sorted(row[2:] for row in rows)


@needs_torch
def test_memory_that_a_killed_program_held_has_its_lines(tmp_path: Path) -> None:
    program = script(tmp_path, HELD + "import os\nos.kill(os.getpid(), 9)")
    done = run_inside(tmp_path / "run", [str(program)], held_memory=True)
    assert done.code == -signal.SIGKILL
    rows = held_rows(trace_left(done))
    assert sorted(row[3] for row in rows) == [0, 1, 1, 1, 1]
    assert all("program.py(6): block" in str(row[6]) for row in rows)


# ---- devices


def counter_rows(trace: Trace) -> list[tuple[Any, ...]]:
    """Return the readings of a trace, with all that their columns refer to."""
    marks = trace.marks
    return [
        (trace.strings[name], time, trace.tracks[track].pid, marks.args.of_row(row, trace.strings))
        for row, (name, time, track) in enumerate(
            zip(marks.name.tolist(), marks.time_ns.tolist(), marks.track.tolist(), strict=True)
        )
        if trace.tracks[track].thread_name == "counters"
    ]


@pytest.fixture
def nvml(tmp_path: Path) -> Path:
    compile_library(DEVICE_TESTS / "nvml_stub.c", tmp_path / "nvml.so")
    return tmp_path / "nvml.so"


POWERED = "while power.reading.counts()['passes'] < 10: pass"
POWER = """
import os
from stepscope.frameworks.cuda.power import Power
os.environ["STEPSCOPE_NVML"] = {path!r}
"""


def test_readings_of_power(tmp_path: Path, nvml: Path) -> None:
    imports = POWER.format(path=str(nvml))
    saved, result = both(tmp_path, POWERED, imports=imports, sources="[power := Power()]")
    rows = counter_rows(saved)
    assert {"power", "clocks", "temperature", "energy", "limits"} <= {row[0] for row in rows}
    assert counter_rows(result) == rows


COUNTERS = """
from stepscope.frameworks.cuda.counter_source import METRICS, HardwareCounters

class Counters(HardwareCounters):
    def made(self):
        candidates = [list(names) for names in METRICS.values()]
        return _native.CounterSampler({path!r}, 1_000_000, 0, False, 0, candidates)
"""
COUNTED = "while len(counters.reading.columns()['end_ns']) < 3: pass"


def test_hardware_counters(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"  # the name under which the driver is looked for
    compile_library(DEVICE_TESTS / "pm_stub.c", library, "-DSAMPLES", f"-Wl,-soname,{library.name}")
    imports = COUNTERS.format(path=str(library))
    saved, result = both(tmp_path, COUNTED, imports=imports, sources="[counters := Counters()]")
    rows = counter_rows(saved)
    assert {row[0] for row in rows} == {"SM active", "DRAM throughput", "tensor pipe"}
    assert len(rows) >= 9
    assert counter_rows(result) == rows


def test_hardware_counters_of_a_killed_program(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    compile_library(DEVICE_TESTS / "pm_stub.c", library, "-DSAMPLES", f"-Wl,-soname,{library.name}")
    code = f"""
import os
from stepscope import _native
{COUNTERS.format(path=str(library))}
counters = Counters()
counters.start()
{COUNTED}
os.kill(os.getpid(), 9)
"""
    done = run_inside(tmp_path / "run", ["-c", code], NOTHING_ELSE)
    assert done.code == -signal.SIGKILL
    rows = counter_rows(trace_left(done))
    assert len(rows) >= 9
    assert all(row[3] == {"%": 50} for row in rows)


def device_rows(trace: Trace) -> list[tuple[Any, ...]]:
    """Return the device's work, its waits and the nodes of graphs, but for their times."""
    slices, texts = trace.slices, trace.strings
    categories = {"kernel", "cuda_sync", "cuda_graph_node"}
    return sorted(
        (
            texts[category],
            trace.name_of(row),
            trace.tracks[int(slices.track[row])].tid,
            str(slices.args.of_row(row, texts)),
            str([texts[i] for i in trace.stacks.frames(int(slices.stack[row]))]),
        )
        for row, category in enumerate(slices.category.tolist())
        if texts[category] in categories
    )


CUPTI = """
import ctypes, os
os.environ["STEPSCOPE_CUPTI"] = {path!r}
from stepscope.frameworks.cuda.activity import CudaActivity, load_cupti
load_cupti()

def capture():
    _native.note_graph_node(0x1234)
    _native.note_graph_clone(0x9000, 0x1234)
    ctypes.CDLL({path!r}).cuptiActivityFlushAll(0)  # later waits are our own
"""


@pytest.mark.parametrize("records", ["", "sync", "events,memory", "all"])
def test_work_of_a_device_that_a_graph_launched(tmp_path: Path, records: str) -> None:
    library = tmp_path / "libcupti.so"
    compile_library(DEVICE_TESTS / "cupti_stub.c", library)
    sources = f"[CudaActivity(None, {wanted_records(records)!r})]"
    imports = CUPTI.format(path=str(library))
    saved, result = both(tmp_path, "capture()", imports=imports, sources=sources)
    rows = device_rows(saved)
    assert {row[0] for row in rows} >= {"kernel", "cuda_graph_node"}
    (node,) = (row for row in rows if row[0] == "cuda_graph_node")
    assert "capture" in node[4]
    assert device_rows(result) == rows
    names = [trace.strings[name] for trace in (saved, result) for name in trace.marks.name.tolist()]
    assert names[: len(names) // 2] == names[len(names) // 2 :]
    assert bool(names) == ("memory" in records or records == "all")


def test_work_of_a_graph_of_a_killed_program(tmp_path: Path) -> None:
    library = tmp_path / "libcupti.so"
    compile_library(DEVICE_TESTS / "cupti_stub.c", library)
    code = f"""
from stepscope import _native
{CUPTI.format(path=str(library))}
activity = CudaActivity()
activity.start()
capture()
import numpy as np
own = f"{{os.environ['STEPSCOPE_RUN']}}/{{os.getpid()}}"
ids = np.array([0x9000])
while _native.RecoveredStream(own, "").graph_nodes(ids)["row"][0] < 0: pass
os.kill(os.getpid(), 9)
"""
    done = run_inside(tmp_path / "run", ["-c", code], NOTHING_ELSE)
    assert done.code == -signal.SIGKILL, done.err
    rows = device_rows(trace_left(done))
    (node,) = (row for row in rows if row[0] == "cuda_graph_node")
    assert "capture" in node[4]
    assert all("'captured node': 1" in row[3] for row in rows)
