"""What the verbs do with a folder of ranks: the answer of the job, and its report."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from stepscope.cli.base.json_output import json_text
from stepscope.cli.base.printing import Fact, print_title, show_command, show_facts, show_findings
from stepscope.cli.base.progress import Progress
from stepscope.cli.base.streams import say
from stepscope.errors import StepscopeError
from stepscope.units import count_text, duration_text

if TYPE_CHECKING:
    from stepscope.job.answer import JobAnswer
    from stepscope.job.model import Job
    from stepscope.trace.model import Trace

_MOST_LEFT_OUT = 6
_MOST_RANKS = 12
_ONE_RANK_ONLY = ("device", "modules", "memory", "torch_table", "group_by_shape", "save")


def opened(path: str) -> Job:
    from stepscope.job.model import open_job

    with Progress(f"reading the ranks of {path}") as progress:
        return open_job(path, progress=progress)


def summarize_job(args: argparse.Namespace, usual_rows: int) -> None:
    """Print which rank is late, by how much, and why; ``usual_rows`` is the limit of a table."""
    from stepscope.job.answer import job_answer

    for option in _ONE_RANK_ONLY:
        if getattr(args, option, None) not in (None, False):
            words = option.replace("_", "-")
            raise StepscopeError(
                f"--{words} is about one rank, and {args.trace} is a folder of ranks; name one of "
                "the traces in it"
            )
    job = opened(args.trace)
    job_answered = job_answer(job)
    if args.save_findings:
        findings = [finding.to_json() for finding in job_answered.findings]
        text = json.dumps(findings, indent=2) + "\n"
        Path(args.save_findings).write_text(text, encoding="utf-8")
    if args.json:
        print(json_text("job", job_answered.to_json()), end="", flush=True)
        return
    limit = _MOST_RANKS if args.row_limit == usual_rows else args.row_limit
    show_job(
        job_answered, f"{args.trace}: {job_answered.verdict}", limit=limit, findings=args.findings
    )
    say()
    show_command("report", f"stepscope report {args.trace}")
    if job_answered.rows:
        show_command(*first_rank(job_answered, "stepscope"))


def show_job(
    answer: JobAnswer,
    title: str,
    about: Iterable[Fact] = (),
    limit: int = _MOST_RANKS,
    findings: int | None = None,
) -> None:
    """Print the answer of a job: its verdict, the table of its ranks, the findings."""
    from stepscope.text.job import ranks_text

    print_title(title)
    show_facts([*about, *job_facts(answer)])
    say()
    say("\n".join(f"  {line}" for line in ranks_text(answer, limit).splitlines()))
    show_findings(answer.findings, findings, ": --findings all")


def first_rank(answer: JobAnswer, command: str) -> tuple[str, str]:
    """Return the rank to look at first, and the command that shows it."""
    job, rank = answer.job, answer.rows[0].rank
    at = int((job.number == rank).argmax())
    return f"rank {rank}", f"{command} summary {job.ranks[at].path}"


def job_facts(answer: JobAnswer) -> Iterator[Fact]:
    """Yield what is shown above the table of ranks."""
    job = answer.job
    events = count_text(sum(rank.events for rank in job.ranks), "event")
    hosts = {host for host in job.hosts if host}
    where = f" on {count_text(len(hosts), 'host')}" if hosts else ""
    of_world = "" if len(job) == job.world_size else f" of {job.world_size:,}"
    yield "ranks", f"{len(job):,}{of_world}{where}; {events}"
    if job.missing:
        shown = ", ".join(map(str, job.missing[:12]))
        more = f" and {len(job.missing) - 12:,} more" if len(job.missing) > 12 else ""
        yield "missing", f"rank {shown}{more}: there is no usable trace"
    for trace_left_out in job.left_out[:_MOST_LEFT_OUT]:
        yield "left out", f"{Path(trace_left_out.path).name} {trace_left_out.reason}"
    if len(job.left_out) > _MOST_LEFT_OUT:
        yield "left out", f"{len(job.left_out) - _MOST_LEFT_OUT:,} more files: see --json"
    lost = sum(rank.lost for rank in job.ranks)
    if lost:
        of_rings = all(rank.is_ring for rank in job.ranks if rank.lost)
        losses = f"{count_text(lost, 'event')} at memory limits"
        if of_rings:
            earlier = count_text(lost, "earlier event")
            losses = f"{earlier} dropped: only the most recent part is kept"
        yield "lost", losses
    steady = int(job.steady.sum())
    of_steady = "" if steady == len(job.steps) else f", over the {steady:,} steady ones"
    median = duration_text(job.typical_step_ns)
    yield f"{job.unit}s", f"{len(job.steps):,}: median {median}{of_steady}"
    yield "clocks", _clocks(job)


def _clocks(job: Job) -> str:
    clocks = job.clocks
    if not clocks.is_aligned:
        return "as recorded: no collective shows how far apart the ranks' clocks are"
    moved = float(abs(clocks.offset_ns).max())
    drift = float(abs(clocks.drift).max()) * 1e6
    by = count_text(len(job.meetings), "collective")
    alignment = f"aligned by the ends of {by}, residual {duration_text(clocks.residual_ns)}"
    if moved:
        alignment += f" (offsets up to {duration_text(moved)}, drift up to {drift:.1f} ppm)"
    if len(set(clocks.part.tolist())) > 1:
        alignment += "; some ranks share no collective and cannot be compared"
    return f"{alignment}; smaller differences are not blamed on any rank"


def report_job(args: argparse.Namespace, output: Path) -> None:
    """Write the page of a job, and the reports of some ranks into a folder beside it."""
    from stepscope.cli.base.terminal import size_on_disk
    from stepscope.job.answer import job_answer
    from stepscope.notices import notify
    from stepscope.report.job import export_job_html
    from stepscope.units import size_text

    answer = job_answer(opened(args.trace))
    beside = output.with_name(f"{output.stem}-ranks")
    wanted = _reported_ranks(answer, args.ranks)
    links: dict[int, str] = {}
    traces = {}
    for number in wanted:
        page = beside / f"rank-{number}.html"
        try:
            traces[number] = _write_rank(answer.job, number, page, args)
        except StepscopeError as error:
            notify(f"rank {number} has no report of its own: {error}")
            continue
        links[number] = f"{quote(beside.name)}/{page.name}"
    export_job_html(answer, output, links=links, traces=traces)
    more = f" and {count_text(len(links), 'rank')} in {beside}" if links else ""
    size = size_text(size_on_disk(output))
    notify(f"wrote {output}: {count_text(len(answer.job), 'rank')}, {size}{more}")
    unreported = len(answer.job) - len(links)
    if unreported:
        ranks = count_text(unreported, "rank")
        notify(f"{ranks} without a report of its own: --ranks all writes them, too")


def _write_rank(job: Job, number: int, page: Path, args: argparse.Namespace) -> Trace:
    from stepscope.cli.base.files import read, write_report

    path = job.ranks[int((job.number == number).argmax())].path
    trace = read(path)
    page.parent.mkdir(exist_ok=True)
    folders = [Path(path).absolute().parent, Path(args.trace).absolute(), Path.cwd(), *args.source]
    source = [] if args.no_source else folders
    write_report(trace, page, title=f"rank {number}", source=source)
    return trace


def _reported_ranks(answer: JobAnswer, wanted: int | None) -> list[int]:
    """Return the ranks that get a report: the latest ones, and a middle one to compare with."""
    rows = [row.rank for row in answer.rows]
    if wanted is None or wanted >= len(rows):
        return rows
    if wanted < 2:
        return rows[:wanted]
    middle = rows[len(rows) // 2]
    return [*[rank for rank in rows if rank != middle][: wanted - 1], middle]
