"""What a user sees when the program has ended: its trace is saved, and then shown."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.cli.base.files import read, report_beside, write_report
from stepscope.cli.base.printing import print_title, show_command, show_facts
from stepscope.cli.base.progress import Progress
from stepscope.cli.base.saving import place, save_somewhere
from stepscope.cli.base.streams import own_stream, say, writing_to
from stepscope.cli.base.terminal import size_on_disk
from stepscope.cli.run.ending import ending_facts
from stepscope.errors import StepscopeError
from stepscope.notices import notify
from stepscope.record.stream.notes import FACTS
from stepscope.record.stream.places import is_unsealed
from stepscope.trace.placing import TRACE_SUFFIX
from stepscope.units import count_text, size_text

if TYPE_CHECKING:
    from stepscope.cli.base.rank_launch import Job
    from stepscope.job.answer import JobAnswer
    from stepscope.record.read_back.family import Family, Member
    from stepscope.trace.model import Trace

_FINDINGS = 3
_MOST_EVENTS = 1_000_000  # a report that nobody asked for may take a second or two


class Report:
    """The output of a run, made from what its processes recorded.

    What shows an answer is imported once the trace is saved, and if it is shown.
    """

    def __init__(self, about: Mapping[str, Any], args: argparse.Namespace, job: Job) -> None:
        """Take what was noted when the run began: ``about`` names its program and its output."""
        self._job = job
        self._args = args
        self._program_name: str = about["program"]
        self._absolute = Path(about["output"])
        self._output = Path(about["shown"])
        if self._absolute.name.endswith(self._output.suffix):
            self._output = self._output.with_name(self._absolute.name)
        self._sources = [Path(source) for source in about["sources"]]
        self._json: Path | None = args.json
        self._replaces_json: bool = about["replaces_json"]
        self._command: str = about["command"]
        self._facts: Mapping[str, Any] = {}

    def make(
        self, family: Family, program: Member, ending: str, forget: Callable[[], object]
    ) -> None:
        """Save what was recorded, then show it; what is saved is forgotten as a stream.

        The name of the trace is taken by the folder of its stream until then.
        """
        saved: Path | None = None
        with writing_to(own_stream()):
            try:
                with Progress("building the trace"):
                    trace = family.trace_of(program)
                if family.ranks:
                    self._save_ranks(family, forget)
                    saved = self._absolute
                    trace = read(str(next(iter(self._job.ranks().values()))))
                else:
                    saved = self._save(trace, forget)
                self._facts = program.remains.meta.get(FACTS, {})
                if self._job.prints:
                    self._tell(trace, ending, saved)
                elif ending and saved is not None:
                    notify(f"rank {trace.info.rank} ended {ending}; saved {self._output}")
            except KeyboardInterrupt:
                if saved is None:
                    raise
                notify(f"interrupted; the trace is saved: {self._output}")
            except Exception as error:
                if saved is None:
                    raise
                notify(f"saved {self._output}, but: {type(error).__name__}: {error}")

    def _save(self, trace: Trace, forget: Callable[[], object]) -> Path | None:
        force = self._args.force or is_unsealed(self._absolute)
        saved = save_somewhere(trace, self._absolute, force=force)
        if saved is not None:
            self._output = self._shown(saved)
            self._absolute = saved
            forget()
        return saved

    def _save_ranks(self, family: Family, forget: Callable[[], object]) -> None:
        self._job.save(family)
        forget()  # the folder of the job may have been the stream's
        self._job.settle()
        self._output, self._absolute = self._job.shown, self._job.folder

    def _shown(self, saved: Path) -> Path:
        """Return a path as the user would write it."""
        if saved.parent == self._absolute.parent:
            return self._output.with_name(saved.name)
        return saved

    def _tell(self, trace: Trace, ending: str, saved: Path | None) -> None:
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
            self._show_job(together, ending)
        else:
            self._show(trace, ending, saved, size)

    def _show_job(self, answer: JobAnswer, ending: str) -> None:
        from stepscope.cli.base.job_answer import first_rank, show_job

        say()
        title = f"{self._program_name}: {answer.verdict}"
        show_job(answer, title, about=ending_facts(ending), findings=_FINDINGS)
        say()
        self._show_job_commands()
        if answer.rows:
            show_command(*first_rank(answer, self._command))

    def _answer_of_ranks(self) -> JobAnswer | None:
        """Return what they say together; None where they are no job, or do not fit together."""
        if self._job.place is not None or len(self._job.ranks()) < 2:
            return None
        from stepscope.cli.base.job_answer import opened
        from stepscope.job.answer import job_answer

        try:
            return job_answer(opened(str(self._absolute)))
        except StepscopeError as error:
            notify(f"the ranks are not compared: {error}")
            return None

    def _show(self, trace: Trace, ending: str, saved: Path | None, size: str) -> None:
        from stepscope.analysis.base.shared import shared_analyses

        with shared_analyses():
            self._show_answer(trace, ending)
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

    def _show_answer(self, trace: Trace, ending: str) -> None:
        from stepscope.analysis.answer import answer
        from stepscope.cli.base.show import answer_facts, facts, headline, show_answer
        from stepscope.cli.base.tables import step_table_text

        answered = answer(trace)
        say()
        print_title(f"{self._program_name}: {answered.verdict}")
        about = [*ending_facts(ending), *self._job_facts(trace), *answer_facts(answered)]
        about.append(("recorded", headline(trace)))
        show_facts([*about, *facts(trace)])
        show_answer(answered, _FINDINGS)
        say()
        say(step_table_text(trace, answered, self._args.sort_by, self._args.row_limit))

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
        from stepscope.analysis.answer import answer
        from stepscope.cli.base.json_output import json_text

        if together is not None:
            text = json_text("job", together.to_json())
        else:
            text = json_text("answer", answer(trace).to_json())

        def make(path: Path) -> None:
            path.write_text(text, encoding="utf-8")

        try:
            # Replace a file from before the run, but none that the program itself has made.
            force = self._args.force or self._replaces_json
            path = place(self._json, make, force=force, suffix=self._json.suffix)
        except (StepscopeError, OSError) as error:
            notify(f"the answer was not written: {error}")
            return
        if path != self._json:
            notify(f"{self._json} was created in the meantime; the answer was written to {path}")

    def _wants_report(self, trace: Trace) -> bool:
        if self._is_job:
            return False  # the report of a job is made from its folder
        if self._args.report is not None:
            return bool(self._args.report)
        quick = len(trace) < _MOST_EVENTS and not (self._args.no_summary or self._args.quiet)
        return quick and self._absolute.suffix != ".html"

    def _write_report(self, trace: Trace, saved: Path | None) -> None:
        """Write the report beside the trace; a failure is only reported: the trace is saved."""
        if saved is None or not self._wants_report(trace):
            return
        from stepscope.analysis.code.source_files import program_folders

        contents: list[str] = []
        folders = [*self._sources, *program_folders(self._facts)]
        source = () if self._args.no_source else folders

        def make(path: Path) -> None:
            contents.append(write_report(trace, path, title=self._program_name, source=source))

        try:
            path = place(report_beside(saved), make, force=self._args.force)
        except Exception as error:
            notify(f"no report was written: {error or type(error).__name__}")
            return
        link = f"{path.as_uri()} ({contents[-1]}, {size_text(size_on_disk(path))})"
        if self._args.quiet:
            return
        if self._args.no_summary:
            notify(f"the report is {link}")
        else:
            show_command("report", link)
            if source:
                note = "it holds the text of the program's own files; --no-source leaves that out"
                show_facts([("", note)])
