"""Another package adds to Stepscope: one file and one registry line each, seen end to end.

The files are in ``extensions/``. They are found as an installed package's are: by an entry point.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from command_line import ENVIRONMENT, Done, python, script
from stepscope import read_trace

EXTENSIONS = Path(__file__).parent / "extensions"
PROGRAM = "print('a')\nprint('b')\n"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Install a package with every extension; return a folder to work in."""
    names = sorted(path.stem for path in EXTENSIONS.glob("*.py"))
    package(tmp_path, "".join(f"{name} = {name}\n" for name in names))
    script(tmp_path, PROGRAM)
    return tmp_path


def package(folder: Path, entry_points: str) -> None:
    about = folder / "site" / "extending_stepscope-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: extending-stepscope\n")
    (about / "entry_points.txt").write_text(f"[stepscope]\n{entry_points}")


def python_with(folder: Path, *words: str) -> Done:
    paths = [str(folder / "site"), str(EXTENSIONS), ENVIRONMENT["PYTHONPATH"]]
    return python(*words, cwd=folder, PYTHONPATH=os.pathsep.join(paths))


def stepscope(folder: Path, *words: str) -> str:
    done = python_with(folder, "-m", "stepscope", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


# A source, with an option and its flag.


def test_a_source_is_recorded_when_its_flag_asks_for_it(installed: Path) -> None:
    stepscope(installed, "run", "--prints", "-o", "with.stepscope", "program.py")
    stepscope(installed, "run", "-o", "without.stepscope", "program.py")
    trace = read_trace(installed / "with.stepscope")
    assert list(trace.names()).count("print") == 2
    assert trace.info.sources["prints"] == "calls of print as print"
    assert "prints" not in read_trace(installed / "without.stepscope").info.sources


def test_a_source_has_options_of_its_own(installed: Path) -> None:
    words = ("--prints", "--print-name", "said")
    words = ("-m", "stepscope", "run", *words, "-o", "a.stepscope", "program.py")
    assert "calls of print as said" in python_with(installed, *words).stderr
    rows = [line.split() for line in stepscope(installed, "summary", "a.stepscope").splitlines()]
    (result,) = (row for row in rows if row[:1] == ["said"])
    assert result[-1] == "2"


def test_help_tells_of_its_flags(installed: Path) -> None:
    shown = stepscope(installed, "run", "--help")
    assert "record calls of print, too" in shown
    assert "--print-name PRINT_NAME" in shown


def test_a_profiler_in_the_program_takes_its_options_too(installed: Path) -> None:
    code = """
from stepscope import profile
with profile(prints=True, print_name="said") as profiler:
    print("a")
print(list(profiler.trace.names()))
try:
    profile(no_such_option=True)
except TypeError as error:
    print(error)
"""
    done = python_with(installed, "-c", code)
    _, names, refused = done.stdout.splitlines()
    assert names == "['said']"
    assert refused.startswith("'no_such_option' is not a recording option; use one of ")
    assert "prints" in refused


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes_make_the_same_source(installed: Path, method: str) -> None:
    code = f"""
import multiprocessing
def work():
    print("in a child")
if __name__ == "__main__":
    child = multiprocessing.get_context({method!r}).Process(target=work)
    child.start()
    child.join()
"""
    script(installed, code)
    options = ("--prints", "--workers", "-o", "a.stepscope")
    stepscope(installed, "run", *options, "program.py")
    trace = read_trace(installed / "a.stepscope")
    (row,) = (row for row, name in enumerate(trace.names()) if name == "print")
    assert trace.tracks[trace.slices.track[row]].pid != str(trace.info.pid)


# A format.


def test_a_format_is_written_and_read_like_our_own(installed: Path) -> None:
    stepscope(installed, "run", "--prints", "-o", "a.lines", "program.py")
    assert (installed / "a.lines").read_text().splitlines()[0] == "slices in ns"
    shown = stepscope(installed, "summary", "a.lines")
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("print ")] == ["2"]
    stepscope(installed, "export", "a.lines", "-o", "b.json")
    code = "import stepscope; print(list(stepscope.read_trace('a.lines').names()).count('print'))"
    assert python_with(installed, "-c", code).stdout == "2\n"
    assert list(read_trace(installed / "b.json").names()).count("print") == 2


# A verb.


@pytest.mark.slow
def test_a_verb_is_one_of_ours(installed: Path) -> None:
    stepscope(installed, "run", "--prints", "-o", "a.stepscope", "program.py")
    events = len(list(read_trace(installed / "a.stepscope").names()))
    assert stepscope(installed, "count", "a.stepscope") == f"{events}\n"
    assert stepscope(installed, "count", "--named", "print", "a.stepscope") == "2\n"
    assert "Tell how many events a trace has" in stepscope(installed, "--help")
    assert "only those of that name" in stepscope(installed, "count", "--help")


# An extension that does not work.


def test_a_broken_extension_is_left_out_and_named(tmp_path: Path) -> None:
    package(tmp_path, "broken = no_such_module\n")
    script(tmp_path, PROGRAM)
    done = python_with(tmp_path, "-m", "stepscope", "run", "-o", "a.stepscope", "program.py")
    assert done.returncode == 0
    assert "the extension no_such_module is skipped: ModuleNotFoundError" in done.stderr
    assert "program.py" in read_trace(tmp_path / "a.stepscope").names()
