"""What `stepscope run` does when the program has ended: save the trace, then show it."""

from __future__ import annotations

import contextlib
import shlex
import sys
from typing import TYPE_CHECKING, Protocol

from stepscope.analysis.answer import answer
from stepscope.analysis.shared import shared_analyses
from stepscope.cli.files import read, write_report
from stepscope.cli.json_output import json_text
from stepscope.cli.printing import print_title, show_command, show_facts
from stepscope.cli.program import EndedOutside, how_it_ended
from stepscope.cli.progress import Progress
from stepscope.cli.saving import place, save_somewhere
from stepscope.cli.show import answer_facts, facts, headline, show_answer
from stepscope.cli.signals import forget_half_imports
from stepscope.cli.streams import own_stream, say, writing_to
from stepscope.cli.tables import step_table_text
from stepscope.cli.terminal import own_command, size_on_disk
from stepscope.cli.verbs.report import report_beside
from stepscope.errors import StepscopeError
from stepscope.notices import notify
from stepscope.record.stream.places import is_unsealed
from stepscope.trace.placing import TRACE_SUFFIX
from stepscope.units import count_text, size_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from stepscope.cli.ranks.launch import Job
    from stepscope.cli.signals import Interrupts
    from stepscope.job.answer import JobAnswer
    from stepscope.record.session import Session
    from stepscope.record.stream.run import RunStream
    from stepscope.trace.model import Trace


class Forgettable(Protocol):
    """What is kept until the trace is saved."""

    def forget(self) -> None:
        """Remove it."""


_FINDINGS = 3
_MOST_EVENTS = 1_000_000  # for a report that nobody asked for: a second or two of work


class Report:
    """State captured before the program runs, and the output made from it afterwards."""

    def __init__(
        self,
        program_name: str,
        output: Path,
        sources: Sequence[Path],
        args: argparse.Namespace,
        job: Job,
    ) -> None:
        """Remember the current state of this process.

        ``sources`` are the folders of the program's own files.
        """
        self._job = job
        self._program_name = program_name
        self._output = output
        self._absolute = output.absolute()
        self._sources = sources
        self._args = args
        self._json: Path | None = args.json and args.json.absolute()
        self._replaces_json = args.json is not None and args.json.exists()
        self._command = own_command()
        self._stream = own_stream()
        self._path = list(sys.path)

    def is_for(self, output: Path, command: str, *, replaces_json: bool) -> None:
        """Report for a process that has ended, in whose place this one stands."""
        self._absolute = output
        self._command = command
        self._replaces_json = replaces_json

    def make(
        self,
        build: Callable[[], Trace],
        interrupts: Interrupts,
        ended: BaseException | None = None,
        stream: Forgettable | None = None,
    ) -> None:
        """Save what was recorded, then show it; the program's own exit is unaffected.

        The name of the trace is taken by the folder of its stream until then.
        """
        with self._beside_the_program():
            trace: Trace | None = None
            saved: Path | None = None
            try:
                trace = build()
                self._job.seal_ranks()
                if self._job.place is None and self._job.ranks():
                    trace, saved = self._with_ranks(trace, stream), self._absolute
                else:
                    force = self._args.force or (stream is not None and is_unsealed(self._absolute))
                    saved = save_somewhere(trace, self._absolute, force=force)
                    if saved is not None:
                        self._output = self._shown(saved)
                        self._absolute = saved
                        if stream is not None:
                            stream.forget()
                interrupts.raises = True
                if interrupts.came:
                    raise KeyboardInterrupt
                if self._job.prints:
                    self._tell(trace, ended, saved)
                elif isinstance(ended, EndedOutside) and saved is not None:
                    notify(f"rank {trace.info.rank} ended {ended}; saved {self._output}")
            except KeyboardInterrupt:
                self._interrupted(trace, saved)
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                done = "the trace was not saved" if saved is None else f"saved {self._output}, but"
                notify(f"{done}: {what}")
            finally:
                interrupts.raises = False

    def _with_ranks(self, own: Trace, stream: Forgettable | None) -> Trace:
        """Complete the folder of a job whose ranks the program has started; return the first."""
        path = self._job.own_path(own)
        if path is not None:
            save_somewhere(own, path, force=False)
        if stream is not None:
            stream.forget()  # the folder of the job may be the one that it lay in
        self._job.settle()
        ranks = self._job.ranks()
        self._output, self._absolute = self._job.shown, self._job.folder
        return read(str(next(iter(ranks.values()))))

    @contextlib.contextmanager
    def _beside_the_program(self) -> Iterator[None]:
        """Use the import path of before the program ran, and a stream of our own."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        forget_half_imports()
        theirs, sys.path = sys.path, self._path
        their_errors, sys.stderr = sys.stderr, self._stream
        try:
            with writing_to(self._stream):
                yield
        finally:
            sys.path, sys.stderr = theirs, their_errors
            with contextlib.suppress(Exception):
                self._stream.flush()

    def _shown(self, saved: Path) -> Path:
        """Return a path as the user would write it."""
        if saved.parent == self._absolute.parent:
            return self._output.with_name(saved.name)
        return saved

    def _interrupted(self, trace: Trace | None, saved: Path | None) -> None:
        if saved is not None:
            notify(f"interrupted; the trace is saved: {self._output}")
        elif trace is None:
            notify("interrupted twice before the trace was built: it is lost")
        else:
            notify("interrupted twice before the trace was saved: it is lost")

    def _tell(self, trace: Trace, ended: BaseException | None, saved: Path | None) -> None:
        is_wanted = self._json is not None or not (self._args.quiet or self._args.no_summary)
        together = self._answer_of_ranks() if is_wanted else None
        self._write_json(trace, together)
        size = "" if saved is None else size_text(size_on_disk(saved))
        if self._args.quiet:
            self._write_report(trace, saved)
        elif self._args.no_summary:
            if saved is not None:
                notify(f"saved {self._output} ({size})")
            self._write_report(trace, saved)
        elif together is not None:
            self._show_job(together, ended)
        else:
            self._show(trace, ended, saved, size)

    def _show_job(self, found: JobAnswer, ended: BaseException | None) -> None:
        """Show what the ranks that the program has started say together."""
        from stepscope.cli.job_answer import first_rank, show_job

        say()
        title = f"{self._program_name}: {found.verdict}"
        show_job(found, title, about=_ending(ended), findings=_FINDINGS)
        say()
        self._show_job_commands()
        if found.rows:
            show_command(*first_rank(found, self._command))

    def _answer_of_ranks(self) -> JobAnswer | None:
        """Return what they say together; None where they are no job, or do not fit together."""
        if self._job.place is not None or len(self._job.ranks()) < 2:
            return None
        from stepscope.cli.job_answer import opened
        from stepscope.job.answer import job_answer

        try:
            return job_answer(opened(str(self._absolute)))
        except StepscopeError as error:
            notify(f"the ranks are not compared: {error}")
            return None

    def _show(
        self, trace: Trace, ended: BaseException | None, saved: Path | None, size: str
    ) -> None:
        with shared_analyses():
            self._show_answer(trace, ended)
        if saved is None:
            return
        if self._is_job:
            self._show_job_commands()
            return
        path = shlex.quote(str(self._output))
        commands = [f"{self._command} summary {path}"]
        if not self._wants_report(trace) and saved.suffix != ".html":
            commands.append(f"{self._command} report {path}")
        if saved.name.endswith(TRACE_SUFFIX):
            commands.append(f"{self._command} export {path} -o trace.json")
        show_facts([("saved", f"{self._output} ({size})")])
        self._write_report(trace, saved)
        for i, command in enumerate(commands):
            show_command("" if i else "next", command)

    def _show_answer(self, trace: Trace, ended: BaseException | None) -> None:
        found = answer(trace)
        say()
        print_title(f"{self._program_name}: {found.verdict}")
        about = [*_ending(ended), *self._job_facts(trace), *answer_facts(found)]
        about.append(("recorded", headline(trace)))
        show_facts([*about, *facts(trace)])
        show_answer(found, _FINDINGS)
        say()
        say(step_table_text(trace, found, self._args.sort_by, self._args.row_limit))

    def _show_job_commands(self) -> None:
        folder = shlex.quote(str(self._job.shown))
        size = size_text(size_on_disk(self._job.folder))
        show_facts([("saved", f"{self._job.shown} ({size})")])
        show_command("next", f"{self._command} summary {folder}")
        show_command("", f"{self._command} report {folder}")

    def _job_facts(self, trace: Trace) -> Iterator[tuple[str, str]]:
        """Say what the job is, and which of its ranks is shown."""
        if not self._is_job:
            return
        ranks, world = self._job.ranks(), trace.info.world_size or 0
        saved = count_text(len(ranks), "rank")
        of = f" of {world}" if world > len(ranks) else ""
        yield "job", f"{saved}{of} in {self._job.shown}; this is rank {trace.info.rank}"

    @property
    def _is_job(self) -> bool:
        return self._job.place is not None or bool(self._job.ranks())

    def _write_json(self, trace: Trace, together: JobAnswer | None) -> None:
        if self._json is None:
            return
        if together is not None:
            text = json_text("job", together.to_json())
        else:
            text = json_text("answer", answer(trace).to_json())

        def make(path: Path) -> None:
            path.write_text(text, encoding="utf-8")

        try:
            # One that was there before the run was meant; one that the program made is its own.
            force = self._args.force or self._replaces_json
            path = place(self._json, make, force=force, suffix=self._json.suffix)
        except (StepscopeError, OSError) as error:
            notify(f"the answer was not written: {error}")
            return
        if path != self._json:
            notify(f"{self._json} was created in the meantime; the answer was written to {path}")

    def _wants_report(self, trace: Trace) -> bool:
        if self._is_job:
            return False  # one of the whole job is made from its folder
        if self._args.report is not None:
            return bool(self._args.report)
        quick = len(trace) < _MOST_EVENTS and not (self._args.no_summary or self._args.quiet)
        return quick and self._absolute.suffix != ".html"

    def _write_report(self, trace: Trace, saved: Path | None) -> None:
        """Write the report beside the trace; a failure is only reported: the trace is saved."""
        if saved is None or not self._wants_report(trace):
            return
        told: list[str] = []
        source = () if self._args.no_source else self._sources

        def make(path: Path) -> None:
            told.append(write_report(trace, path, title=self._program_name, source=source))

        try:
            path = place(report_beside(saved), make, force=self._args.force)
        except Exception as error:
            notify(f"no report was written: {error or type(error).__name__}")
            return
        link = f"{path.as_uri()} ({told[-1]}, {size_text(size_on_disk(path))})"
        if self._args.quiet:
            return
        if self._args.no_summary:
            notify(f"the report is {link}")
        else:
            show_command("report", link)
            if source:
                note = "it holds the text of the program's own files; --no-source leaves that out"
                show_facts([("", note)])


def built(session: Session, stream: RunStream | None = None) -> Trace:
    """Stop the session and return its trace; the files of its stream stay."""
    if stream is not None:
        stream.stop()
    with Progress("building the trace"):
        session.stop()
    trace = session.trace
    assert trace is not None, "a stopped session has a trace"
    return trace


def _ending(ended: BaseException | None) -> Iterator[tuple[str, str]]:
    how = how_it_ended(ended)
    if how:
        yield "ended", how
