"""``stepscope run``: profiles an unchanged program."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from stepscope.cli.base.command import Parser
from stepscope.cli.base.options import (
    add_always_on_options,
    add_source_options,
    add_table_options,
    check_sort_by,
    memory_size,
    record_options,
    triggers_of,
)
from stepscope.cli.base.signals import held_signals, let_ctrl_c_kill
from stepscope.record.limits import RECORD_BYTES
from stepscope.record.source import check_options
from stepscope.trace.placing import TRACE_SUFFIX, shortened

if TYPE_CHECKING:
    from stepscope.cli.run.command import Command
    from stepscope.cli.run.plan import RunFolders

_ROWS = 10
_DEFAULT_BYTES = 2 << 30
_COMPANION_DELAY_S = 0.2  # nobody asks about a program that ends at once
_IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}
# The options that the answer needs after the program has ended.
_FOR_THE_ANSWER = ("force", "quiet", "no_summary", "report", "sort_by", "row_limit", "no_source")


class Run:
    """Profile a program and show where its time went.

    The program runs unchanged, in a process of its own; all arguments after its name are its own.
    It may be a script, a folder or archive with a __main__, - for standard input, or any command:
    torchrun, pytest, a shell script. Every Python process that it starts is recorded, too. However
    it ends, the trace is saved, a summary is printed to standard error, and stepscope ends as the
    program did; standard output is the program's alone.

    Steps are those that the program marks; without marks, each call of the optimizer's step() ends
    one.
    """

    name = "run"

    def add_arguments(self, parser: Parser) -> None:
        parser.usage = (
            "stepscope run [options] script.py [args...]\n"
            "       stepscope run [options] -m module [args...]\n"
            "       stepscope run [options] -c code [args...]\n"
            "       stepscope run [options] command [args...]"
        )
        options = [
            parser.add_argument(
                "-o",
                "--output",
                metavar="PATH",
                type=Path,
                help="where the trace goes; the suffix picks the format, as for `stepscope "
                "export`; without a suffix it is .stepscope (default: "
                "SCRIPT-DATE-TIME.stepscope in this folder)",
            ),
            parser.add_argument("--force", action="store_true", help="replace PATH if it exists"),
            parser.add_argument(
                "--memory-limit",
                metavar="SIZE",
                type=memory_size,
                default=_DEFAULT_BYTES,
                help=f"memory for the recording: 512M, 2G, none; an event takes {RECORD_BYTES} "
                f"bytes, and dropped events are counted (default: {_DEFAULT_BYTES >> 30}G, "
                f"{_DEFAULT_BYTES // RECORD_BYTES // 10**6} million events)",
            ),
            parser.add_argument(
                "--keep",
                choices=("oldest", "newest"),
                default="oldest",
                help="which events to keep when the limit is reached (default: oldest)",
            ),
            *add_always_on_options(parser),
            *add_source_options(parser),
            parser.add_argument(
                "--patch-torch",
                action="store_true",
                help="make the program's own torch.profiler code record through Stepscope as well",
            ),
            *add_table_options(parser, _ROWS),
            parser.add_argument(
                "--report",
                action=argparse.BooleanOptionalAction,
                help="write the report beside the trace, or not (default: only below a million "
                "events, and not with --no-summary)",
            ),
            parser.add_argument(
                "--json",
                metavar="FILE",
                type=Path,
                help="also write the answer as JSON: verdict, steps, where a step goes, findings",
            ),
            parser.add_argument(
                "--no-source",
                action="store_true",
                help="leave the text of your source files out of the report",
            ),
            parser.add_argument("--no-summary", action="store_true", help="only save the trace"),
            parser.add_argument(
                "-q",
                "--quiet",
                action="store_true",
                help="save the trace, and say nothing unless something goes wrong",
            ),
        ]
        parser.leave_the_rest("program", options)

    def run(self, args: argparse.Namespace) -> NoReturn:
        """Become the supervisor of the program: it shows the answer, and ends as the program."""
        from stepscope.cli.run.command import Command

        let_ctrl_c_kill()
        command = Command.of(args.program)
        check_sort_by(args.sort_by)
        check_options(record_options(args))
        # Signals stay pending until the supervisor runs, which saves the recording after one.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            words = supervised(begun(args, command), command.words, blocked)
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os.execv(words[0], words)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@held_signals()  # a signal must not leave folders behind that nobody seals
def begun(args: argparse.Namespace, command: Command) -> RunFolders:
    """Make the folders of a run, and write down how its processes are to record."""
    from stepscope.cli.base.rank_launch import Job, own_output, place_of_rank
    from stepscope.cli.base.terminal import own_command
    from stepscope.cli.run.plan import RunFolders, recording_plan
    from stepscope.record.stream.processes import killed_for_memory

    plan, triggers = recording_plan(args), triggers_of(args)
    place = place_of_rank()
    stem = command.stem
    output = own_output(args, stem, place) if place else output_of(args, stem)
    job = Job.of(args, output, stem, place)

    def about(claimed: Path) -> dict[str, Any]:
        return {
            "program": command.name,
            "output": str(claimed),
            "shown": str(output),
            "is_output_named": args.output is not None,
            "sources": [str(command.folder)],
            "options": {option: getattr(args, option) for option in _FOR_THE_ANSWER},
            "json": str(args.json.absolute()) if args.json else None,
            "replaces_json": args.json is not None and args.json.exists(),
            "job": job.to_json(),
            "triggers": triggers._asdict(),
            "has_triggers": bool(triggers),
            "is_followed": bool(triggers) or not args.no_control,
            "command": own_command(),
            "killed_for_memory": killed_for_memory(os.getpid()),
        }

    run = RunFolders.begin(output, about, replaces=args.force and output.exists())
    run.tell(plan)
    return run


def supervised(run: RunFolders, command: Sequence[str], blocked: Collection[int]) -> list[str]:
    """Return the command that runs another with its companion, and the answer afterwards.

    It starts with the signals ``blocked``, and ignores those that are ignored now.
    """
    from stepscope.cli.run.plan import SUPERVISOR

    words = [sys.executable, "-I", "-S", *SUPERVISOR]
    ignored = {
        number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN
    }
    words += ["--signals", _mask(ignored - _IGNORED_BY_PYTHON), _mask(blocked)]
    for assignment in run.environment():
        words += ["--child-env", assignment]
    companion, answer = run.companion_command(), run.answer_command()
    if companion:
        number = run.folders.about["triggers"]["on_signal"] or 0
        delay_s = 0 if run.folders.about["has_triggers"] else _COMPANION_DELAY_S
        words += ["--companion", f"{number}:{delay_s}", str(len(companion)), *companion]
    return [*words, "--answer", str(len(answer)), *answer, "--", *command]


def _mask(numbers: Collection[int]) -> str:
    """Return a set of signals as /proc/PID/status has it."""
    return f"{sum(1 << (number - 1) for number in numbers):x}"


def output_of(args: argparse.Namespace, stem: str) -> Path:
    """Return where the trace goes, unless that place turns out to be unusable."""
    if args.output is None:
        return _default_output(stem)
    from stepscope.cli.base.files import check_folder, check_output

    path = Path(args.output)
    if not path.suffix:  # it names a folder if the program turns out to start ranks
        check_folder(path, force=args.force)
        path = path.with_name(f"{path.name}{TRACE_SUFFIX}")
    check_output(path, force=args.force)
    return path


def _default_output(stem: str) -> Path:
    """Return the default path; if it is taken when the program ends, a number is added."""
    rest = time.strftime("-%Y%m%d-%H%M%S.stepscope")
    return Path(shortened(stem, rest) + rest)
