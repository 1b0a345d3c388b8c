"""``stepscope gate``: fails when a run is worse than its baseline."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.cli.base.json_output import json_text
from stepscope.errors import StepscopeError
from stepscope.notices import notify
from stepscope.units import count_text

if TYPE_CHECKING:
    from stepscope.gate.config import Config
    from stepscope.gate.model import Judgement
    from stepscope.gate.rules import Rules
    from stepscope.trace.model import Trace

_PAGE = "stepscope-gate.html"
_SUMMARY = "GITHUB_STEP_SUMMARY"
_BROKEN = 1


class Gate:
    """Fail when a run is slower or does more than its baseline.

    TRACE is a trace of any format, or a folder with several runs. The baseline is a trace or a
    folder, or the one that `--store` has kept for a branch. Rules are in [tool.stepscope.gate] of
    pyproject.toml or in [gate] of stepscope.toml; without any, steps must not become slower, run
    more operators, kernels, synchronisations or recompilations, or need more memory.

    Counts, bytes and flops are compared exactly, times by a test. Exits with 1 when a rule is
    broken, with 2 when something is wrong with the request. docs/ci.md has a workflow to copy.
    """

    name = "gate"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("traces", metavar="TRACE", type=Path, nargs="+")
        parser.add_argument(
            "--baseline",
            metavar="PATH",
            type=Path,
            action="append",
            help="what to compare with: a trace, or a folder of several; may be repeated",
        )
        parser.add_argument(
            "--branch",
            metavar="NAME",
            default="",
            help="compare with the baseline that is kept for this branch, or with --store keep it "
            "for this one (default: the branch that a pull request goes to, the current one, main)",
        )
        parser.add_argument(
            "--store", action="store_true", help="keep TRACE as the baseline of the branch instead"
        )
        parser.add_argument(
            "--rule",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="a rule that replaces all rules in files: step_time=5%%, kernels=0, "
            "max.peak_memory=4GB (may be repeated)",
        )
        parser.add_argument("--config", metavar="FILE", type=Path, help="the file with the rules")
        parser.add_argument(
            "--missing-ok",
            action="store_true",
            help="where there is no baseline yet, check limits only",
        )
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE",
            type=Path,
            help=f"write the page of the comparison here (default: {_PAGE}, when a rule is broken)",
        )
        parser.add_argument("--json", action="store_true", help="print the judgement as JSON")
        parser.add_argument("--markdown", action="store_true", help="print it as Markdown")

    def run(self, args: argparse.Namespace) -> ExitCode:
        from stepscope.cli.base.runs import read_all
        from stepscope.gate.config import read_config
        from stepscope.gate.judge import judge

        config = read_config(args.config)
        rules = _rules(args.rule, config)
        if args.store:
            return _store(args, config)
        after = read_all(args.traces)
        before = read_all(_baseline(args, config, needed=rules.need_baseline))
        judgement = judge(before, after, rules)
        page = _page(args, judgement, before, after)
        _tell(args, judgement, page)
        return 0 if judgement.ok else _BROKEN


def _rules(given: Sequence[str], config: Config) -> Rules:
    """Return the rules of the command line, else those of the file."""
    from stepscope.gate.rules import rules_of

    if not given:
        return config.rules
    rules: dict[str, object] = {}
    for rule in given:
        name, equals, value = rule.partition("=")
        if not equals:
            raise StepscopeError(f"--rule {rule}: give NAME=VALUE, such as step_time=5%")
        table, dot, inner = name.strip().partition(".")
        worth: object = {"true": True, "false": False}.get(value.strip().lower(), value.strip())
        if dot and table in ("max", "min", "operators"):
            inside = rules.setdefault(table, {})
            assert isinstance(inside, dict)
            inside[inner] = worth
        else:
            rules[name.strip()] = worth
    return rules_of(rules, "--rule")


def _baseline(args: argparse.Namespace, config: Config, *, needed: bool) -> list[Path]:
    from stepscope.gate.baselines import stored

    if args.baseline:
        return list(args.baseline)
    if config.baseline is not None and not args.branch:
        if config.baseline.exists() or not args.missing_ok:
            return [config.baseline]
        return []
    if not needed:
        return []
    try:
        return [stored(config.store, args.branch or config.branch, config.root)]
    except StepscopeError as error:
        if not args.missing_ok:
            raise
        notify(f"{error}; only limits are checked")
        return []


def _store(args: argparse.Namespace, config: Config) -> ExitCode:
    from stepscope.cli.base.runs import read_all
    from stepscope.gate.baselines import current_branch, keep

    traces = read_all(args.traces)
    branch = args.branch or current_branch(config.root)
    folder = keep(config.store, branch, traces)
    notify(f"kept {count_text(len(traces), 'run')} as the baseline of {branch}: {folder}")
    return 0


def _page(
    args: argparse.Namespace, judgement: Judgement, before: Sequence[Trace], after: Sequence[Trace]
) -> Path | None:
    """Write the page where it was asked for, or when a rule is broken; return where it is."""
    from stepscope.analysis.compare.diff import diff_traces
    from stepscope.cli.base.files import write_report
    from stepscope.report.compare import export_diff_html

    if args.output is None and judgement.ok:
        return None
    path: Path = args.output or Path(_PAGE)
    try:
        if before:
            export_diff_html(judgement.diff or diff_traces(before, after), path)
        else:
            write_report(after[0], path, title=args.traces[0].name, source=[Path.cwd()])
    except (StepscopeError, OSError) as error:
        notify(f"no page was written: {error}")
        return None
    return path.absolute()


def _tell(args: argparse.Namespace, judgement: Judgement, page: Path | None) -> None:
    from stepscope.gate.show import judgement_markdown, judgement_text

    if args.json:
        document = {**judgement.to_json(), "page": None if page is None else str(page)}
        print(json_text("gate", document), end="", flush=True)
    elif args.markdown:
        print(judgement_markdown(judgement, page.name if page else ""), flush=True)
    else:
        print(judgement_text(judgement), flush=True)
        if page is not None:
            print(f"\npage  {page.as_uri()}", flush=True)
    _summarize(judgement_markdown(judgement, page.name if page else ""))


def _summarize(markdown: str) -> None:
    """Add the judgement to the summary of the step, where GitHub asks for one."""
    path = os.environ.get(_SUMMARY)
    if path:
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(markdown)
        except OSError as error:
            notify(f"{path}: {error.strerror}: the step has no summary")
