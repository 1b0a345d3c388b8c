"""Options that verbs share, and argument types that argparse lacks."""

from __future__ import annotations

import argparse
import re
import signal
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from stepscope.cli.base.command import Parser
from stepscope.errors import StepscopeError
from stepscope.record.options import Option, RecordOptions
from stepscope.record.source import known_options
from stepscope.units import size_of

if TYPE_CHECKING:
    from stepscope.live.triggers import Triggers
    from stepscope.record.limits import Last

USUAL_ORDER = "self_cpu_time_total"

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TIMES = re.compile(r"(\d+(?:\.\d+)?)\s*x?")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_CAPTURES = 20
_RECORD = "record_"  # prefix of the sources' options, which may be named like ours


def add_table_options(parser: Parser, row_limit: int) -> list[argparse.Action]:
    return [
        parser.add_argument(
            "--sort-by",
            metavar="COLUMN",
            default=USUAL_ORDER,
            help="a column as torch.profiler names it: self_cpu_time_total (the default), "
            "cpu_time_total, cpu_time, self_device_time_total, device_time_total, count, name",
        ),
        parser.add_argument(
            "--row-limit",
            metavar="N",
            type=int,
            default=row_limit,
            help=f"rows to show, -1 for all (default: {row_limit})",
        ),
    ]


def add_source_options(parser: Parser) -> list[argparse.Action]:
    """Declare a flag for each optional thing that a source can record."""
    return [_add(parser, option) for option in known_options().values() if option.flag]


def _add(parser: Parser, option: Option[Any]) -> argparse.Action:
    words: dict[str, Any] = {"dest": f"{_RECORD}{option.name}", "help": option.help}
    if isinstance(option.default, bool):
        return parser.add_argument(option.flag, action="store_true", **words)
    if isinstance(option.default, Enum):
        words["choices"] = [member.value for member in type(option.default)]
        return parser.add_argument(option.flag, default=option.default.value, **words)
    kind, metavar = _checked(option) if option.parse else type(option.default), option.name.upper()
    return parser.add_argument(option.flag, type=kind, metavar=metavar, **words)


def _checked(option: Option[Any]) -> Callable[[str], str]:
    """Return a check for argparse that shows the option's own error."""

    def check(text: str) -> str:
        try:
            option.value_of(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text

    return check


def check_sort_by(column: str) -> None:
    """Raise StepscopeError for a column that no table has."""
    if column != USUAL_ORDER:  # the table takes longer to import than a run takes to start
        from stepscope.cli.base.tables import table_text
        from stepscope.trace.build import empty_trace

        table_text(empty_trace(), column, 0)


def record_options(args: argparse.Namespace) -> RecordOptions:
    """Return the options that the flags set; others have their ``run_default``, if any."""
    values: dict[str, object] = {}
    for name, option in known_options().items():
        given = getattr(args, f"{_RECORD}{name}") if option.flag else None
        if given is not None:
            values[name] = given
        elif option.run_default is not None:
            values[name] = option.run_default
    for name, option in known_options().items():
        if values.get(name):
            for other, value in option.implies:
                values.setdefault(other, value)
    return RecordOptions(**values)


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
        ).checked()
    except ValueError as error:
        raise StepscopeError(str(error)) from None


def memory_size(text: str) -> int | None:
    """Return the bytes that ``512M`` or ``2GiB`` means, None for ``none``."""
    if text.lower() == "none":
        return None
    size = size_of(text)
    if size is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; use 512M, 2G or none")
    return size


def finding_limit(text: str) -> int | None:
    """Return how many findings to show: a number, 0 for ``none``, None for ``all``."""
    if text in {"all", "none"}:
        return None if text == "all" else 0
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a finding count; use 5, all or none")
    return int(text)


def rank_limit(text: str) -> int | None:
    """Return how many ranks get a report: a number, ``all`` (None) or ``none``."""
    if text in {"all", "none"}:
        return None if text == "all" else 0
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, all or none")
    return int(text)


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
