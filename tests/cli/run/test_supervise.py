"""The supervisor of `stepscope run`: a command below it is what it would be without it.

Random moments are for ``tools/stress_signals.py``.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from supervising import (
    COUNTS,
    PATIENCE_S,
    PYTHON,
    has_ended,
    line_of,
    started,
    status_of,
    supervised,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MEMORY_KB = 12_000
ANSWER = ["echo", "answer"]


def run(*command: str, input: str = "", answer: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        supervised(*command, answer=ANSWER if answer else ()),
        input=input,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def child_of(pid: int) -> int:
    """Return the command's process: the child that has executed something else."""
    own = Path(f"/proc/{pid}/cmdline").read_bytes()
    for text in children_of(pid):
        with contextlib.suppress(FileNotFoundError):
            if Path(f"/proc/{text}/cmdline").read_bytes() != own:
                return int(text)
    return 0


# ---- how it ends


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_the_commands(code: int) -> None:
    done = run("sh", "-c", f"exit {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, f"answer exit:{code}\n", "")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGSEGV", "SIGKILL", "SIGRTMIN"])
def test_it_dies_by_the_signal_that_killed_the_command(name: str) -> None:
    number = signal.Signals[name]
    done = run(*PYTHON, "-c", f"import os; os.kill(os.getpid(), {int(number)})")
    assert (done.returncode, done.stdout) == (-number, f"answer signal:{int(number)}\n")


def test_only_the_command_leaves_a_core_file(tmp_path: Path) -> None:
    def allow_core_files() -> None:
        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))

    def run_and_count(words: list[str]) -> int:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        done = subprocess.run(words, cwd=folder, preexec_fn=allow_core_files, check=False)
        assert done.returncode == -signal.SIGSEGV
        return len(list(folder.iterdir()))

    words = [*PYTHON, "-c", "import os; os.kill(os.getpid(), 11)"]
    assert run_and_count(supervised(*words)) == run_and_count(words)


@pytest.mark.parametrize(
    ("make", "code", "error", "reason"),
    [
        (lambda path: None, 127, 2, "No such file or directory"),
        (lambda path: path.write_text("#!/bin/sh\n"), 126, 13, "Permission denied"),
        (lambda path: path.mkdir(), 126, 13, "Permission denied"),
    ],
    ids=["missing", "not executable", "a folder"],
)
def test_a_command_that_cannot_be_executed(
    tmp_path: Path, make: Callable[[Path], object], code: int, error: int, reason: str
) -> None:
    path = tmp_path / "command"
    make(path)
    if os.geteuid() == 0 and path.is_file():
        path.chmod(0o644)
    done = run(str(path))
    assert (done.returncode, done.stdout) == (code, f"answer none:{error}\n")
    assert done.stderr == f"stepscope run: {path}: {reason}\n"


def test_a_command_that_is_not_on_the_path() -> None:
    done = run("no-such-command")
    assert (done.returncode, done.stdout) == (127, "answer none:2\n")
    assert done.stderr == "stepscope run: no-such-command: command not found\n"


def test_a_script_without_a_first_line_that_names_its_interpreter(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text('echo "$0" "$@"; exit 4')
    path.chmod(0o755)
    done = run(str(path), "a b", "c")
    assert (done.returncode, done.stdout) == (4, f"{path} a b c\nanswer exit:4\n")


def test_an_answer_that_cannot_be_executed_does_not_change_the_end() -> None:
    words = supervised("sh", "-c", "exit 5", answer=["no-such-answer"])
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        5,
        "stepscope run: no-such-answer: command not found\n",
    )


# ---- what the command finds


def block_and_ignore() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGALRM})
    os.umask(0o027)
    os.nice(3)
    resource.setrlimit(resource.RLIMIT_NOFILE, (123, 456))


@pytest.mark.parametrize(
    "command",
    [
        ["cat", "/proc/self/cmdline", "/proc/self/environ", "/proc/self/limits"],
        ["grep", "-E", "^(Sig(Blk|Ign|Cgt)|Umask|NoNewPrivs|Seccomp|Cap...):", "/proc/self/status"],
        ["cut", "-d", " ", "-f", "7,8,18,19", "/proc/self/stat"],
        ["readlink", "/proc/self/cwd", "/proc/self/fd/7", "/proc/self/fd/8", "/proc/self/fd/1"],
        ["ls", "/proc/self/fd"],
        ["cat", "/proc/self/fdinfo/7", "/proc/self/fdinfo/8"],
    ],
    ids=lambda command: " ".join(command)[:30],
)
@pytest.mark.parametrize("is_prepared", [False, True])
def test_the_command_finds_what_it_would_find_alone(
    tmp_path: Path, command: list[str], is_prepared: bool
) -> None:
    def prepare() -> None:
        os.dup2(0, 7)
        os.dup2(os.open("/dev/zero", os.O_RDWR | os.O_NONBLOCK), 8)
        os.set_inheritable(8, True)
        if is_prepared:
            block_and_ignore()

    outputs = []
    for words in (command, supervised(*command)):
        with (tmp_path / "output").open("w+") as output, (tmp_path / "input").open("w") as input:
            subprocess.run(
                words,
                stdin=input,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=tmp_path,
                close_fds=False,
                preexec_fn=prepare,
                check=True,
            )
            output.seek(0)
            outputs.append(output.read())
    assert outputs[0] == outputs[1]


# What a program sees of its place among processes, but not their numbers.
PLACE = """
import os
print(os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid())
try:
    os.setsid()
    print("made a session")
except PermissionError as error:
    print(error)
"""


def test_the_command_may_make_a_session_where_it_could_alone() -> None:
    words = [*PYTHON, "-c", PLACE]
    alone = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert (
        subprocess.run(supervised(*words), capture_output=True, text=True, check=True).stdout
        == alone
    )


def test_signals_that_are_ignored_are_taken_from_the_caller_who_knew_them() -> None:
    command = ["grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"]
    words = supervised(*command, options=["--signals", "1003", "800"])
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    by_name = dict(line.split() for line in done.stdout.splitlines())
    own = 3 << 31  # 32 and 33 are the C library's own, and as they were
    assert {name: int(mask, 16) & ~own for name, mask in by_name.items()} == {
        "SigBlk:": 0x800,
        "SigIgn:": 0x1003,
    }


def test_variables_are_set_and_removed_for_the_command_alone(tmp_path: Path) -> None:
    options = ["--child-env", "A=b=c", "--child-env", "-B", "--child-env", "-NONE"]
    answer = ["sh", "-c", 'echo "$A,$B"']
    words = supervised("sh", "-c", 'echo "$A,$B"', options=options, answer=answer)
    environment = {**os.environ, "A": "1", "B": "2"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "b=c,\n1,2\n"


def test_words_that_are_not_text_arrive_as_they_are() -> None:
    words = [os.fsencode(word) for word in supervised("printf", "%s")]
    done = subprocess.run([*words, b"\xff\xfe -- \xc3"], capture_output=True, check=True)
    assert done.stdout == b"\xff\xfe -- \xc3"


def test_stdin_is_the_commands() -> None:
    assert run("cat", input="one\ntwo\n").stdout == "one\ntwo\nanswer exit:0\n"


def test_who_writes_to_the_command_sees_that_it_no_longer_reads() -> None:
    code = "import os, time; os.close(0); os.close(5); print('closed', flush=True); time.sleep(99)"
    other_read, other_write = os.pipe()
    with started(
        *supervised(*PYTHON, "-c", code),
        stdin=subprocess.PIPE,
        close_fds=False,
        preexec_fn=lambda: os.dup2(other_write, 5),
    ) as process:
        os.close(other_write)
        assert line_of(process) == "closed"
        with pytest.raises(BrokenPipeError):
            os.write(process.stdin.fileno(), b"x")
        assert os.read(other_read, 1) == b""
        os.killpg(process.pid, signal.SIGTERM)
    os.close(other_read)


def test_who_reads_sees_the_end_although_a_program_runs_on_in_the_background(
    tmp_path: Path,
) -> None:
    script = "sleep 99 >/dev/null 2>&1 & echo $!; exit 6"
    done = run("sh", "-c", script)
    number, answer, _ = done.stdout.split("\n")
    os.kill(int(number), signal.SIGKILL)  # it had not been waited for
    assert (done.returncode, answer) == (6, "answer exit:6")


# ---- signals


@pytest.mark.parametrize("number", [2, 15, 18, 28, 40])
@pytest.mark.parametrize("receivers", ["supervisor", "group", "both"])
def test_a_signal_is_delivered_once(receivers: str, number: int) -> None:
    with started(*supervised(*PYTHON, "-c", COUNTS)) as process:
        assert line_of(process) == "ready"
        child = child_of(process.pid)
        for _ in range(2):
            if receivers in ("group", "both"):
                os.killpg(os.getpgid(child), number)
            if receivers in ("supervisor", "both"):
                os.kill(process.pid, number)
            assert line_of(process) == str(number)
            time.sleep(0.15)  # a signal that comes twice within that time is one that two got
        os.kill(process.pid, signal.SIGUSR2)
        assert (process.wait(), process.stdout.read()) == (0, "")


def test_a_signal_is_passed_on_although_the_group_had_it_before() -> None:
    with started(*supervised(*PYTHON, "-c", COUNTS)) as process:
        assert line_of(process) == "ready"
        for _ in range(2):
            os.killpg(os.getpgid(child_of(process.pid)), signal.SIGTERM)
            assert line_of(process) == "15"
            time.sleep(0.15)
            os.kill(process.pid, signal.SIGTERM)
            assert line_of(process) == "15"
        os.kill(process.pid, signal.SIGUSR2)
        assert (process.wait(), process.stdout.read()) == (0, "")


def test_signals_are_told_apart_after_the_group_was_stopped() -> None:
    with started(*supervised(*PYTHON, "-c", COUNTS)) as process:
        assert line_of(process) == "ready"
        child = child_of(process.pid)
        group = os.getpgid(child)
        os.killpg(group, signal.SIGSTOP)
        wait_until(lambda: status_of(child, "State")[0] == "T", "the command stops")
        os.kill(process.pid, signal.SIGCONT)
        assert line_of(process) == "18"
        os.killpg(group, signal.SIGTERM)
        assert line_of(process) == "15"
        time.sleep(0.15)
        os.kill(process.pid, signal.SIGTERM)
        assert line_of(process) == "15"
        os.kill(process.pid, signal.SIGUSR2)
        assert (process.wait(), process.stdout.read()) == (0, "")


def test_a_command_that_kills_its_group_is_answered() -> None:
    done = run("sh", "-c", "kill -KILL 0")
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "answer signal:9\n")


def test_who_kills_the_supervisor_kills_the_command() -> None:
    with started(*supervised(*PYTHON, "-c", COUNTS)) as process:
        assert line_of(process) == "ready"
        child = child_of(process.pid)
        pids = [int(pid) for pid in children_of(process.pid)]
        assert child in pids
        assert len(pids) == 2
        process.kill()
        wait_until(lambda: all(map(has_ended, pids)), "the command and the sentinel end")


def test_a_sentinel_that_was_killed_is_replaced() -> None:
    with started(*supervised(*PYTHON, "-c", COUNTS)) as process:
        assert line_of(process) == "ready"
        child = child_of(process.pid)
        (first,) = set(children_of(process.pid)) - {str(child)}
        os.kill(int(first), signal.SIGKILL)
        wait_until(lambda: not set(children_of(process.pid)) <= {str(child), first}, "a new one")
        (second,) = set(children_of(process.pid)) - {str(child), first}
        wait_until(lambda: os.getpgid(int(second)) == os.getpgid(child), "it joins the group")
        os.kill(process.pid, signal.SIGTERM)
        assert line_of(process) == "15"
        os.kill(process.pid, signal.SIGUSR2)
        assert (process.wait(), process.stdout.read()) == (0, "")


def test_signals_that_come_before_the_command_runs_are_not_lost() -> None:
    def block() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        os.kill(os.getpid(), signal.SIGTERM)

    words = supervised("sleep", "99", answer=ANSWER, options=["--signals", "0", "0"])
    done = subprocess.run(words, capture_output=True, text=True, check=False, preexec_fn=block)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "answer signal:15\n")


def test_an_answer_that_is_interrupted_does_not_change_the_end() -> None:
    answer = ["sh", "-c", "echo begun; exec sleep 99"]
    with started(*supervised("sh", "-c", "exit 7", answer=answer)) as process:
        assert line_of(process) == "begun"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait() == 7


def test_it_waits_in_little_memory() -> None:
    with started(*supervised(*PYTHON, "-c", COUNTS), stdin=subprocess.DEVNULL) as process:
        assert line_of(process) == "ready"
        os.kill(process.pid, signal.SIGTERM)
        assert line_of(process) == "15"
        assert int(status_of(process.pid, "VmRSS").split()[0]) <= MEMORY_KB
        os.kill(process.pid, signal.SIGUSR2)
        process.wait()
