"""What `stepscope run` does when the program has ended: save the trace, then show it."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.analysis.answer import answer
from stepscope.cli.files import check_output, write, write_report
from stepscope.cli.program import how_it_ended
from stepscope.cli.progress import Progress
from stepscope.cli.show import (
    answer_facts,
    facts,
    headline,
    print_title,
    show_answer,
    show_command,
    show_facts,
)
from stepscope.cli.tables import step_table_text
from stepscope.cli.terminal import discard_stdout, own_command, size_on_disk
from stepscope.cli.verbs.report import report_beside
from stepscope.errors import StepscopeError
from stepscope.notices import notify
from stepscope.trace.store import SUFFIX
from stepscope.units import size_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from stepscope.record.session import Session
    from stepscope.trace.model import Trace

_FINDINGS = 3
_MOST_EVENTS = 1_000_000  # for a report that nobody asked for: a second or two of work


class Report:
    """State captured before the program runs, and the output made from it afterwards."""

    def __init__(self, program_name: str, output: Path, args: argparse.Namespace) -> None:
        """Remember the current state of this process."""
        self._program_name = program_name
        self._shown_output = output
        self._output = output.absolute()
        self._args = args
        self._json: Path | None = args.json and args.json.absolute()
        self._command = own_command()
        self._stdout = sys.stdout
        self._path = list(sys.path)

    def make(self, session: Session, ended: BaseException | None) -> None:
        """Save what was recorded, then show it; the program's own exit is unaffected."""
        with self._as_before_the_program():
            try:
                trace = self._saved(session)
                size = size_text(size_on_disk(self._output))
                self._write_json(trace)
                if self._args.no_summary:
                    notify(f"saved {self._shown_output} ({size})")
                    self._write_report(trace)
                else:
                    self._show(trace, ended, size)
                sys.stdout.flush()
            except BrokenPipeError:
                discard_stdout()
            except KeyboardInterrupt:
                notify("interrupted before the trace was saved and shown")
            except (StepscopeError, OSError, MemoryError) as error:
                notify(f"{type(error).__name__}: {error}")

    @contextlib.contextmanager
    def _as_before_the_program(self) -> Iterator[None]:
        """Use the stdout and import path of before the program ran."""
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        theirs, sys.path = sys.path, self._path
        out = sys.stderr if self._stdout.closed else self._stdout
        try:
            with contextlib.redirect_stdout(out):
                yield
        finally:
            sys.path = theirs

    def _saved(self, session: Session) -> Trace:
        with Progress("building the trace"):
            session.stop()
        trace = session.trace
        assert trace is not None, "a stopped session has a trace"
        try:
            write(trace, self._output, force=self._args.force)
        except StepscopeError as error:
            self._shown_output = self._output = Path(tempfile.mkdtemp(prefix="stepscope-")) / (
                self._output.name
            )
            notify(f"{error}; saving the trace to {self._output} instead")
            write(trace, self._output, force=False)
        return trace

    def _show(self, trace: Trace, ended: BaseException | None, size: str) -> None:
        found = answer(trace)
        print()
        print_title(f"{self._program_name}: {found.verdict}")
        about = [*_ending(ended), *answer_facts(found), ("recorded", headline(trace))]
        show_facts([*about, *facts(trace)])
        show_answer(found, _FINDINGS)
        print()
        print(step_table_text(trace, found, self._args.sort_by, self._args.row_limit))
        saved = shlex.quote(str(self._shown_output))
        commands = [f"{self._command} summary {saved}"]
        if not self._wants_report(trace) and self._output.suffix != ".html":
            commands.append(f"{self._command} report {saved}")
        if self._output.name.endswith(SUFFIX):
            commands.append(f"{self._command} export {saved} -o trace.json")
        show_facts([("saved", f"{self._shown_output} ({size})")])
        self._write_report(trace)
        for i, command in enumerate(commands):
            show_command("" if i else "next", command)

    def _write_json(self, trace: Trace) -> None:
        if self._json is None:
            return
        try:
            text = json.dumps(answer(trace).to_json(), indent=2)
            self._json.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            notify(f"the answer was not written: {self._json}: {error.strerror}")

    def _wants_report(self, trace: Trace) -> bool:
        if self._args.report is not None:
            return bool(self._args.report)
        quick = len(trace) < _MOST_EVENTS and not self._args.no_summary
        return quick and self._output.suffix != ".html"

    def _write_report(self, trace: Trace) -> None:
        """Write the report beside the trace; a failure is only reported: the trace is saved."""
        if not self._wants_report(trace):
            return
        path = report_beside(self._output)
        try:
            check_output(path, force=self._args.force)
            told = write_report(trace, path, title=self._program_name)
        except Exception as error:
            notify(f"no report was written: {error or type(error).__name__}")
            return
        link = f"{path.as_uri()} ({told}, {size_text(size_on_disk(path))})"
        if self._args.no_summary:
            notify(f"the report is {link}")
        else:
            show_command("report", link)


def _ending(ended: BaseException | None) -> Iterator[tuple[str, str]]:
    how = how_it_ended(ended)
    if how:
        yield "ended", how
