"""``stepscope run``: profiles an unchanged program."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.background import EXPORTS
from stepscope.cli.always_on import (
    RunWatch,
    add_always_on_options,
    always_on_of,
    place_captures,
)
from stepscope.cli.options import (
    add_source_options,
    add_table_options,
    memory_size,
)
from stepscope.cli.program import Program, honoured, leave_at_once
from stepscope.cli.signals import (
    Interrupts,
    Phase,
    Terminated,
    Termination,
    let_ctrl_c_kill,
    let_ctrl_c_raise,
)
from stepscope.errors import StepscopeError
from stepscope.record.limits import RECORD_BYTES
from stepscope.trace.placing import shortened

if TYPE_CHECKING:
    from stepscope.cli.command import ExitCode, Parser
    from stepscope.cli.program import Ending
    from stepscope.record.session import Session
    from stepscope.record.stream.run import RunStream
    from stepscope.trace.model import Trace

_ROWS = 10
_DEFAULT_BYTES = 2 << 30


class Run:
    """Profile a program and show where its time went.

    The program runs unchanged, as Python would run it; all arguments after its name are its own.
    However it ends, the trace is saved, a summary is printed to standard error, and stepscope exits
    with the program's status; standard output is the program's alone.

    Steps are those that the program marks; without marks, each call of the optimizer's step() ends
    one.
    """

    name = "run"

    def add_arguments(self, parser: Parser) -> None:
        """Declare the options."""
        parser.usage = (
            "stepscope run [options] script.py [args...]\n"
            "       stepscope run [options] -m module [args...]\n"
            "       stepscope run [options] -c code [args...]"
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
                "--stream",
                action=argparse.BooleanOptionalAction,
                default=True,
                help="keep what was recorded even if the program is killed, or not (default: yes, "
                "except with --last)",
            ),
            parser.add_argument(
                "-q",
                "--quiet",
                action="store_true",
                help="save the trace, and say nothing unless something goes wrong",
            ),
        ]
        parser.leave_the_rest("program", options)

    def run(self, args: argparse.Namespace) -> ExitCode:
        """Run the program, save its trace, show what was recorded, and exit as it did."""
        let_ctrl_c_kill()
        from stepscope import patch_torch
        from stepscope.analysis.host.source_files import program_folders
        from stepscope.cli.after_run import Report
        from stepscope.cli.files import check_writable
        from stepscope.cli.ranks.launch import Job, own_output, place_of_rank
        from stepscope.cli.ranks.member import finish
        from stepscope.cli.streamed import shown_output, started_stream
        from stepscope.cli.tables import check_sort_by
        from stepscope.trace.revision import note_program

        program = Program.of(args.program)
        program.check()
        check_sort_by(args.sort_by)
        place = place_of_rank()
        output = own_output(args, program.stem, place) if place else output_of(args, program.stem)
        check_writable(output)
        note_program(next(iter(program.folders()), Path.cwd()))
        session = session_of(args)
        always_on = always_on_of(args)
        place_captures(output)
        job = Job(args, output, program.stem, place)
        interrupts = Interrupts()
        # What the output needs is captured before the run: the program may change folder, streams,
        # arguments and import path.
        folders = [*program.folders(), *program_folders()]
        stream = started_stream(output, program.name, folders, args, job)
        output = shown_output(output, stream)
        recording = _Recording(session, always_on, stream)
        report = Report(program.name, output, folders, args, job)

        def conclude(error: BaseException | None) -> None:
            always_on.end()
            report.make(recording.build, interrupts, error, stream)
            EXPORTS.wait_quietly()

        def save(number: int) -> None:
            with contextlib.suppress(KeyboardInterrupt):
                interrupts.take()
            conclude(Terminated(number))

        pid = os.getpid()
        let_ctrl_c_raise()
        with Termination(save, also_when_blocked=place is not None) as termination, job:
            with patch_torch() if args.patch_torch else contextlib.nullcontext():
                ending = _recorded(recording, program, termination, interrupts)
            termination.phase = Phase.AFTER
            if os.getpid() == pid:
                conclude(ending.error)
            else:  # a child that the program forked leaves through here, too
                finish()
            interrupts.give_back()
        code = honoured(ending.error)
        if ending.abandons_threads:
            leave_at_once(code)
        return code


def output_of(args: argparse.Namespace, stem: str) -> Path:
    """Return where the trace goes, if all goes well."""
    from stepscope.cli.files import check_folder, check_output
    from stepscope.trace.placing import TRACE_SUFFIX

    if args.output is None:
        return _default_output(stem)
    path = Path(args.output)
    if not path.suffix:  # that is a folder if the program turns out to start ranks
        check_folder(path, force=args.force)
        path = path.with_name(f"{path.name}{TRACE_SUFFIX}")
    check_output(path, force=args.force)
    return path


def session_of(args: argparse.Namespace) -> Session:
    """Return the session that the options ask for."""
    from stepscope.cli.ranks.order import recording_session

    try:
        return recording_session(args)
    except ValueError as error:
        raise StepscopeError(str(error)) from None


@dataclass(frozen=True, slots=True)
class _Recording:
    """What records a run: its session, what watches it, and what has it outlive the program."""

    session: Session
    always_on: RunWatch
    stream: RunStream | None

    def start(self, program: Program) -> None:
        """Record from now on."""
        try:
            program.prepare()
            gc.collect()  # what we left behind is not collected in the program's time
            self.session.start()
        except BaseException as error:
            self._forget_stream()
            if isinstance(error, StepscopeError) or not isinstance(error, Exception):
                raise
            raise StepscopeError(f"cannot record: {type(error).__name__}: {error}") from error
        if self.stream is not None:
            self.stream.follow(self.session.recorder)
        self.always_on.begin(self.session.recorder)

    def build(self) -> Trace:
        """Stop, and return what was recorded; the files of the stream stay."""
        from stepscope.cli.after_run import built

        return built(self.session, self.stream)

    def drop(self) -> None:
        """Stop; nothing was worth recording."""
        self.always_on.end()
        self.session.stop()
        self._forget_stream()

    def _forget_stream(self) -> None:
        if self.stream is not None:
            self.stream.forget()


def _recorded(
    recording: _Recording, program: Program, termination: Termination, interrupts: Interrupts
) -> Ending:
    """Run the program inside a range of its name; the session still runs at the end."""
    from stepscope import record_function

    recording.start(program)
    scope = record_function(program.name)
    scope.__enter__()
    termination.phase = Phase.PROGRAM
    try:
        ending = program.run(interrupts)
    except BaseException:  # there is no such program
        termination.phase = Phase.BEFORE
        recording.drop()
        raise
    scope.__exit__()
    return ending


def _default_output(stem: str) -> Path:
    """Return the first choice; where it is taken when the program ends, the next one is used."""
    rest = time.strftime("-%Y%m%d-%H%M%S.stepscope")
    return Path(shortened(stem, rest) + rest)
