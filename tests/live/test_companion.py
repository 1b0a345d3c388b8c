"""What is asked of a program under `stepscope run`, and captured of it, while it runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from command_line import stepscope_run
from recording import SOURCE_DIR
from stepscope import _native, read_trace
from stepscope.errors import StepscopeError
from stepscope.live.client import ask, living
from stepscope.record.stream.notes import NOTICES
from stepscope.record.stream.places import read_folders
from supervising import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepscope import Trace

# It goes on until its standard input ends.
WAITING = """
import sys, threading, time
import stepscope
from stepscope import record_function
for i in range(3):
    with record_function(f"ProfilerStep#{i}"):
        pass
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCOPE_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def started() -> Iterator[Any]:
    """Start programs below `stepscope run`; what is left of them at the end is ended."""
    programs = []

    def start(
        code: str, *options: str, begin: tuple[str, ...] = ("-m", "stepscope", "run"), **env: str
    ) -> subprocess.Popen[str]:
        quiet = ["-q", "--no-report", "-o", "out.stepscope"] if begin else []
        program = subprocess.Popen(
            [sys.executable, *begin, *quiet, *options, "-c", code],
            env={**os.environ, "PYTHONPATH": str(SOURCE_DIR), **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        programs.append(program)
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        return program

    yield start
    for program in programs:
        program.communicate(timeout=PATIENCE_S)


def status() -> dict[str, Any]:
    """Return what the one program says of itself, once it can be asked."""
    collected: list[dict[str, Any]] = []

    def is_there() -> bool:
        collected[:] = living()
        return bool(collected)

    wait_until(is_there, "a program that can be asked")
    (result,) = collected
    return result


def captures(folder: Path) -> list[Trace]:
    """Return the captures in a folder, the first one first."""
    paths = sorted(path.parent for path in folder.glob("*-capture-*.stepscope/meta.json"))
    return [read_trace(path) for path in paths if not path.name.startswith(".")]


def reasons(folder: Path) -> list[str]:
    return [trace.info.user["capture"]["reason"] for trace in captures(folder)]


@pytest.mark.parametrize("memory", ["", "off"])
def test_a_program_is_listed_and_captured(started: Any, tmp_path: Path, memory: str) -> None:
    variables = {"STEPSCOPE_STREAM_MEMORY": memory} if memory else {}
    program = started(WAITING, "--last", "60s", **variables)
    result = status()
    assert (result["recording"], result["rank"], result["program"]) == ("ring", "", "-c")
    assert result["memory_bytes"] > 1 << 20
    for pid in (result["pid"], program.pid):  # its own, and that of `stepscope run`
        assert [step[0] for step in ask(pid, {"do": "steps"})["steps"]] == [0, 1, 2]
    answer = ask(result["pid"], {"do": "capture", "reason": "a test"}, 60)
    assert answer["path"] == str(tmp_path / "out-capture-1.stepscope")
    (trace,) = captures(tmp_path)
    assert trace.info.user["capture"]["reason"] == "a test"
    assert trace.info.pid == result["pid"]
    assert "ProfilerStep#1" in trace.names()
    for wrong in ({"no_such": 1}, {"stacks": "no_such"}):
        with pytest.raises(StepscopeError, match="no_such"):
            ask(result["pid"], {"do": "capture", "options": wrong})
    with pytest.raises(StepscopeError, match="stepscope run --shapes"):
        ask(result["pid"], {"do": "capture", "options": {"shapes": True}})
    program.communicate()
    assert living() == []
    assert read_trace(tmp_path / "out.stepscope").info.pid == result["pid"]


def test_what_is_recorded_from_now_on_can_be_had_alone(started: Any, tmp_path: Path) -> None:
    code = """
import sys
from stepscope import record_function
with record_function("before"): pass
print("ready", flush=True)
for line in sys.stdin:
    with record_function("after"): pass
    print("done", flush=True)
"""
    program = started(code)
    pid = status()["pid"]
    words = [sys.executable, "-m", "stepscope", "capture", str(pid), "--seconds", "2"]
    capture = subprocess.Popen(
        [*words, "-o", "x.stepscope"], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    while capture.poll() is None:
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "done\n"
    assert capture.communicate()[0] == f"{tmp_path / 'x.stepscope'}\n"
    names = set(read_trace(tmp_path / "x.stepscope").names())
    assert "after" in names
    assert "before" not in names


def test_top_shows_what_the_program_does(started: Any) -> None:
    started(WAITING)
    words = [sys.executable, "-m", "stepscope", "top", str(status()["pid"]), "--json"]
    parsed = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    assert (parsed["count"], parsed["recording"]) == (3, "all")
    assert "verdict" in parsed["answer"]


def test_without_a_control_socket_nobody_can_ask(started: Any) -> None:
    code = WAITING.replace('print("', 'print(stepscope.capture("x"), file=sys.stderr)\nprint("')
    program = started(code, "--no-control")
    assert living() == []
    assert "--no-control" in program.communicate()[1]


def test_a_slow_step_is_captured_whole_while_the_program_runs(started: Any, tmp_path: Path) -> None:
    code = """
import sys, time
from stepscope import record_function
print("ready", flush=True)
for step in range(40):
    with record_function(f"ProfilerStep#{step}"):
        time.sleep(1.5 if step == 30 else 0.01)
sys.stdin.read()
"""
    started(code, "--last", "60s", "--on-slow-step", "2x", "--captures", "3")

    def is_captured() -> bool:
        return any(_slow_step(trace, 30) for trace in captures(tmp_path))

    wait_until(is_captured, "a capture of step 30")
    trace = next(trace for trace in captures(tmp_path) if _slow_step(trace, 30))
    row = list(trace.names()).index("ProfilerStep#30")
    assert trace.slices.duration_ns[row] >= 1_500_000_000


def _slow_step(trace: Trace, number: int) -> bool:
    steps = trace.info.user["capture"]["slow_steps"]
    return number in [step["step"] for step in steps]


def test_exceptions_of_any_thread_are_captured(tmp_path: Path) -> None:
    code = """
import threading
def fail(): raise ValueError("on a thread")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
raise KeyError("at the end")
"""
    (tmp_path / "failing.py").write_text(code)
    options = ["--on-exception", "-q", "--no-report", "-o", "out.stepscope"]
    done = stepscope_run(*options, "failing.py", cwd=tmp_path)
    assert done.returncode == 1
    text = "; ".join(reasons(tmp_path))
    assert "ValueError: on a thread" in text
    assert "KeyError: 'at the end'" in text


def test_a_signal_and_much_memory_are_captured(started: Any, tmp_path: Path) -> None:
    code = """
import subprocess, sys
held = b"x" * (200 << 20)
child = [sys.executable, "-c", "print('began', flush=True); input()"]
with subprocess.Popen(child, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as helper:
    helper.stdout.readline()
    print("ready", flush=True)
    sys.stdin.read()
"""
    program = started(code, "--on-signal", "USR2", "--on-memory", "150M", "--last", "1s")
    wait_until(lambda: bool(reasons(tmp_path)), "a capture")
    program.send_signal(signal.SIGUSR2)
    wait_until(lambda: len(reasons(tmp_path)) == 2, "another one")
    program.communicate()
    assert program.returncode == 0
    by_memory, by_signal = reasons(tmp_path)
    assert by_memory.endswith("over 150 MiB")
    assert by_signal == "SIGUSR2"


def test_a_program_can_have_itself_captured(started: Any, tmp_path: Path) -> None:
    code = WAITING.replace('print("', 'stepscope.capture("within", "x.json", wait=True)\nprint("')
    started(code)
    trace = read_trace(tmp_path / "x.json")
    assert "ProfilerStep#2" in trace.names()


def test_each_rank_is_a_program_of_its_own(started: Any, tmp_path: Path) -> None:
    code = """
import os, subprocess, sys
if "RANK" in os.environ:
    from stepscope import record_function
    with record_function("of rank " + os.environ["RANK"]): pass
    print("began", flush=True)
    sys.stdin.read()
else:
    ranks = [
        subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) for rank in range(2)
    ]
    for rank in ranks: rank.stdout.readline()
    print("ready", flush=True)
    sys.stdin.read()
    for rank in ranks: rank.communicate()
"""
    started(code)
    wait_until(lambda: len(living()) == 2, "two ranks")
    by_name = {item["rank"]: item["pid"] for item in living()}
    assert set(by_name) == {"0", "1"}
    answer = ask(by_name["1"], {"do": "capture"}, 60)
    assert answer["path"] == str(tmp_path / "out-rank1-capture-1.stepscope")
    trace = read_trace(answer["path"])
    assert trace.info.rank == 1
    assert "of rank 1" in trace.names()
    assert "of rank 0" not in trace.names()


def test_a_program_with_the_variable_is_followed_too(started: Any, tmp_path: Path) -> None:
    code = WAITING + 'raise KeyError("at the end")'
    options = "run:last=60s,on-exception,on-signal=USR2,quiet,no-report,output=out.stepscope"
    program = started(code, begin=(), STEPSCOPE=options)
    assert status()["pid"] == program.pid
    program.send_signal(signal.SIGUSR2)
    wait_until(lambda: "SIGUSR2" in reasons(tmp_path), "a capture")
    program.communicate()
    assert program.returncode == 1
    assert "KeyError: 'at the end'" in reasons(tmp_path)


def test_a_budget_turns_off_what_costs_more(started: Any, tmp_path: Path) -> None:
    code = """
import sys, threading, time
from stepscope import record_function
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
print("ready", flush=True)
while not ended.is_set():
    for _ in range(1_000):
        with record_function("a range"): pass
    time.sleep(0)
"""
    budget = ["--overhead-budget", "0.0001%", "--stacks", "operators"]
    started(code, *budget, "--memory-limit", "1M")
    folders = read_folders(tmp_path / "out.stepscope")
    pid = str(status()["pid"])
    memory, segments = folders.memory_of(pid), folders.segments_of(pid)
    follower = _native.StreamFollower(str(memory), str(segments), [])

    def is_told() -> bool:
        follower.new_ranges()
        return "samples of what threads do are not" in follower.notes.get(NOTICES, "")

    wait_until(is_told, "the second line")
    lines = json.loads(follower.notes[NOTICES])["lines"]
    assert ["Python calls and stacks" in lines[0], "samples" in lines[1]] == [True, True]
