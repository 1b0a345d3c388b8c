"""``STEPSCOPE=run[:options]`` in the environment: as `stepscope run`, without the command line.

For programs that import stepscope and are started by others: torchrun, Slurm, Ray. The options are
those of `stepscope run`, separated by commas: ``STEPSCOPE=run:last=60s,on-slow-step=2x,quiet``.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from stepscope import _native
from stepscope.errors import StepscopeError, reason_of
from stepscope.notices import notify
from stepscope.record.stream.processes import is_running

NAME = "STEPSCOPE"
_LOOK_S = 0.01


def start_of_environment(text: str) -> None:
    """Start the recording that the variable asks for; errors are only printed."""
    if text.lower() in {"", "0", "off", "none"} or _is_own_command():
        return
    try:
        _start(text)
    except Exception as error:
        notify(f"{NAME}={text!r} does not start a recording: {reason_of(error)}")


def words_of(text: str) -> list[str]:
    """Return the words of the command line that the variable stands for, without the verb."""
    verb, _, rest = text.partition(":")
    if verb != "run":
        raise StepscopeError("use run, or run:last=60s,on-slow-step=2x and so on")
    words = []
    for option in filter(None, rest.split(",")):
        name, has_value, value = option.strip().partition("=")
        words += [f"--{name.strip().lstrip('-')}", *([value] if has_value else [])]
    return words


def _is_own_command() -> bool:
    given = getattr(sys, "orig_argv", [])
    started = [word for flag, word in pairwise(given) if flag == "-m"]
    is_module = bool(started) and started[0].partition(".")[0] == "stepscope"
    return is_module or Path(sys.argv[0] if sys.argv else "").name == "stepscope"


def _start(text: str) -> None:
    """Record this process, and those that it starts; the answer is another process's."""
    from stepscope.cli.run.command import Command
    from stepscope.cli.verbs.run import begun
    from stepscope.record.inside import boot

    if boot.VARIABLE in os.environ:
        return  # `stepscope run` or a parent process records it
    run = begun(arguments(text), Command.of(sys.orig_argv[1:] or ["-"]))
    answer, companion = run.answer_command(), run.companion_command()
    _native.start_watcher(answer)
    follower = _started(companion) if companion else 0
    number = run.folders.about["triggers"]["on_signal"]
    if number is not None:
        signal.signal(number, lambda *_: os.kill(follower, number))
    for assignment in run.environment():
        name, _, value = assignment.partition("=")
        os.environ[name] = value
    pid = os.getpid()

    def end() -> None:
        if os.getpid() == pid:
            _native.dismiss_watcher()
            if follower:
                _end(follower)
            env = {name: value for name, value in os.environ.items() if name != boot.VARIABLE}
            os.waitpid(os.posix_spawn(answer[0], [*answer, "exit:0"], env), 0)

    atexit.register(end)  # runs after the exit handler of the recording, which is registered later
    boot.begin()


def _started(command: list[str]) -> int:
    """Start a process that is no child of this program; return its process id."""
    words = ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *command]
    return int(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)


def _end(process: int) -> None:
    """Have the companion write its pending captures, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    while is_running(process):
        time.sleep(_LOOK_S)


def arguments(text: str) -> argparse.Namespace:
    """Return what the variable's value stands for, as the command line would parse it."""
    from stepscope.cli.base.command import Parser
    from stepscope.cli.verbs.run import Run

    parser = Parser(prog=NAME)
    Run().add_arguments(parser)
    parsed, _ = parser.parse_known_args([*words_of(text), "-c", "pass"])
    return parsed
