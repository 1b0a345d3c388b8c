"""A recording outlives its program: whatever ends it, what was recorded before is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from command_line import python
from recording import run_python
from stepscope.cli import main
from stepscope.cli.base.rank_folder import ranks_in
from stepscope.cli.base.rank_launch import is_job
from stepscope.errors import TraceReadWarning
from stepscope.formats import read_trace
from stepscope.record.read_back.leftovers import leftovers
from stepscope.record.read_back.sealing import sealed
from stepscope.record.stream.places import (
    MEMORY_VARIABLE,
    StreamFolders,
    is_unsealed,
    new_memory_folder,
)
from stepscope.record.stream.processes import ProcessId
from stepscope.trace.kinds import SliceFlags

# Ranges on two threads and in a worker process; then it ends without a word to Python.
DYING = """
import ctypes, multiprocessing, os, signal, sys, threading
from stepscope import _native, record_function

def emit(name, times):
    for _ in range(times):
        with record_function(name):
            pass

def work(ready):
    emit("worker", 5_000)
    _native.flush_stream()
    ready.set()
    multiprocessing.parent_process().join()

if __name__ == "__main__":
    ready = multiprocessing.Event()
    worker = multiprocessing.Process(target=work, args=(ready,), daemon=True)
    worker.start()
    other = threading.Thread(target=emit, args=("other", 5_000))
    other.start()
    other.join()
    emit("main", 5_000)
    ready.wait()
    _native.flush_stream()
    print("told", flush=True)
    with record_function("open"):
        {ending}
"""
ENDINGS = {
    "by SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "by SIGSEGV": "ctypes.string_at(0)",
    "with exit code 3": "os._exit(3)",
    "with exit code 0, past Python's own end": 'os.execvp("true", ["true"])',
}


def run_to_its_death(
    folder: Path, ending: str, memory: str = ""
) -> subprocess.CompletedProcess[str]:
    script = folder / "dying.py"
    script.write_text(DYING.replace("{ending}", ending), encoding="utf-8")
    command = [sys.executable, "-m", "stepscope", "run", "--no-report"]
    environment = {**os.environ, **({MEMORY_VARIABLE: memory} if memory else {})}
    return subprocess.run(
        [*command, "-o", str(folder / "out.stepscope"), str(script)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def ended_ranges(path: Path) -> Counter[str]:
    trace = read_trace(path)
    is_ended = trace.slices.flags & SliceFlags.UNFINISHED == 0
    return Counter(trace.strings[int(name)] for name in trace.slices.name[is_ended])


@pytest.mark.slow
@pytest.mark.parametrize("ended", ENDINGS)
def test_whatever_ends_a_program_its_trace_is_sealed_and_shown(tmp_path: Path, ended: str) -> None:
    done = run_to_its_death(tmp_path, ENDINGS[ended])
    assert done.stdout == "told\n"
    assert ended in done.stderr
    assert "nothing is missing" in done.stderr
    result = ended_ranges(tmp_path / "out.stepscope")
    assert (result["main"], result["other"], result["worker"]) == (5_000, 5_000, 5_000)
    trace = read_trace(tmp_path / "out.stepscope")
    unfinished = trace.slices.flags & SliceFlags.UNFINISHED != 0
    open_names = {trace.strings[int(name)] for name in trace.slices.name[unfinished]}
    assert {"open", "dying.py"} <= open_names
    assert not list(tmp_path.glob("*.stream.stepscope"))
    assert "SIGKILL" not in ended or done.returncode == -signal.SIGKILL


def test_without_a_tmpfs_what_was_written_to_disk_is_there(tmp_path: Path) -> None:
    done = run_to_its_death(tmp_path, ENDINGS["by SIGKILL"], memory="off")
    assert "there was no tmpfs" in done.stderr
    result = ended_ranges(tmp_path / "out.stepscope")
    assert (result["main"], result["other"], result["worker"]) == (5_000, 5_000, 5_000)


UNSEALED = """
import os, sys
from pathlib import Path
from stepscope import _native, record_function
from stepscope.cli.environment import arguments
from stepscope.cli.run.plan import RunFolders, recording_plan
from stepscope.record.inside import boot

run = RunFolders.begin(Path(sys.argv[1]), lambda claimed: {"program": "left"}, replaces=False)
run.tell(recording_plan(arguments("run:sample=off")))
os.environ[boot.VARIABLE] = run.folders.shared
boot.begin()
for _ in range(1_000):
    with record_function("left"):
        pass
print(run.folders.memory, flush=True)
_native.flush_stream()
os._exit(1)
"""


def left_behind(folder: Path, memory: str = "") -> tuple[Path, Path]:
    """Have a program die that nobody watches; return its folders."""
    output = folder / "left.stepscope"
    environment = {**os.environ, **({MEMORY_VARIABLE: memory} if memory else {})}
    done = subprocess.run(
        [sys.executable, "-c", UNSEALED, str(output)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return output, Path(done or ".")


def test_a_folder_that_nobody_sealed_is_read_and_cleaned(tmp_path: Path) -> None:
    output, memory = left_behind(tmp_path)
    assert is_unsealed(output)
    with pytest.warns(TraceReadWarning, match="was never sealed.*nothing is missing"):
        assert ended_ranges(output)["left"] == 1_000
    mine = [leftover for leftover in leftovers() if leftover.folders.memory == str(memory)]
    assert len(mine) == 1
    assert mine[0].clean() == output
    assert not memory.exists()
    assert not is_unsealed(output)
    assert ended_ranges(output)["left"] == 1_000


def test_verbs_name_seal_and_clean_what_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "memory"  # of this test alone: what others leave is not cleaned
    base.mkdir()
    monkeypatch.setenv(MEMORY_VARIABLE, str(base))
    output, memory = left_behind(tmp_path, memory=str(base))
    assert main(["ps"]) == 0
    listed = capsys.readouterr().out
    assert "left, process" in listed
    assert str(output) in listed
    # The ranks of a job may have been saved in the folder of the program that started them.
    (output / "rank-0.stepscope").mkdir()
    assert is_job(str(output))
    with pytest.warns(TraceReadWarning, match="was never sealed"):
        sealed(output)
    assert (output / "rank-0.stepscope").is_dir()
    (output / "rank-0.stepscope").rmdir()
    assert not is_job(str(output))
    assert main(["summary", str(output)]) == 0
    assert "was never sealed" in capsys.readouterr().err
    assert not is_unsealed(output)
    assert not memory.exists()
    assert main(["ps", "--dead"]) == 0
    assert "no program has left anything" in capsys.readouterr().out


@pytest.mark.slow
def test_a_rank_that_is_killed_leaves_its_trace_in_the_folder_of_its_job(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    for rank in ("0", "1"):
        words = ("-m", "stepscope", "run", "-o", "job", "-c", code)
        done = python(*words, cwd=tmp_path, RANK=rank, WORLD_SIZE="2")
        assert done.returncode == -signal.SIGKILL
        assert "by SIGKILL" in done.stderr
    assert "rank 1 ended by SIGKILL; saved job/rank-1.stepscope" in done.stderr
    ranks = ranks_in(tmp_path / "job")
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == [
        path.name for path in ranks.values()
    ]
    assert [read_trace(path).info.rank for path in ranks.values()] == [0, 1]


def test_segments_that_were_cut_give_back_all_that_is_whole(tmp_path: Path) -> None:
    output, _ = left_behind(tmp_path, memory="off")
    (segments,) = output.glob("*.segments")
    whole = segments.read_bytes()
    counts = []
    for size in range(len(whole), 0, -max(len(whole) // 20, 1)):
        segments.write_bytes(whole[:size])
        with pytest.warns(TraceReadWarning, match="was never sealed"):
            counts.append(ended_ranges(output)["left"])
    assert counts[0] == 1_000
    assert counts == sorted(counts, reverse=True)
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 0xFF
    segments.write_bytes(damaged)
    with pytest.warns(TraceReadWarning, match="damaged"):
        read_trace(output)


def test_what_belongs_to_a_living_program_is_no_leftover(tmp_path: Path) -> None:
    memory = new_memory_folder()
    if memory is None:
        pytest.skip("there is no tmpfs here")
    folders = StreamFolders(str(tmp_path), str(memory), ProcessId.own())
    folders.write()
    try:
        assert folders.owner.is_alive()
        assert str(memory) not in {leftover.folders.memory for leftover in leftovers()}
    finally:
        folders.forget_memory()
    assert not memory.exists()


RANKS = """
import os, signal, subprocess, sys
rank = '''
import os, signal
from stepscope import record_function
for _ in range(500):
    with record_function("of the rank"):
        pass
if os.environ["RANK"] == "1": os.kill(os.getpid(), signal.SIGKILL)
'''
for number in ("0", "1"):
    places = {"RANK": number, "WORLD_SIZE": "2", "LOCAL_RANK": number}
    done = subprocess.run([sys.executable, "-c", rank], env={**os.environ, **places})
print(done.returncode, flush=True)
if len(sys.argv) > 1: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("starter_dies", [False, True])
@pytest.mark.slow
def test_a_rank_that_the_program_started_is_there_after_it_was_killed(
    tmp_path: Path, starter_dies: bool
) -> None:
    (tmp_path / "ranks.py").write_text(RANKS, encoding="utf-8")
    words = ("-m", "stepscope", "run", "--no-report", "--no-summary", "-o", "job.stepscope")
    done = python(*words, "ranks.py", *["die"] * starter_dies, cwd=tmp_path)
    assert done.stdout == f"{-signal.SIGKILL}\n"
    assert "rank 1 ended abnormally: nothing is missing; saved rank-1.stepscope" in done.stderr
    assert "rank 0 ended" not in done.stderr
    names = sorted(path.name for path in (tmp_path / "job.stepscope").iterdir())
    assert names == ["rank-0.stepscope", "rank-1.stepscope"]
    for path in ranks_in(tmp_path / "job.stepscope").values():
        assert ended_ranges(path)["of the rank"] == 500


def test_a_program_with_the_variable_is_streamed_too(tmp_path: Path) -> None:
    code = """
import os, signal
from stepscope import record_function
for _ in range(500):
    with record_function("named"):
        pass
print("told", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    (tmp_path / "named.py").write_text(code, encoding="utf-8")
    done = python("named.py", cwd=tmp_path, STEPSCOPE="run:no-report,output=out.stepscope")
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "told\n")
    assert "ended     by SIGKILL" in done.stderr
    assert "-m stepscope summary out.stepscope" in done.stderr
    assert ended_ranges(tmp_path / "out.stepscope")["named"] == 500


@pytest.mark.parametrize("memory", ["", "off"])
def test_a_program_that_closes_all_files_keeps_its_own(tmp_path: Path, memory: str) -> None:
    code = """
import os
from stepscope import _native, record_function
os.closerange(3, 4096)
files = [open(f"file-{number}", "w+b") for number in range(12)]
for _ in range(50_000):
    with record_function("after"):
        pass
_native.flush_stream()
"""
    (tmp_path / "closing.py").write_text(code, encoding="utf-8")
    words = ("-m", "stepscope", "run", "--no-summary", "-o", "out.stepscope")
    chosen = {MEMORY_VARIABLE: memory} if memory else {}
    done = python(*words, "closing.py", cwd=tmp_path, **chosen)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Bad file" not in done.stderr
    assert [path.stat().st_size for path in tmp_path.glob("file-*")] == [0] * 12
    assert ended_ranges(tmp_path / "out.stepscope")["after"] == 50_000
    assert not list(tmp_path.glob("*.segments"))


def test_without_a_thread_that_writes_to_disk_the_user_is_told(tmp_path: Path) -> None:
    done = run_python(
        """
        import resource, sys
        from pathlib import Path
        from stepscope import _native

        before = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(), before[1]))
        _native.start_stream("", sys.argv[1], 1 << 30)  # there is no room for a stack
        resource.setrlimit(resource.RLIMIT_AS, before)
        print(_native.stream_obstacle())
        """,
        str(tmp_path / "segments"),
    )
    assert (done.returncode, done.stdout) == (0, "the system gives no further thread\n"), (
        done.stderr
    )


FORKED = """
import os, sys
from stepscope import _native, record_function

def start(name):
    os.mkdir(name)
    assert _native.start_stream(name, name + "/segments", 64 << 20)
    window = _native.open_window(0, False)
    with record_function(name):
        pass
    return _native.end_window(window)

held = [start("parent")]
child = os.fork()
if child:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    names = held[0].columns()["blob"]
    os._exit(status or b"parent" not in names)
own = start("child")
try:
    held[0].columns()
except RuntimeError as error:
    assert str(os.getppid()) in str(error), error
held.clear()
window = _native.open_window(0, False)
with record_function("child's second"):
    pass
assert b"child's second" in _native.close_window(window)["blob"]
assert b"child" in own.columns()["blob"]
"""


def test_a_forked_child_has_nothing_of_what_its_parent_streams(tmp_path: Path) -> None:
    done = python("-c", FORKED, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
