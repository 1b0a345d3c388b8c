"""`stepscope run`: a program runs as it would without us, and leaves its trace."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from command_line import ENVIRONMENT, EXAMPLES, python, saved_trace, script, stepscope_run
from stepscope.trace.model import SliceKind, Trace

if TYPE_CHECKING:
    from pathlib import Path

WHO_AM_I = """
import sys
print(sys.argv, __name__, __file__, __spec__ and __spec__.name, __package__, sys.path[0])
print(type(__loader__).__name__, __builtins__, sys.modules["__main__"].__dict__ is globals())
import sibling
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a package and a module in it."""
    package = tmp_path / "package"
    (package / "bare").mkdir(parents=True)
    for path in (package / "__init__.py", package / "bare" / "__init__.py"):
        path.touch()
    for path in (package / "__main__.py", package / "part.py", tmp_path / "program.py"):
        path.write_text(WHO_AM_I)
    (tmp_path / "sibling.py").write_text("print('the sibling is found')")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["program.py"],
        ["./package/../program.py", "-o", "theirs", "--sort-by", "x", "-m", "--", "--help"],
        ["-m", "package", "a", "-m", "b"],
        ["-m", "package.part", "--force"],
        ["-mpackage.part"],
    ],
)
def test_a_program_sees_what_it_would_see_without_us(folder: Path, words: list[str]) -> None:
    plain = python(*words, cwd=folder)
    assert plain.returncode == 0, plain.stderr
    ours = stepscope_run("--no-summary", *words, cwd=folder)
    assert ours.stdout == plain.stdout
    assert ours.returncode == 0
    assert saved_trace(folder).info.producer == "stepscope"


def test_before_a_programs_first_line_there_is_only_what_records_it(tmp_path: Path) -> None:
    script(tmp_path, "import sys\nprint(*sorted(sys.modules))")
    plain = set(python("program.py", cwd=tmp_path).stdout.split())
    ours = set(stepscope_run("--no-summary", "program.py", cwd=tmp_path).stdout.split())
    more = {name.removeprefix("stepscope.") for name in ours - plain}
    assert more <= {
        *("_native", "record.inside.boot", "record.facts", "record.triggers"),
        *("trace.cores", "trace.variables"),
    }
    assert plain <= ours


def own_names(trace: Trace) -> set[str]:
    """Return the names in a trace; when Python collects garbage is its own affair."""
    return set(trace.names()) - {"Python garbage collection"}


LISTS_TRACES = """
import atexit, glob, os, signal, sys
atexit.register(lambda: print("at exit:", len(glob.glob("*.stepscope")), "saved"))
def fail():
    raise ValueError("the reason")
"""


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("fail()", 1),
        ("sys.exit()", 0),
        ("sys.exit(7)", 7),
        ("sys.exit('a last word')", 1),
        ("sys.excepthook = lambda *_: print('handled'); fail()", 1),
        ("exec('def broken(:')", 1),
    ],
)
def test_the_trace_is_saved_and_then_the_program_ends_its_own_way(
    tmp_path: Path, ending: str, code: int
) -> None:
    script(tmp_path, LISTS_TRACES + ending)
    plain = python("program.py", cwd=tmp_path)
    ours = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
    assert ours.returncode == plain.returncode == code
    assert ours.stdout == plain.stdout.replace("0 saved", "1 saved")
    assert ours.stderr.startswith(plain.stderr + "stepscope: saved program-")
    assert own_names(saved_trace(tmp_path)) == {"program.py"}


@pytest.mark.parametrize(
    ("name", "says"),
    [("SIGINT", "by Ctrl-C"), ("SIGTERM", "by SIGTERM"), ("SIGHUP", "by SIGHUP")],
)
def test_a_signal_ends_it_as_it_would_without_us(tmp_path: Path, name: str, says: str) -> None:
    """Whoever waits for the process sees what killed it; what Python skips then, we skip, too."""
    if signal.getsignal(signal.Signals[name]) is signal.SIG_IGN:
        pytest.skip(f"{name} is ignored here, as under nohup, and so by the children")
    script(tmp_path, LISTS_TRACES + f"os.kill(os.getpid(), signal.{name})\nprint('never')")
    plain = python("program.py", cwd=tmp_path)
    done = stepscope_run("program.py", cwd=tmp_path)
    assert done.returncode == plain.returncode == -signal.Signals[name]
    assert says in done.stderr
    assert done.stdout == plain.stdout.replace("0 saved", "1 saved")
    assert done.stderr.startswith(plain.stderr)
    assert own_names(saved_trace(tmp_path)) == {"program.py"}


def test_a_script_that_does_not_compile_shows_what_python_shows(tmp_path: Path) -> None:
    script(tmp_path, "def broken(:")
    plain = python("program.py", cwd=tmp_path)
    ours = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
    assert ours.stderr.startswith(plain.stderr + "stepscope: saved ")
    assert ours.returncode == plain.returncode == 1


def test_a_program_that_handles_sigterm_goes_on_to_do_so(tmp_path: Path) -> None:
    code = """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: print("handled"))
os.kill(os.getpid(), signal.SIGTERM)
"""
    script(tmp_path, code)
    done = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "handled\n")


def test_children_leave_quietly_and_die_of_sigterm_as_ever(tmp_path: Path) -> None:
    code = f"""
import os, signal, sys
from stepscope import record_function
leaving = os.fork()
if leaving == 0:
    sys.exit(5)
print("left with", os.waitstatus_to_exitcode(os.waitpid(leaving, 0)[1]), flush=True)
killed = os.fork()
if killed == 0:
    os.kill(os.getpid(), signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1]) == -{signal.SIGTERM.value}
"""
    script(tmp_path, code)
    done = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "left with 5\n")
    assert own_names(saved_trace(tmp_path)) == {"program.py"}


def test_threads_that_python_waits_for_are_recorded_to_their_end(tmp_path: Path) -> None:
    code = """
import threading
from concurrent.futures import ThreadPoolExecutor
from stepscope import record_function
main_is_done = threading.Event()
def work():
    main_is_done.wait()
    with record_function("late"):
        pass
threading.Thread(target=work).start()
ThreadPoolExecutor(1).submit(int).result()  # its idle worker must not keep us waiting
main_is_done.set()
"""
    script(tmp_path, code)
    done = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = own_names(saved_trace(tmp_path))
    assert names == {"late", "program.py"}


def test_what_a_program_does_to_its_process_does_not_reach_the_report(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("rich", "polars"):
        script(elsewhere, "raise AssertionError('this is not ours')", f"{name}.py")
    code = f"""
import io, os, sys
os.chdir({str(elsewhere)!r})
sys.path.insert(0, {str(elsewhere)!r})
sys.argv[:] = ["changed"]
sys.stdout = io.StringIO()
"""
    script(tmp_path, code)
    done = stepscope_run("-o", "run", "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert " on 1 thread in " in done.stderr
    assert own_names(saved_trace(tmp_path)) == {"program.py"}


def test_the_report_names_what_to_do_next_and_it_works(tmp_path: Path) -> None:
    name = 'it\'s "quoted" é.py'
    code = "import time, stepscope\nstepscope.record_function('x')(time.sleep)(0.05)"
    script(tmp_path, code, name)
    done = stepscope_run(name, cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert lines[1].startswith(f"{name}: ")
    assert not any("not imported" in line for line in lines)  # torch, which it does not use
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["next"])
    commands = [lines[at].partition("next")[2], lines[at + 1]]
    outputs = [
        subprocess.run(
            command, shell=True, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, check=True
        )
        for command in commands
    ]
    assert b"self time" in outputs[0].stdout
    assert b"trace.json: " in outputs[1].stderr
    assert (tmp_path / "trace.json").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_trace_tells_whether_the_program_has_changes(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    path = script(tmp_path, "")
    git("add", ".")
    git("commit", "-m", "first")
    path.write_text("pass")
    stepscope_run("--no-summary", "-o", "run", "program.py", cwd=tmp_path)
    assert saved_trace(tmp_path).info.revision["changed"] == "yes"


def test_a_trace_is_replaced_only_by_force(tmp_path: Path) -> None:
    words = ["--no-summary", "-o", "mine.stepscope", "program.py"]
    script(tmp_path, "print('ran')")
    assert stepscope_run(*words, cwd=tmp_path).returncode == 0
    refused = stepscope_run(*words, cwd=tmp_path)
    assert refused.returncode == 2
    assert "mine.stepscope exists; add --force" in refused.stderr
    assert refused.stdout == ""
    assert stepscope_run("--force", *words, cwd=tmp_path).returncode == 0
    assert own_names(saved_trace(tmp_path)) == {"program.py"}


def test_a_trace_that_cannot_be_saved_there_is_saved_elsewhere(tmp_path: Path) -> None:
    there, temporary = tmp_path / "there", tmp_path / "temporary"
    there.mkdir()
    temporary.mkdir()
    script(tmp_path, "import shutil; shutil.rmtree('there')")
    words = ["--no-summary", "-o", "there/x.stepscope", "program.py"]
    done = stepscope_run(*words, cwd=tmp_path, TMPDIR=str(temporary))
    assert done.returncode == 0
    assert "saving the trace to" in done.stderr
    (path,) = temporary.glob("*/*.stepscope")  # beside the folder of control sockets
    assert own_names(Trace.load(path)) == {"program.py"}


@pytest.mark.parametrize(("keep", "kept_events"), [("oldest", "first"), ("newest", "last")])
def test_a_memory_limit_drops_and_counts(tmp_path: Path, keep: str, kept_events: str) -> None:
    code = """
from stepscope import record_function
with record_function("first"): pass
for _ in range(20_000):
    with record_function("one of many"): pass
with record_function("last"): pass
"""
    script(tmp_path, code)
    done = stepscope_run("--memory-limit", "64K", "--keep", keep, "program.py", cwd=tmp_path)
    trace = saved_trace(tmp_path)
    assert trace.losses.events > 10_000
    assert {"first", "last"} & set(trace.names()) == {kept_events}
    dropped = "newest" if keep == "oldest" else "oldest"
    assert f"lost      the {dropped} {trace.losses.events:,} events" in done.stderr


def test_a_reader_of_the_output_may_leave(tmp_path: Path) -> None:
    script(tmp_path, "import sys; sys.exit(3)")
    command = f"set -o pipefail; {shlex.quote(sys.executable)} -m stepscope run program.py | true"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3
    assert b"Traceback" not in done.stderr


def test_numpy_alone_is_enough(tmp_path: Path) -> None:
    example = str(EXAMPLES / "numpy_pipeline.py")
    words = [example, "--batches", "2", "--rows", "50", "--columns", "5"]
    plain = python(*words, cwd=tmp_path)
    done = stepscope_run(*words, cwd=tmp_path)
    assert done.stdout == plain.stdout
    trace = saved_trace(tmp_path)
    assert {"load", "transform", "solve", "numpy_pipeline.py"} <= set(trace.names())
    assert "torch" not in trace.info.versions


@pytest.mark.parametrize("collector", ["bridge", pytest.param("kineto", marks=pytest.mark.slow)])
def test_an_unchanged_training_script(tmp_path: Path, collector: str) -> None:
    pytest.importorskip("torch")
    words = [str(EXAMPLES / "train_resnet.py"), "--steps", "3", "--batch", "2", "--size", "32"]
    done = stepscope_run("--torch-collector", collector, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "steps     3, each ended by the optimizer: mean " in done.stderr
    assert "aten::convolution_backward" in done.stderr
    names = list(saved_trace(tmp_path).names())
    assert names.count("aten::conv2d") == 3 * 20
    assert names.count("Optimizer.step#SGD.step") == 3
    assert names.count("train_resnet.py") == 1
    assert any(name.startswith("enumerate(DataLoader)") for name in names)


def test_a_bridge_that_cannot_be_built_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script(tmp_path, "import torch; print('never')")
    environment = {
        "CXX": "no-such-compiler",
        "STEPSCOPE_CACHE_DIR": str(tmp_path / "cache"),
        "STEPSCOPE_BRIDGES_DIR": "",  # none of the wheel's either
    }
    words = ["--torch-collector", "bridge", "program.py"]
    done = stepscope_run(*words, cwd=tmp_path, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no-such-compiler" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


LINEAR = "import torch\ntorch.nn.Linear(2, 3)(torch.ones(4, 2))"


@pytest.mark.slow
def test_options_record_more_than_names_and_times(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script(tmp_path, LINEAR)
    words = ("--shapes", "--memory", "--modules", "--no-summary", "program.py")
    done = stepscope_run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trace = saved_trace(tmp_path)
    names = list(trace.names())
    inputs = trace.slices.args.of_row(names.index("aten::addmm"), trace.strings)
    assert inputs["Input Dims"] == [[3], [4, 2], [2, 3], [], []]
    assert len(trace.memory) > 0
    assert SliceKind.MODULE in trace.slices.kind


@pytest.mark.slow
def test_options_that_are_not_given_record_nothing_more(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script(tmp_path, LINEAR)
    assert stepscope_run("--no-summary", "program.py", cwd=tmp_path).returncode == 0
    trace = saved_trace(tmp_path)
    inputs = trace.slices.args.of_row(list(trace.names()).index("aten::addmm"), trace.strings)
    assert "Input Dims" not in inputs
    assert len(trace.memory) == 0
    (model,) = (trace.slices.kind == SliceKind.MODULE).nonzero()[0]
    assert "Parameters" not in trace.slices.args.of_row(model, trace.strings)


def test_a_kind_of_stacks_that_there_is_not(tmp_path: Path) -> None:
    script(tmp_path, "pass")
    done = stepscope_run("--stacks", "some", "program.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "operators" in done.stderr
