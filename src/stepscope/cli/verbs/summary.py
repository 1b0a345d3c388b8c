"""``stepscope summary``: the table of a trace."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.cli.base.json_output import json_text
from stepscope.cli.base.options import add_table_options, check_sort_by, finding_limit
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from stepscope.analysis.answer import Answer
    from stepscope.trace.model import Trace

_ROWS = 30
_FINDINGS = 5


class Summary:
    """Show where the time of a trace went.

    TRACE is a folder that `stepscope run` wrote, or a trace file of torch.profiler, Kineto or
    Chrome, compressed or not. A folder that holds the traces of many ranks is a job: the summary
    shows which rank is late, by how much, and why.
    """

    name = "summary"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("trace", metavar="TRACE")
        add_table_options(parser, _ROWS)
        parser.add_argument(
            "--group-by-overload",
            action="store_true",
            help="one row per overload of an operator",
        )
        parser.add_argument(
            "--group-by-shape", action="store_true", help="one row per set of input shapes"
        )
        parser.add_argument(
            "--group-by-stack",
            metavar="N",
            type=int,
            default=0,
            help="one row per call stack, by the N innermost Python frames",
        )
        parser.add_argument(
            "--flops", action="store_true", help="show FLOPs, where shapes were recorded"
        )
        parser.add_argument(
            "--modules",
            metavar="DEPTH",
            type=int,
            nargs="?",
            const=-1,
            help="sum up by module instead of by operator, down to a depth",
        )
        parser.add_argument(
            "--device",
            metavar="VIEW",
            nargs="?",
            const="overview",
            help="show device activity instead: overview (the default), streams, steps, idle, "
            "queue, kernels, copies, communication, flops, roofline or power",
        )
        parser.add_argument(
            "--memory",
            action="store_true",
            help="show instead what makes up the peak memory, who allocated it, and what would "
            "lower it",
        )
        parser.add_argument(
            "--findings",
            metavar="N",
            type=finding_limit,
            default=_FINDINGS,
            help=f"how many findings to show: a number, all or none (default: {_FINDINGS})",
        )
        parser.add_argument(
            "--json",
            action="store_true",
            help="print the answer as JSON instead: verdict, steps, where a step goes, findings",
        )
        parser.add_argument(
            "--torch-table",
            action="store_true",
            help="show torch.profiler's table: all threads, start-up included; --group-by, --flops "
            "and --save imply it",
        )
        parser.add_argument("--save-findings", metavar="FILE", help="write all findings as JSON")
        parser.add_argument(
            "--save", metavar="FILE", help="also write all rows of the table: .csv or .json"
        )

    def run(self, args: argparse.Namespace) -> ExitCode:
        _check_options(args)
        if Path(args.trace).is_dir():
            from stepscope.cli.base.rank_launch import is_job

            if is_job(args.trace):
                from stepscope.cli.base.job_answer import summarize_job

                summarize_job(args, _ROWS)
                return 0
        from stepscope.analysis.base.shared import shared_analyses
        from stepscope.cli.base.files import read

        trace = read(args.trace)
        with shared_analyses():
            return self._show(trace, args)

    def _show(self, trace: Trace, args: argparse.Namespace) -> ExitCode:
        from stepscope.analysis.answer import answer
        from stepscope.cli.base.printing import print_title, show_facts
        from stepscope.cli.base.show import answer_facts, facts, headline, show_answer

        answered = answer(trace)
        if args.save_findings:
            _save_findings(answered, args.save_findings)
        if args.json:
            print(json_text("answer", answered.to_json()), end="", flush=True)
            return 0
        table = _table(trace, answered, args)
        print_title(f"{args.trace}: {answered.verdict}")
        show_facts([*answer_facts(answered), ("recorded", headline(trace)), *facts(trace)])
        show_answer(answered, args.findings, ": --findings all")
        print(f"\n{table or 'There is nothing to summarize.'}".rstrip("\n"), flush=True)
        return 0


def _check_options(args: argparse.Namespace) -> None:
    """Refuse a word that no table knows, before anything is read."""
    check_sort_by(args.sort_by)
    if args.save is not None:
        from stepscope.cli.base.tables import check_table_file

        check_table_file(args.save)
    if args.device is not None:
        from stepscope.cli.base.device import check_view

        check_view(args.device)


def _table(trace: Trace, answer: Answer, args: argparse.Namespace) -> str:
    from stepscope.cli.base.device import device_text
    from stepscope.cli.base.tables import Grouping, modules_text, step_table_text, table_text

    if args.device is not None:
        return device_text(trace, args.device, args.row_limit, args.save)
    if args.memory:
        return _memory_text(answer, args.row_limit)
    if args.modules is not None:
        depth = None if args.modules < 0 else args.modules
        return modules_text(trace, depth, args.row_limit, args.save)
    grouping = Grouping(
        by_shape=args.group_by_shape,
        by_stack=args.group_by_stack,
        by_overload=args.group_by_overload,
        flops=args.flops,
    )
    if args.torch_table or args.save is not None or grouping != Grouping():
        return table_text(trace, args.sort_by, args.row_limit, grouping, args.save)
    return step_table_text(trace, answer, args.sort_by, args.row_limit)


def _memory_text(answer: Answer, row_limit: int) -> str:
    from stepscope.text.memory import peak_text

    if not answer.memory:
        raise StepscopeError(
            "the trace has no memory events; record with --memory, or profile_memory=True"
        )
    return "\n\n".join(peak_text(peak, row_limit) for peak in answer.memory)


def _save_findings(answered: Answer, path: str) -> None:
    findings = [finding.to_json() for finding in answered.findings]
    try:
        Path(path).write_text(json.dumps(findings, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise StepscopeError(f"{path}: {error.strerror}") from None
