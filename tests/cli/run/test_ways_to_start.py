"""Whatever way a program is started in, under `stepscope run` it sees what it sees without it.

Each way runs bare and recorded, in an environment where the package is installed: the program
writes down what it sees, and both must be equal.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stepscope.cli.run.plan import START_FOLDER
from ways import (
    DRIVER,
    PACKAGE,
    PROBE,
    Ended,
    Way,
    assert_equal,
    both,
    command,
    make_files,
    of_python,
    ran,
    shell,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make an environment in which this very package is installed, beside what is installed here.

    A tree in development has no ``stepscope.pth`` that Python would read.
    """
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    (packages / "stepscope").symlink_to(PACKAGE)
    shutil.copy(PACKAGE.parent / "stepscope.pth", packages)
    others = [item for item in sys.path if item.endswith("-packages")]
    (packages / "others.pth").write_text("".join(f"{other}\n" for other in others))
    return str(folder / "bin" / "python")


@pytest.fixture(scope="session")
def ends(python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Ended, Ended]]:
    """Start every way from a program, bare and recorded; return how they have ended, by name."""
    here = tmp_path_factory.mktemp("all") / "with blanks and ü"
    make_files(here, python, Way((), files={"driver.py": DRIVER}))
    values = {}
    for name, way in {**WAYS, **ENDS}.items():
        folder = here / "ways" / name
        make_files(folder, python, way)
        words, more = way.of({"{python}": python, "{here}": str(folder)})
        started = [*way.shell(), *([python] if way.is_for_python else []), *words]
        values[name] = [["env", "-C", str(folder), *started], way.stdin, more]
    (here / "ways.json").write_text(json.dumps(values))
    run = ["-m", "stepscope", "run", "-q", "-o", str(here / "trace.stepscope")]
    for words in (["driver.py", "bare"], [*run, "driver.py", "recorded"]):
        done = ran([python, *words], here)
        assert (done.code, done.err) == (0, "")
    bare, recorded = (json.loads((here / item).read_text()) for item in ("bare", "recorded"))
    return {name: (Ended(*bare[name]), Ended(*recorded[name])) for name in values}


PRINTS = {"sitecustomize.py": "import sys; print('mine', __name__, __file__, sorted(globals()))"}

WAYS = {
    "script": of_python("probe.py", "an argument", "--option", ""),
    "absolute path": of_python("{here}/probe.py"),
    "folder": of_python("folder", "x"),
    "this folder": of_python(".", "x"),
    "archive": of_python("archive.pyz", "x"),
    "compiled": of_python("compiled.pyc"),
    "module": of_python("-m", "probe", "-m"),
    "package": of_python("-m", "package", "x"),
    "code": of_python("-c", PROBE, "x"),
    "stdin": of_python("-", "x", stdin=PROBE),
    "stdin read by the program": of_python("probe.py", stdin="some\ntext"),
    "without suffix": of_python("plain", "x"),
    "with a shebang": command("./script", "x"),
    "python": command("{python}", "probe.py"),
    "unbuffered": command("{python}", "-u", "probe.py"),
    "optimized": of_python("-OO", "probe.py"),
    "utf8": of_python("-X", "utf8", "probe.py"),
    "warnings are errors": of_python("-W", "error", "probe.py"),
    "isolated": of_python("-I", "probe.py"),
    "without variables": of_python("-E", "probe.py", environment={"PYTHONPATH": "{here}/folder"}),
    "without user's packages": of_python("-s", "probe.py"),
    "safe path": of_python("-P", "probe.py"),
    "development mode": of_python("-X", "dev", "probe.py"),
    "faulthandler": of_python("-X", "faulthandler", "probe.py"),
    "frozen modules off": of_python("-X", "frozen_modules=off", "probe.py"),
    "bytes are not text": of_python("-bb", "probe.py"),
    "user's path": of_python("probe.py", environment={"PYTHONPATH": "{here}/folder"}),
    "empty user's path": of_python("probe.py", environment={"PYTHONPATH": ""}),
    "odd user's path": of_python("probe.py", environment={"PYTHONPATH": ":{here}::x:"}),
    "shell script": command("./twice.sh"),
    "env in front": command("env", "A=b", "{python}", "probe.py"),
    "exec of a shell": shell("exec '{python}' probe.py x"),
    "in the background of a shell": shell("'{python}' probe.py x & wait"),
    "nice and a mask of files": shell("umask 077; exec nice -n 3 '{python}' probe.py x"),
    "ignored signals": of_python("probe.py", around="trap '' INT QUIT USR1; exec \"$@\""),
    "folder that is gone": of_python(
        "{here}/probe.py", around='mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    ),
    "user's sitecustomize": of_python(
        "probe.py", files=PRINTS, environment={"PYTHONPATH": "{here}"}
    ),
    "sitecustomize that fails": of_python(
        "probe.py",
        files={"sitecustomize.py": "1 / 0"},
        environment={"PYTHONPATH": "{here}"},
    ),
    "user's usercustomize": of_python(
        "probe.py",
        files={"usercustomize.py": "print('mine', __name__)"},
        environment={"PYTHONPATH": "{here}", "PYTHONUSERBASE": "{here}"},
    ),
    "modules with names of the standard library": of_python(
        "-c",
        "import secrets, queue, json, random; print(secrets.MINE, queue.MINE)\n" + PROBE,
        files={"secrets.py": "MINE = 1", "queue.py": "MINE = 2", "atexit.py": "MINE = 3"},
    ),
    "limited memory": shell("ulimit -v 300000; exec '{python}' probe.py"),
    "few files": shell("ulimit -n 16; exec '{python}' probe.py"),
    "no stdin": shell("exec '{python}' probe.py <&-"),
    "os.exec": of_python(
        "-c", "import os, sys; os.execv(sys.executable, [sys.executable, 'probe.py', 'x'])"
    ),
    "os.fork": of_python("-c", "import os\nif os.fork() == 0:\n  os._exit(0)\nos.wait()\n" + PROBE),
    "in a forked child": of_python(
        "-c", "import os\nif os.fork(): os.wait(); os._exit(3)\n" + PROBE
    ),
    "subprocess": of_python(
        "-c", "import subprocess, sys; subprocess.run([sys.executable, 'probe.py'], check=True)"
    ),
    "subprocess with an environment": of_python(
        "-c",
        "import os, subprocess, sys; env = {**os.environ, 'A': 'b'}\n"
        "subprocess.run([sys.executable, '-X', 'utf8', 'probe.py'], check=True, env=env)",
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_program_sees_what_it_sees_without_us(
    name: str, ends: Mapping[str, tuple[Ended, Ended]]
) -> None:
    assert_equal(*ends[name])


@pytest.mark.parametrize(
    "name",
    [
        *("script", "folder", "this folder", "archive", "compiled", "module", "package", "code"),
        *("stdin", "without suffix", "with a shebang", "unbuffered", "shell script", "no stdin"),
        *("empty user's path", "odd user's path", "ignored signals", "folder that is gone"),
        "os.exec",
    ],
)
def test_the_first_program_of_a_run_is_no_exception(name: str, python: str, tmp_path: Path) -> None:
    assert_equal(*both(python, tmp_path, WAYS[name]))


PROGRAMS = {
    "exit with text": "import sys; print('out'); sys.exit('some text')",
    "exit with a number": "raise SystemExit(7)",
    "large exit code": "raise SystemExit(257)",
    "exception": "def f():\n  raise ValueError('a\\nb')\nf()",
    "chained exceptions": "try:\n  1 / 0\nexcept Exception:\n  raise KeyError(1)",
    "no such module": "import there_is_no_such_module",
    "syntax": "1 +",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "hook that fails": "import sys\nsys.excepthook = 1\nraise ValueError",
    "os._exit": "import os; print('lost'); os._exit(5)",
    "abort": "import os; os.abort()",
    "kill": "import os; os.kill(os.getpid(), 9)",
    "SIGTERM": "import os; os.kill(os.getpid(), 15)",
    "segmentation fault": "import faulthandler; faulthandler.enable(); faulthandler._sigsegv()",
    "warning": "import warnings; warnings.warn('a warning'); print(1)",
    "resource warning": "import warnings; warnings.simplefilter('always'); open('probe.py')",
    "exception in a thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0)\n"
    "t.start(); t.join()",
    "exception at exit": "import atexit; atexit.register(lambda: 1 / 0)",
    "output at exit": "import atexit; atexit.register(print, 'last')",
    "unraisable": "class A:\n  def __del__(self): 1 / 0\na = A()",
    "stdout is closed": "import sys; sys.stdout.close()",
    "stderr is closed": "import sys; sys.stderr.close(); 1 / 0",
    "stdout without a reader": "import os; r, w = os.pipe(); os.close(r); os.dup2(w, 1)\n"
    "print('x')",
    "asyncio": "import asyncio\nasync def f(): return 1 / 0\nasyncio.run(f())",
    "thread that lives on": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
    "sys.exit in a thread": "import threading, sys\nthreading.Thread(target=sys.exit).start()",
    "recursion": "def f(): f()\nf()",
    "modules are cleared": "import sys; sys.modules.clear()",
    "environment is cleared": "import os, subprocess, sys; os.environ.clear()\n"
    "subprocess.run([sys.executable, '-c', 'print(1)'])",
}
POOL = """
import multiprocessing, sys
def work(x):
    return x * x, sorted(sys.argv), __name__
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    with context.Pool(2) as pool:
        print(pool.map(work, range(4)))
    process = context.Process(target=sys.exit, args=(3,))
    process.start()
    process.join()
    print(process.exitcode)
"""
PROGRAMS |= {
    f"pool by {item}": POOL.format(method=item) for item in ("fork", "spawn", "forkserver")
}
ENDS = {
    name: of_python("program.py", files={"program.py": text}) for name, text in PROGRAMS.items()
}


@pytest.mark.parametrize("name", ENDS)
def test_a_program_ends_as_it_ends_without_us(
    name: str, ends: Mapping[str, tuple[Ended, Ended]]
) -> None:
    bare, recorded = ends[name]
    assert recorded.without_addresses() == bare.without_addresses()


@pytest.mark.parametrize(
    "name", ["exit with text", "exception", "KeyboardInterrupt", "os._exit", "abort", "kill"]
)
def test_a_run_ends_as_its_program_does(name: str, python: str, tmp_path: Path) -> None:
    bare, recorded = both(python, tmp_path, ENDS[name])
    assert recorded == bare


def test_in_a_tree_that_is_not_installed_only_the_start_folder_is_more(tmp_path: Path) -> None:
    make_files(tmp_path / "here", sys.executable)
    path = str(PACKAGE.parent)
    words = ["-m", "stepscope", "run", "-q", "-o", str(tmp_path / "trace.stepscope"), "probe.py"]
    bare = ran([sys.executable, "probe.py"], tmp_path / "here", PYTHONPATH=path)
    recorded = ran([sys.executable, *words], tmp_path / "here", PYTHONPATH=path)
    shown = Ended(recorded.code, recorded.out.replace(f"{START_FOLDER}:", ""), recorded.err)
    assert_equal(bare, shown)


def test_a_command_of_an_environment_that_is_not_activated(python: str, tmp_path: Path) -> None:
    script = Path(python).with_name("probe-command")
    script.write_text(f"#!{python}\n{PROBE}")
    script.chmod(0o755)
    run = ["-m", "stepscope", "run", "-q", "-o", str(tmp_path / "trace.stepscope")]
    bare = ran([str(script), "x"], tmp_path)
    assert_equal(bare, ran([python, *run, script.name, "x"], tmp_path))


def test_in_a_folder_that_nobody_can_write_to(python: str, tmp_path: Path) -> None:
    probe, nowhere = tmp_path / "probe.py", Path("/proc")
    probe.write_text(PROBE)
    more, run = {"TMPDIR": str(tmp_path)}, [python, "-m", "stepscope", "run", "-q"]
    bare = ran([python, str(probe)], nowhere, **more)
    recorded = ran([*run, str(probe)], nowhere, **more)
    assert "cannot be written" in recorded.err
    assert_equal(bare, Ended(recorded.code, recorded.out, ""))


def test_a_reader_that_ends_early_ends_the_program(python: str, tmp_path: Path) -> None:
    text = "while True:\n  print('line')"
    make_files(tmp_path / "here", python)
    (tmp_path / "here" / "endless.py").write_text(text)
    piped = 'set -o pipefail; "$@" | head -n 2'
    trace = str(tmp_path / "trace.stepscope")
    start = ["bash", "-c", piped, "bash", python]
    bare = ran([*start, "endless.py"], tmp_path / "here")
    ours = ran(
        [*start, "-m", "stepscope", "run", "-q", "-o", trace, "endless.py"], tmp_path / "here"
    )
    assert ours == bare


def test_numpy_obeys_what_the_program_sets_first(python: str, tmp_path: Path) -> None:
    text = (
        "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'\n"
        "before = len(os.listdir('/proc/self/task')); import numpy\n"
        "print(len(os.listdir('/proc/self/task')) - before)"
    )
    if find_spec("numpy") is None:
        pytest.skip("NumPy is not installed")
    bare, recorded = both(python, tmp_path, of_python("x.py", files={"x.py": text}))
    assert recorded == bare


def test_times_of_imports_are_those_of_the_program(python: str, tmp_path: Path) -> None:
    bare, recorded = both(
        python, tmp_path, command("{python}", "-X", "importtime", "-c", "import json")
    )
    theirs, ours = (
        {line.rpartition("|")[2].strip() for line in item.err.splitlines()}
        for item in (bare, recorded)
    )
    more = {name for name in ours if not name.startswith("stepscope")} - theirs
    assert theirs <= ours
    assert more == {"atexit"}  # the native extension has it, and the program has not


_TEST = "def test_a(): pass\ndef test_b(): assert 1 == 2\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"),
        ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "test_it.py"),
        ("-m", "coverage", "run", "--data-file=x.coverage", "probe.py"),
    ],
    ids=["pytest", "xdist", "coverage"],
)
def test_tools_that_run_programs(words: Sequence[str], python: str, tmp_path: Path) -> None:
    if find_spec(words[1]) is None or ("-n" in words and find_spec("xdist") is None):
        pytest.skip(f"{words[1]} is not installed")
    bare, recorded = both(python, tmp_path, of_python(*words, files={"test_it.py": _TEST}))
    if words[1] == "coverage":
        assert_equal(bare, recorded)
        return
    assert recorded.code == bare.code == 1
    assert _untimed(recorded.out) == _untimed(bare.out)
    assert recorded.err == bare.err


def _untimed(text: str) -> str:
    """Return the output without the time, and without the number of the worker that was free."""
    return re.sub(r"\[gw\d\]", "[gw]", text.rpartition(" in ")[0])
