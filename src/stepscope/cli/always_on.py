"""What `stepscope run` adds for programs watched for a long time: a ring, triggers, a socket."""

from __future__ import annotations

import argparse
import re
import signal
from typing import TYPE_CHECKING

from stepscope.cli.options import memory_size
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from stepscope.cli.command import Parser
    from stepscope.live.triggers import Triggers
    from stepscope.record.limits import Last

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TIMES = re.compile(r"(\d+(?:\.\d+)?)\s*x?")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_CAPTURES = 20


def last(text: str) -> Last:
    """Return what ``60s``, ``5m`` or ``200MB`` means: the length or the size of a ring."""
    from stepscope.record.limits import Last

    match = _TIME.fullmatch(text.strip())
    if match is not None and float(match[1]) > 0:
        return Last(seconds=float(match[1]) * _SECONDS[match[2]])
    try:
        size = memory_size(text)
        if size is not None and not text.strip().isdecimal():
            return Last(bytes=size)
    except argparse.ArgumentTypeError:
        pass
    raise argparse.ArgumentTypeError(
        f"{text!r} is not a length or size of a ring; use 60s or 200MB"
    )


def times(text: str) -> float:
    """Return the factor that ``2x`` means."""
    match = _TIMES.fullmatch(text.strip())
    if match is None or float(match[1]) <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a factor above 1; use 2x")
    return float(match[1])


def signal_number(text: str) -> int:
    """Return the number of a signal by its name."""
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    member = getattr(signal, name, None)
    if not isinstance(member, signal.Signals) or name in {"SIGKILL", "SIGSTOP"}:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a signal that a program can listen for; use USR1 or USR2"
        )
    return int(member)


def share(text: str) -> float:
    """Return the share that ``1%`` means."""
    match = _PERCENT.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of the time; use 1%")
    return float(match[1]) / 100


def add_always_on_options(parser: Parser) -> list[argparse.Action]:
    """Declare the options of the ring, its triggers, the overhead budget and the control socket."""
    return [
        parser.add_argument(
            "--last",
            metavar="60s|200MB",
            type=last,
            help="keep only the most recent part, for programs that run for days; what is dropped "
            "is counted (default: keep all, up to --memory-limit)",
        ),
        parser.add_argument(
            "--on-slow-step",
            metavar="2x",
            type=times,
            help="write out what is held whenever a step takes more than this many times the "
            "median",
        ),
        parser.add_argument(
            "--on-memory",
            metavar="SIZE",
            type=memory_size,
            help="the same when resident memory exceeds SIZE",
        ),
        parser.add_argument(
            "--on-exception",
            action="store_true",
            help="the same on an uncaught exception, on any thread",
        ),
        parser.add_argument(
            "--on-signal",
            metavar="USR2",
            type=signal_number,
            help="the same when stepscope gets this signal",
        ),
        parser.add_argument(
            "--captures",
            metavar="N",
            type=int,
            default=_CAPTURES,
            help=f"write at most this many of these, at least 10 s apart (default: {_CAPTURES})",
        ),
        parser.add_argument(
            "--overhead-budget",
            metavar="1%",
            type=share,
            help="while recording costs more than this share of the time, turn off the most "
            "expensive parts one after another: Python calls, modules, samples, operators "
            "(default: no budget)",
        ),
        parser.add_argument(
            "--no-control",
            action="store_true",
            help="open no control socket: `stepscope ps`, `top` and `capture` cannot see "
            "the program",
        ),
    ]


def triggers_of(args: argparse.Namespace) -> Triggers:
    """Return the triggers that the options ask for."""
    from stepscope.live.triggers import Triggers

    try:
        return Triggers(
            slow_step=args.on_slow_step,
            memory_bytes=args.on_memory,
            on_exception=args.on_exception,
            on_signal=args.on_signal,
            most=args.captures,
        )
    except ValueError as error:
        raise StepscopeError(str(error)) from None
