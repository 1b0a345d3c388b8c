"""Options that verbs share, and argument types that argparse lacks."""

from __future__ import annotations

import argparse
from enum import Enum
from typing import TYPE_CHECKING, Any

from stepscope.record.options import RecordOptions
from stepscope.record.source import known_options
from stepscope.units import size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.cli.command import Parser
    from stepscope.record.options import Option

USUAL_ORDER = "self_cpu_time_total"

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
    if column != USUAL_ORDER:  # what knows the columns takes longer to import than to start a run
        from stepscope.cli.tables import table_text
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
    return RecordOptions(**values)


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
