"""The entry point of the command line."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from stepscope.cli.base.command import (
    BAD_INPUT,
    COMMANDS,
    NOT_FOUND,
    Command,
    CommandNotFoundError,
    ExitCode,
    Parser,
    ShowVersion,
    add_verbs,
)
from stepscope.cli.base.signals import die_by
from stepscope.cli.base.streams import degrade
from stepscope.cli.base.terminal import discard_stdout
from stepscope.cli.verbs import own_verb, own_verbs
from stepscope.errors import StepscopeError
from stepscope.notices import notify

_PIPE_CLOSED = 141  # the shell's exit code for death by SIGPIPE


def main(argv: Sequence[str] | None = None) -> ExitCode:
    """Run the verb that the arguments name; return the value for ``sys.exit``."""
    parser = Parser(
        prog="stepscope",
        description="Shows where the time of every training and inference step goes.",
        epilog="Run `stepscope VERB --help` for the options of a verb.",
    )
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version")
    add_verbs(parser, commands_for(sys.argv[1:] if argv is None else argv))
    try:
        args = parser.parse_args(argv)
        if args.verb != "run":  # there, standard output is the program's
            degrade(sys.stdout)
        code: ExitCode = args.run(args)
        if args.verb != "run" and sys.stdout is not None:
            sys.stdout.flush()  # reports a full disk, which Python ignores at exit
    except StepscopeError as error:
        notify(str(error))
        return NOT_FOUND if isinstance(error, CommandNotFoundError) else BAD_INPUT
    except KeyboardInterrupt:
        die_by(signal.SIGINT)
    except BrokenPipeError:
        discard_stdout()
        return _PIPE_CLOSED
    except OSError as error:
        discard_stdout()  # its buffer cannot be written either
        what = "the output" if error.filename is None else str(error.filename)
        notify(f"{what}: {error.strerror or error}")
        return BAD_INPUT
    return code


def commands_for(words: Sequence[str]) -> list[Command]:
    """Return the verb that the arguments name, or else all, those of extensions included."""
    named = own_verb(words[0]) if words else None
    return [named] if named is not None else [*own_verbs(), *COMMANDS]
