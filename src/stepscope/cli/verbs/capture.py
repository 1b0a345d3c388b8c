"""``stepscope capture``: has programs that run write what they record."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.errors import StepscopeError

_WRITING_S = 600.0  # a large trace on a slow disk


class Capture:
    """Write what a running program records, or record it from now on.

    Without --seconds, all that a recording holds is written: with `stepscope run --last 60s`, the
    last minute. With --seconds, or if nothing is being recorded, it is what comes from now on. The
    program keeps running. Programs are listed by `stepscope ps`; a job means all its
    processes on this machine.
    """

    name = "capture"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("program", metavar="PID|JOB", help="as `stepscope ps` lists it")
        parser.add_argument(
            "--seconds", type=seconds, metavar="N", help="record for N seconds, starting now"
        )
        parser.add_argument("--reason", default="", help="stored in the trace")
        parser.add_argument(
            "-o", "--output", type=Path, metavar="PATH", help="where the trace of one process goes"
        )
        for flag, what in (("--shapes", "operator inputs"), ("--memory", "memory allocations")):
            parser.add_argument(flag, action="store_true", help=f"also record {what} from now on")
        parser.add_argument("--modules", action="store_true", help="also record calls of modules")
        parser.add_argument(
            "--stacks",
            choices=("operators", "calls", "all-calls"),
            help="also record Python stacks from now on",
        )

    def run(self, args: argparse.Namespace) -> ExitCode:
        from concurrent.futures import ThreadPoolExecutor

        from stepscope.live.client import ask

        pids = _processes(args.program)
        if args.output is not None and len(pids) > 1:
            raise StepscopeError(f"-o names one trace; {args.program} has {len(pids)} processes")
        options = {name: True for name in ("shapes", "memory", "modules") if getattr(args, name)}
        options |= {"stacks": args.stacks} if args.stacks else {}
        request = {
            "do": "capture",
            "seconds": args.seconds,
            "reason": args.reason,
            "options": options,
            "path": str(args.output.absolute()) if args.output is not None else None,
        }
        timeout_s = _WRITING_S + (args.seconds or 10.0)
        with ThreadPoolExecutor(len(pids)) as pool:
            answers = list(pool.map(lambda pid: _asked(ask, pid, request, timeout_s), pids))
        for answer in answers:
            if "path" in answer:
                print(answer["path"])
            else:
                print(f"process {answer['pid']}: {answer['error']}")
        return 0 if all("path" in answer for answer in answers) else 1


def seconds(text: str) -> float:
    """Return a number of seconds above 0."""
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds; use 10, up to 3600")
    return value


def _asked(ask: Any, pid: int, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    try:
        return dict(ask(pid, request, timeout_s))
    except StepscopeError as error:
        return {"pid": pid, "error": str(error)}


def _processes(word: str) -> list[int]:
    from stepscope.live.client import living

    if word.isdecimal():
        pids = [
            program["pid"] for program in living() if word in {str(program["pid"]), program["job"]}
        ]
        return pids or [int(word)]
    pids = [program["pid"] for program in living() if program["job"] == word]
    if not pids:
        raise StepscopeError(f"there is no job {word!r}; see `stepscope ps`")
    return pids
