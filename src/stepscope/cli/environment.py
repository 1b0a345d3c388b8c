"""``STEPSCOPE=run[:options]`` in the environment: as `stepscope run`, without the command line.

For programs that import stepscope and are started by others: torchrun, Slurm, Ray. The options are
those of `stepscope run`, separated by commas: ``STEPSCOPE=run:last=60s,on-slow-step=2x,quiet``.
"""

from __future__ import annotations

import atexit
import os
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import StepscopeError
from stepscope.notices import notify

if TYPE_CHECKING:
    import argparse


NAME = "STEPSCOPE"


def start_of_environment(text: str) -> None:
    """Begin what the variable asks for; what is wrong with it is told, and the program goes on."""
    if text.lower() in {"", "0", "off", "none"} or _is_own_command():
        return
    try:
        _start(text)
    except Exception as error:
        what = (
            str(error) if isinstance(error, StepscopeError) else f"{type(error).__name__}: {error}"
        )
        notify(f"{NAME}={text!r} does not start a recording: {what}")


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
    from stepscope.analysis.host.source_files import program_folders
    from stepscope.background import EXPORTS
    from stepscope.cli.after_run import Report, built
    from stepscope.cli.always_on import always_on_of, place_captures
    from stepscope.cli.files import check_writable
    from stepscope.cli.ranks.launch import Job, own_output, place_of_rank
    from stepscope.cli.signals import Interrupts, Phase, Terminated, Termination
    from stepscope.cli.streamed import shown_output, started_stream
    from stepscope.cli.verbs.run import output_of, session_of
    from stepscope.record.stream.run import start_streamed

    args = _arguments(text)
    script = Path(sys.argv[0] if sys.argv else "")
    stem = script.stem if script.stem and script.name not in {"-c", "-m"} else "python"
    place = place_of_rank()
    output = own_output(args, stem, place) if place else output_of(args, stem)
    check_writable(output)
    session, watch = session_of(args), always_on_of(args)
    place_captures(output)
    folders = [script.absolute().parent] if script.name else []
    job = Job(args, output, stem, place)
    folders += program_folders()
    name = script.name or stem
    stream = started_stream(output, name, folders, args, job)
    report = Report(name, shown_output(output, stream), folders, args, job)
    start_streamed(session, stream)
    watch.begin(session.recorder)
    interrupts = Interrupts()
    pid = os.getpid()

    def end(ended: BaseException | None = None) -> None:
        if os.getpid() == pid and session.running:
            watch.end()
            report.make(partial(built, session, stream), interrupts, ended, stream)
            EXPORTS.wait_quietly()

    termination = Termination(lambda number: end(Terminated(number)))
    termination.__enter__()
    termination.phase = Phase.PROGRAM
    job.__enter__()
    atexit.register(end)


def _arguments(text: str) -> argparse.Namespace:
    from stepscope.cli.command import Parser
    from stepscope.cli.verbs.run import Run

    parser = Parser(prog=NAME)
    Run().add_arguments(parser)
    parsed, _ = parser.parse_known_args([*words_of(text), "-c", "pass"])
    return parsed
