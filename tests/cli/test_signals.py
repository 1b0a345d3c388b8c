"""Signals in a program under `stepscope run`: they end it as they end Python, and it is saved."""

from __future__ import annotations

import ast
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stepscope
from command_line import python, saved_trace, script, stepscope_run
from recording import run_python
from stepscope._native import shielded

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(stepscope.__file__).parent
OF_TRIALS = ROOT / "remedies/inside/agent.py"  # in processes that only a trial sees

# Whatever comes while it collects is handled in the first Python code after that.
COLLECTS = """
import gc, os, signal, threading, time
heap = [[] for _ in range(300_000)]
threading.Timer(0.2, os.kill, (os.getpid(), signal.{name})).start()
end = time.monotonic() + 20
while time.monotonic() < end:
    gc.collect()
print("it was lost")
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_one_that_comes_in_a_garbage_collection(tmp_path: Path, name: str) -> None:
    script(tmp_path, COLLECTS.format(name=name))
    done = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (-signal.Signals[name], "")
    assert "Exception ignored" not in done.stderr
    assert len(saved_trace(tmp_path)) > 0


def test_sigterm_is_not_an_exception_that_a_program_can_drop(tmp_path: Path) -> None:
    code = """
import os, signal
class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        print("first")
try:
    del_me = Dropped()
    del del_me
finally:
    print("second")
"""
    script(tmp_path, code)
    done = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "")
    assert saved_trace(tmp_path).info.producer == "stepscope"


def test_a_program_sees_no_handler_of_ours(tmp_path: Path) -> None:
    """Some install their own only where there is none; some call the one that was there."""
    code = """
import os, signal, subprocess, sys, time
names = ("SIGTERM", "SIGHUP", "SIGINT")
print([str(signal.getsignal(getattr(signal, name))) for name in names])
print(signal.signal(signal.SIGTERM, lambda *_: print("theirs", flush=True)), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
child.terminate()
print(child.wait(), flush=True)
"""
    script(tmp_path, code)
    plain = python("program.py", cwd=tmp_path)
    ours = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)


def test_sigterm_while_it_waits_or_starts_a_thread(tmp_path: Path) -> None:
    code = """
import os, signal, threading, time
if os.environ["HOW"] == "waits":
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    time.sleep(60)
with threading._active_limbo_lock:  # as Thread.start() does
    os.kill(os.getpid(), signal.SIGTERM)
    end = time.monotonic() + 0.3
    while time.monotonic() < end: pass
time.sleep(60)
"""
    script(tmp_path, code)
    for i, how in enumerate(("waits", "starts"), 1):
        done = stepscope_run("--no-summary", "program.py", cwd=tmp_path, HOW=how)
        assert done.returncode == -signal.SIGTERM, done.stderr
        assert len(list(tmp_path.glob("*.stepscope"))) == i


def test_an_interrupted_import_shows_the_programs_frames_only(tmp_path: Path) -> None:
    for folder in ("torch", "paddle"):
        (tmp_path / folder).mkdir()
        script(tmp_path / folder, "def f():\n    raise KeyboardInterrupt\nf()", "__init__.py")
        script(tmp_path, f"def main():\n    import {folder}\nmain()")
        plain = python("program.py", cwd=tmp_path)
        ours = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
        assert ours.returncode == plain.returncode == -signal.SIGINT
        assert ours.stderr.startswith(plain.stderr + "stepscope: saved ")


def test_frames_of_our_wrappers_are_not_in_a_programs_traceback(tmp_path: Path) -> None:
    code = """
import multiprocessing
def main():
    multiprocessing.Process(target=lambda: None, args=(lambda: None,)).start()
multiprocessing.set_start_method("spawn")
if __name__ == "__main__":
    main()
"""
    script(tmp_path, code)
    plain = python("program.py", cwd=tmp_path)
    ours = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
    assert ours.returncode == plain.returncode == 1
    assert f"{ROOT}" not in ours.stderr


# ---- where Python drops exceptions


def test_a_shielded_function_does_all_of_its_work_and_the_interruption_is_kept() -> None:
    calls = []

    def interrupted_once() -> None:
        calls.append("begun")
        if len(calls) == 1:
            raise KeyboardInterrupt
        calls.append("done")

    def call() -> None:
        shielded(interrupted_once)()
        for _ in range(3):
            calls.append("on")

    with pytest.raises(KeyboardInterrupt):
        call()
    assert calls == ["begun", "begun", "done"]
    shielded(lambda: 1 / 0)()  # what is wrong with us is nobody's business


DROPPING = {"WeakSet", "WeakKeyDictionary", "WeakValueDictionary", "finalize", "WeakMethod"}
CALLED_BY_OTHERS = {"ref", "addaudithook", "CFUNCTYPE", "register_at_fork"}


def last_name(node: ast.AST) -> str:
    """Return ``c`` of ``a.b.c`` and of ``c``, nothing of anything else."""
    return getattr(node, "attr", "") or getattr(node, "id", "")


def dropped_places(source: str) -> Iterator[int]:
    """Yield the lines that have Python code called where exceptions are dropped."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == "__del__":
            yield node.lineno
        if last_name(node) in DROPPING:
            yield node.lineno
        if isinstance(node, ast.Call) and last_name(node.func) in CALLED_BY_OTHERS:
            called = ast.unparse(node.func)
            if called.endswith(("weakref.ref", "addaudithook", "CFUNCTYPE")) and (
                len(node.args) > 1 or "ref" not in called
            ):
                yield node.lineno
            if called == "os.register_at_fork":
                for given in node.keywords:
                    text = ast.unparse(given.value)
                    if not text.startswith(("_native.", "bridge.")) and "shielded(" not in text:
                        yield node.lineno


@pytest.mark.parametrize(
    ("source", "wrong_lines"),
    [
        ("class A:\n    def __del__(self): pass", [2]),
        ("import weakref\nx = weakref.WeakSet()", [2]),
        ("weakref.ref(x, forget)", [1]),
        ("weakref.ref(x)", []),
        ("addaudithook(hook)", [1]),
        ("os.register_at_fork(after_in_child=forget)", [1]),
        ("os.register_at_fork(after_in_child=shielded(forget))", []),
    ],
)
def test_the_check_below_sees(source: str, wrong_lines: list[int]) -> None:
    assert list(dropped_places(source)) == wrong_lines


def test_no_python_code_of_ours_runs_where_exceptions_are_dropped() -> None:
    by_name = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in ROOT.rglob("*.py")
        if path != OF_TRIALS
        for line in dropped_places(path.read_text(encoding="utf-8"))
    }
    assert by_name == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_one_that_comes_while_something_is_made_waits_for_its_end(number: int) -> None:
    done = run_python(
        """
        import os, signal, sys
        from stepscope.cli.base.signals import held_signals, let_ctrl_c_kill
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
        let_ctrl_c_kill()
        with held_signals():
            os.kill(os.getpid(), int(sys.argv[1]))
            print("made", flush=True)
        print("never")
        """,
        str(int(number)),
    )
    assert (done.returncode, done.stdout) == (-number, "made\n")
