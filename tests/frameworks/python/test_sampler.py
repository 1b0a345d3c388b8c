"""The sampler: what threads run is seen from outside, without their doing anything."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from command_line import saved_trace, script, stepscope_run
from sampling import EVERY_NS, Sampling, run_sampling, sampling, seen
from stepscope import profile, read_trace
from stepscope.frameworks.python.options import sample_interval_ns
from stepscope.frameworks.python.sampler import Sampler
from stepscope.record.options import RecordOptions
from stepscope.record.source import make_sources
from stepscope.trace.kinds import ThreadState, WaitReason
from stepscope.trace.names import RESIDENT_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = "test_sampler.py"
LOOKS = 60


def spin(recording: Sampling, times: int = LOOKS) -> None:
    while not recording.has_seen(times):
        pass


def line_of(function: Callable[..., object], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def in_file(frame: str, line: int, function: str) -> bool:
    return frame.endswith(f"{HERE}({line}): {function}")


# ---- stacks


def test_a_function_that_does_not_return_is_the_only_one_seen() -> None:
    with sampling() as recording:
        spin(recording)
    looks = [look for look in seen(recording.trace, "MainThread") if look.frames]
    spinning = [i for i, look in enumerate(looks) if any("): spin" in f for f in look.frames)]
    inside = looks[spinning[0] : spinning[-1] + 1]  # what is before and after it is not its own
    assert len(inside) > LOOKS // 2
    own = [[frame for frame in look.frames if HERE in frame] for look in inside]
    line, caller = (
        line_of(spin, "while not"),
        line_of(test_a_function_that_does_not_return_is_the_only_one_seen, "spin(recording)"),
    )
    test = "test_a_function_that_does_not_return_is_the_only_one_seen"
    for frames in own:
        assert in_file(frames[-1], caller, test), frames
    named = {re.sub(r"\(\d+\)", "", frame) for frames in own for frame in frames[:-1]}
    assert named == {frame for frame in named if frame.endswith((": spin", ": Sampling.has_seen"))}
    assert any(in_file(frame, line, "spin") for frames in own for frame in frames)


def test_a_generator_is_never_seen_without_its_caller() -> None:
    """Between two values it has none, and it may be there again when its thread is looked at."""

    def values() -> Iterator[int]:
        while not recording.has_seen(10 * LOOKS):
            yield from range(1000)

    with sampling() as recording:
        for _ in values():
            pass
    looks = [look.frames for look in seen(recording.trace, "MainThread")]
    inside = [i for i, frames in enumerate(looks) if any(".values" in frame for frame in frames)]
    assert inside
    test = ": test_a_generator_is_never_seen_without_its_caller"
    for frames in looks[inside[0] : inside[-1]]:
        assert any(frame.endswith(test) for frame in frames), frames


def test_frames_are_those_that_python_shows() -> None:
    expected: list[str] = []

    def inner(recording: Sampling) -> None:
        frame = sys._getframe()
        expected.append(frame.f_code.co_qualname)
        while (caller := frame.f_back) is not None:
            expected.append(caller.f_code.co_qualname)
            frame = caller
        spin(recording)

    with sampling() as recording:
        [inner(argument) for argument in [recording]]
    deep = next(look for look in seen(recording.trace, "MainThread") if "spin" in look.frames[0])
    names = [frame.partition("): ")[2] for frame in deep.frames]
    assert names[0] == "spin"
    assert names[1 : 1 + len(expected)] == expected


def test_generators_and_coroutines_are_part_of_the_stack() -> None:
    def numbers(recording: Sampling) -> Iterator[int]:
        spin(recording)
        yield 1

    async def inner(recording: Sampling) -> int:
        return sum(numbers(recording))

    async def outer(recording: Sampling) -> int:
        return await inner(recording)

    with sampling() as recording:
        asyncio.run(outer(recording))
    stacks = [look.frames for look in seen(recording.trace, "MainThread")]
    names = [[frame.rpartition(".")[2] for frame in frames if HERE in frame] for frames in stacks]
    assert ["numbers", "inner", "outer"] in [frames[-4:-1] for frames in names]


def test_a_deep_stack_keeps_its_inner_and_its_outer_end() -> None:
    def dive(depth: int, recording: Sampling) -> None:
        if depth:
            dive(depth - 1, recording)
        else:
            spin(recording)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(6_000)
    try:
        with sampling() as recording:
            dive(5_000, recording)
    finally:
        sys.setrecursionlimit(limit)
    deepest = next(
        look.frames
        for look in seen(recording.trace, "MainThread")
        if any(frame.endswith(": spin") for frame in look.frames[:2])
    )
    names = [frame.rpartition(".")[2].rpartition(" ")[2] for frame in deepest]
    assert names.count("dive") > 1_000
    cut = deepest.index("<frames that are left out>")
    assert "dive" in names[cut - 1]
    outer = names[cut + 1 :]
    assert "test_a_deep_stack_keeps_its_inner_and_its_outer_end" in outer
    assert len(deepest) < 1_200


def test_code_that_takes_the_place_of_other_code_has_its_own_name() -> None:
    source = "def made(recording, times):\n    while not recording.has_seen(times):\n        pass\n"
    with sampling() as recording:
        for number in range(20):
            names: dict[str, Any] = {}
            exec(compile(source, f"<made {number}>", "exec"), names)
            names["made"](recording, (number + 1) * 10)
    order = [
        int(match[1])
        for look in seen(recording.trace, "MainThread")
        if (match := re.search(r"<made (\d+)>", " ".join(look.frames)))
    ]
    assert order == sorted(order)
    assert len(set(order)) > 10


def test_the_profiler_itself_is_not_shown() -> None:
    with profile(sample=EVERY_NS / 1e9) as profiler:
        total = 0
        for i in range(300_000):
            total += i
    frames = {frame for look in seen(profiler.trace) for frame in look.frames}
    assert any(HERE in frame for frame in frames)
    assert not [frame for frame in frames if "stepscope/" in frame]


@pytest.mark.slow
def test_stepscope_run_shows_the_program_and_not_its_launcher(tmp_path: Path) -> None:
    script, output = str(tmp_path / "program.py"), str(tmp_path / "program.stepscope")
    Path(script).write_text("x = 0\nfor i in range(3_000_000):\n    x += i\n")
    done = stepscope_run("--no-summary", "--no-report", "-o", output, script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trace = read_trace(output)
    rows = trace.samples.stack
    stacks = [[trace.strings[i] for i in trace.stacks.frames(int(row))] for row in rows]
    assert trace.info.sources["sampler"].startswith("every ")
    inside = [frames for frames in stacks if any("program.py" in frame for frame in frames)]
    assert inside
    assert {frames[-1].partition("(")[0] for frames in inside} == {"program.py"}


@pytest.mark.slow
def test_programs_that_the_program_runs_are_called_by_its_lines(tmp_path: Path) -> None:
    """Our wrapper around the start of a process hides nothing but itself."""
    program = script(
        tmp_path,
        "import subprocess, sys\n"
        "def ask():\n"
        "    subprocess.run([sys.executable, '-S', '-c', ''])\n"
        "for _ in range(60):\n"
        "    ask()\n",
    )
    done = stepscope_run("--no-summary", "--no-report", str(program), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trace = saved_trace(tmp_path)
    frames = [look.frames for look in seen(trace, "MainThread")]
    runs = [
        at for at, stack in enumerate(frames) if any(frame.endswith(": ask") for frame in stack)
    ]
    assert runs
    assert {stack[-1].partition("(")[0] for stack in frames[runs[0] : runs[-1]]} == {"program.py"}


# ---- threads


def test_threads_have_their_names_and_durations_do_not_overlap() -> None:
    all_looked_at = threading.Event()

    def wait_and_spin() -> None:
        all_looked_at.wait()
        spin(recording)

    with sampling() as recording:
        threads = [threading.Thread(target=wait_and_spin, name=f"spinner {i}") for i in range(3)]
        for thread in threads:
            thread.start()
        recording.look_again(3)
        all_looked_at.set()
        for thread in threads:
            thread.join()
    trace = recording.trace
    names = {track.thread_name for track in trace.tracks}
    assert {"MainThread", "spinner 0", "spinner 1", "spinner 2"} <= names
    for track in np.unique(trace.samples.track):
        rows = np.flatnonzero(trace.samples.track == track)
        ends = trace.samples.end_ns[rows]
        assert (ends[:-1] <= trace.samples.time_ns[rows][1:]).all()
        assert (trace.samples.duration_ns[rows] >= 0).all()


def test_a_thread_that_does_not_run_is_one_sample() -> None:
    gate = threading.Lock()
    gate.acquire()
    with sampling() as recording:
        thread = threading.Thread(target=gate.acquire, name="waiter")
        thread.start()
        recording.look_again(200)
        gate.release()
        thread.join()
    waits = [look for look in seen(recording.trace, "waiter") if look.state is ThreadState.BLOCKED]
    assert 0 < len(waits) < 20
    assert waits[-1].wait is WaitReason.LOCK


@pytest.mark.slow
def test_a_thread_of_the_system_has_its_cpu_time_and_its_name() -> None:
    code = """
import ctypes, json, threading, time
import numpy as np
import torch
torch.set_num_threads(3)
from sampling import sampling
with sampling() as recording:
    a = torch.ones(600, 600)
    while not recording.has_seen(2000):
        a = (a @ a).clamp(-1, 1)
trace = recording.trace
python = {t.native_id for t in threading.enumerate()}
others = [i for i, track in enumerate(trace.tracks) if int(track.tid) not in python]
rows = np.isin(trace.samples.track, others)
print(json.dumps([len(others), int(trace.samples.duration_ns[rows].sum()),
                  trace.samples.stack[rows].tolist(), trace.samples.state[rows].tolist(),
                  [trace.tracks[i].thread_name for i in others]]))
"""
    pytest.importorskip("torch")
    done = run_sampling(code)
    assert done.returncode == 0, done.stderr
    count, used_ns, stacks, states, names = json.loads(done.stdout.splitlines()[-1])
    assert count >= 1
    assert used_ns > 0
    assert set(stacks) == {0}
    assert ThreadState.NATIVE in states
    assert set(states) <= {ThreadState.NATIVE, ThreadState.READY}  # or had no core
    assert all(names)


def test_memory_is_a_counter() -> None:
    with sampling() as recording:
        spin(recording, 400)
    marks, strings = recording.trace.marks, recording.trace.strings
    assert {strings[int(name)] for name in marks.name} == {RESIDENT_MEMORY}
    assert {chr(phase) for phase in marks.phase} == {"C"}
    sizes = [marks.args.of_row(row, strings)["bytes"] for row in range(len(marks))]
    assert min(sizes) > 1 << 20


def test_what_is_recorded_does_not_grow_the_process_that_is_told() -> None:
    """The memory of the recording is not the program's."""
    done = run_sampling("""
from sampling import sampling
from stepscope import record_function

def record(events):
    for _ in range(events):
        with record_function("range"):
            pass

with sampling() as recording:
    record(100_000)
    recording.look_again(400)
    record(600_000)
    recording.look_again(400)
marks = recording.trace.marks
print([marks.args.of_row(row, recording.trace.strings)["bytes"] for row in range(len(marks))])
""")
    assert done.returncode == 0, done.stderr
    sizes = json.loads(done.stdout)
    assert sizes[-1] - sizes[len(sizes) // 4] < 16 << 20  # of 38 MiB for records


# ---- options


@pytest.mark.parametrize(
    ("given", "interval_ns"),
    [
        *(("1ms", 1_000_000), ("0.5 ms", 500_000), ("100us", 100_000), ("250µs", 250_000)),
        *((0.002, 2_000_000), ("1s", 10**9), ("100000ns", 100_000), (True, 1_000_000)),
        *(("off", 0), (False, 0), (None, 0)),
    ],
)
def test_intervals(given: object, interval_ns: int) -> None:
    assert sample_interval_ns(given) == interval_ns


@pytest.mark.parametrize(
    "given",
    ["0", "0ms", "-1ms", "1", "1m", "", "fast", "99us", "1.1s", 0, -0.001, 5, float("nan"), 1e99],
)
def test_a_bad_interval_is_refused_with_the_range(given: object) -> None:
    with pytest.raises(ValueError, match=r"0\.1ms to 1s") as refused:
        make_sources(RecordOptions(sample=given))
    assert repr(given) in str(refused.value)


def test_it_is_off_unless_asked_for() -> None:
    def is_sampler(options: RecordOptions) -> bool:
        return any(isinstance(source, Sampler) for source in make_sources(options))

    assert not is_sampler(RecordOptions())
    assert not is_sampler(RecordOptions(sample="off"))
    assert is_sampler(RecordOptions(sample="1ms"))


def test_states_are_numbered_as_the_native_side_does() -> None:
    assert [state.name for state in ThreadState] == ["PYTHON", "NATIVE", "GIL", "BLOCKED", "READY"]
    assert [reason.name for reason in WaitReason] == [
        *("UNKNOWN", "SLEEP", "LOCK", "FILE", "SOCKET", "PIPE", "PROCESS", "POLL"),
    ]
