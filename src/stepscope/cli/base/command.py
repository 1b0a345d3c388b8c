"""The interface of a verb, and the parser of its arguments."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol

from stepscope.errors import StepscopeError
from stepscope.registry import Registry

BAD_INPUT, NOT_FOUND = 2, 127  # exit codes; 127 is the shell's
ExitCode = Any  # what sys.exit takes: a program that is run may end with any object


class Command(Protocol):
    """A verb of the command line; its docstring is its help."""

    name: str

    def add_arguments(self, parser: Parser) -> None:
        """Declare the options."""

    def run(self, args: argparse.Namespace) -> ExitCode:
        """Run the verb; bad input raises a StepscopeError."""


class CommandNotFoundError(StepscopeError):
    """There is no such program to run."""


COMMANDS: Registry[Command] = Registry(early=True)


class ShowVersion(argparse.Action):
    """Prints the version, which is looked up only on request."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from stepscope.trace.process_facts import own_version

        print(f"stepscope {own_version()}")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line."""

    def __init__(self, declare: Callable[[Parser], None] | None = None, **options: Any) -> None:
        """Take a function that declares the arguments on first use, and argparse's options.

        An abbreviated option is an error.
        """
        self._declare = declare
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)
        self._program_dest: str | None = None
        self._scattered_dest: str | None = None
        self._options_with_value: frozenset[str] = frozenset()

    def take_scattered(self, dest: str) -> None:
        """Have the words of ``dest``, a list, stand before, between and after options.

        argparse itself takes only those that stand together.
        """
        self._scattered_dest = dest

    def leave_the_rest(self, dest: str, options: Iterable[argparse.Action]) -> None:
        """Keep everything from the first word that is not one of ``options`` on as ``dest``.

        argparse's own REMAINDER would also swallow the options before it.
        """
        self._program_dest = dest
        self._options_with_value = frozenset(
            word for option in options if option.nargs != 0 for word in option.option_strings
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse our options; the program's own arguments are set aside first."""
        declare, self._declare = self._declare, None
        if declare is not None:
            declare(self)
        words = list(sys.argv[1:] if args is None else args)
        end = self._start_of_rest(words) if self._program_dest else len(words)
        parsed = namespace or argparse.Namespace()
        _, unknown = super().parse_known_args(words[:end], parsed)
        if self._scattered_dest and not any(word.startswith("-") for word in unknown):
            getattr(parsed, self._scattered_dest).extend(unknown)
        elif unknown:
            self.error(f"unknown option {unknown[0]!r}")
        if self._program_dest:
            setattr(parsed, self._program_dest, words[end:])
        return parsed, []

    def _start_of_rest(self, words: Sequence[str]) -> int:
        at = 0
        while at < len(words):
            word = words[at]
            if not word.startswith("-") or word in {"-", "--"} or word.startswith(("-m", "-c")):
                return at
            at += 2 if word in self._options_with_value else 1
        return len(words)

    def error(self, message: str) -> NoReturn:
        """Raise the error that main() prints as one line."""
        raise StepscopeError(f"{message}; see `{self.prog} --help`")


def add_verbs(parser: Parser, commands: Iterable[Command]) -> None:
    verbs = parser.add_subparsers(
        title="verbs", metavar="VERB", dest="verb", required=True, parser_class=Parser
    )
    for command in commands:
        text = textwrap.dedent("    " + (command.__doc__ or ""))
        verb = verbs.add_parser(
            command.name, help=_first_line(text), description=text, declare=command.add_arguments
        )
        verb.set_defaults(run=command.run)


def _first_line(text: str) -> str:
    return text.partition("\n")[0].rstrip(".")
