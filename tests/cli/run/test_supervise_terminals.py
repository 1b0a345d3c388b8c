"""The supervisor of `stepscope run` on a terminal: keys, jobs and hanging up."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from supervising import (
    COUNTS,
    PYTHON,
    Terminal,
    line_of,
    started,
    supervised,
    wait_until,
)


def both_ways(*command: str) -> list[list[str]]:
    """Return the command by itself, and below the supervisor."""
    return [list(command), supervised(*command)]


def program(folder: Path, code: str) -> str:
    """Write an executable Python program."""
    path = folder / "program"
    path.write_text(f"#!{sys.executable} -IS\n{code}")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("is_supervised", [False, True])
def test_keys_reach_the_command_once(tmp_path: Path, is_supervised: bool) -> None:
    words = both_ways(*PYTHON, "-c", COUNTS)[is_supervised]
    with Terminal(words, tmp_path) as terminal:
        terminal.read_until("ready")
        for _ in range(3):
            terminal.type("\x03")
            assert terminal.read_until("2\r\n").endswith("^C")
        terminal.type("\x1c")
        terminal.read_until("^\\3\r\n")
        terminal.resize(33, 44)
        terminal.read_until("28\r\n")
        os.kill(terminal.process.pid, signal.SIGUSR2)
        assert (terminal.process.wait(), terminal.read_rest()) == (0, "")


@pytest.mark.parametrize("is_supervised", [False, True])
def test_the_terminal_is_the_commands(tmp_path: Path, is_supervised: bool) -> None:
    code = """
import os, sys
print(os.isatty(0), os.tcgetpgrp(0) == os.getpgrp(), os.get_terminal_size(0), flush=True)
print(input("name? "))
"""
    words = both_ways(*PYTHON, "-c", code)[is_supervised]
    with Terminal(words, tmp_path) as terminal:
        terminal.type("Ada\n")
        terminal.process.wait()
        assert "True True" in (text := terminal.read_rest())
        assert text.endswith("Ada\n")


@pytest.mark.parametrize("is_supervised", [False, True])
def test_hanging_up_reaches_the_command_once(tmp_path: Path, is_supervised: bool) -> None:
    code = COUNTS.replace("os.write(1, b", "os.write(log, b").replace(
        "import os, signal", f"import os, signal\nlog = os.open({str(tmp_path / 'log')!r}, 0o2101)"
    )
    words = both_ways(*PYTHON, "-c", code)[is_supervised]
    log = tmp_path / "log"
    with Terminal(words, tmp_path) as terminal:
        wait_until(lambda: log.exists() and log.read_text() == "ready\n", "it starts")
        pid = terminal.process.pid
        os.close(terminal._master)
        terminal._master = os.open("/dev/null", os.O_RDONLY)
        wait_until(lambda: {"1", "18"} <= set(log.read_text().split()), "it is hung up")
        os.kill(pid, signal.SIGUSR2)
        assert terminal.process.wait() == 0
    assert sorted(log.read_text().split()) == ["1", "18", "ready"]


JOB = """
import os, signal, sys
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"continues\\n"))
os.write(1, b"begins\\n")
while (line := sys.stdin.readline()) not in ("", "end\\n"):
    os.write(1, b"read " + line.encode())
sys.exit(5)
"""


@pytest.mark.parametrize("is_supervised", [False, True])
def test_a_job_is_stopped_and_continued_by_the_shell(tmp_path: Path, is_supervised: bool) -> None:
    words = both_ways(program(tmp_path, JOB))[is_supervised]
    with Terminal.of_shell(tmp_path) as shell:
        shell.type(shlex.join(words) + "; echo code $?\n")
        shell.read_until("begins\r\n")
        for word in ("one", "two"):
            shell.type(f"{word}\n")
            shell.read_until(f"read {word}\r\n")
            shell.type("\x1a")
            assert "Stopped" in shell.read_until("$ ")
            shell.type("jobs\n")
            assert "Stopped" in shell.read_until("$ ")
            shell.type("fg; echo code $?\n")
            shell.read_until("continues\r\n")
        shell.type("end\n")
        assert shell.read_until("code 5\r\n") == "end\n"
        shell.read_until("$ ")
        shell.type("stty -a | grep -c ' echo '; exit\n")
        assert "continues" not in shell.read_rest()


@pytest.mark.parametrize("is_supervised", [False, True])
def test_a_job_in_the_background_that_reads_the_terminal(
    tmp_path: Path, is_supervised: bool
) -> None:
    words = both_ways(program(tmp_path, JOB))[is_supervised]
    with Terminal.of_shell(tmp_path) as shell:
        shell.type(shlex.join(words) + " &\n")
        shell.read_until("begins\r\n")
        while "Stopped" not in shell.text:
            shell.type("\n")
            shell.read_until("$ ")
            shell.type("jobs\n")
            shell.read_until("\n")
            shell.text = shell.read_until("$ ") + "$ "
        shell.type("fg\n")
        shell.read_until("continues\r\n")
        shell.type("one\n")
        shell.read_until("read one\r\n")
        shell.type("end\n")
        shell.read_until("$ ")
        shell.type("echo code $?\n")
        shell.read_until("code 5\r\n")


@pytest.mark.parametrize("is_supervised", [False, True])
def test_another_command_of_the_pipe_keeps_the_terminal(
    tmp_path: Path, is_supervised: bool
) -> None:
    reads = "import sys; print(sys.stdin.read(), 'and', open('/dev/tty').readline())"
    first = shlex.join(both_ways("echo", "piped")[is_supervised])
    with Terminal.of_shell(tmp_path) as shell:
        shell.type(f"{first} | {shlex.join([*PYTHON, '-c', reads])}\n")
        shell.type("typed\n")
        shell.read_until("piped\r\n and typed")


@pytest.mark.parametrize("is_supervised", [False, True])
def test_ctrl_c_ends_the_script_that_runs_the_command(tmp_path: Path, is_supervised: bool) -> None:
    code = "import os, signal; os.write(1, b'begins\\n'); signal.pause()"
    words = both_ways(program(tmp_path, f"import signal\n{code}"))[is_supervised]
    script = tmp_path / "script"
    script.write_text(f"for i in 1 2 3; do {shlex.join(words)}; done\necho not interrupted\n")
    with Terminal.of_shell(tmp_path) as shell:
        shell.type(f"bash {script}\n")
        shell.read_until("begins\r\n")
        shell.type("\x03")
        assert "not interrupted" not in shell.read_until("$ ")
        shell.type("echo code $?\n")
        shell.read_until("code 130\r\n")
        assert "begins" not in shell.text


def test_an_answer_can_be_stopped_and_interrupted(tmp_path: Path) -> None:
    # Executed by the shell itself: a child that is stopped before it executes keeps dash waiting.
    answer = ["sh", "-c", "echo answers; exec cat /dev/tty"]
    words = supervised("sh", "-c", "exit 8", answer=answer)
    with Terminal.of_shell(tmp_path) as shell:
        shell.type(shlex.join(words) + "\n")
        shell.read_until("answers\r\n")
        shell.type("\x1a")
        assert re.search("Stopped", shell.read_until("$ "))
        shell.type("fg; echo code $?\n")
        shell.read_until("sh -c 'exit 8'\r\n")  # the shell repeats the command
        shell.type("typed\n")
        shell.read_until("typed\r\ntyped\r\n")
        shell.type("\x03")
        shell.read_until("code 8\r\n")


def test_nohup_holds_for_the_command(tmp_path: Path) -> None:
    with started(
        "nohup",
        *supervised(*PYTHON, "-c", "import signal; print(signal.getsignal(1))"),
        stderr=subprocess.DEVNULL,
    ) as process:
        assert line_of(process) == "1"
        assert process.wait() == 0
