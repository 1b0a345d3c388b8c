"""``stepscope migrate``: rewrites a script's profiler code for another profiler."""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import TYPE_CHECKING

from stepscope.cli.base.command import BAD_INPUT, ExitCode, Parser
from stepscope.errors import StepscopeError
from stepscope.notices import notify

if TYPE_CHECKING:
    from stepscope.migrate.rewrite import Migration
    from stepscope.migrate.source_file import SourceFile


class Migrate:
    """Rewrite a script's profiler code for another profiler.

    Converts uses of torch.profiler, paddle.profiler or Stepscope to the API of another;
    `--to stepscope` keeps the API and changes only the import. Code without a counterpart is
    marked with a comment. Without --write or --diff, one converted file is printed in full,
    several as a diff.
    """

    name = "migrate"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("files", metavar="FILE", nargs="+")
        parser.add_argument(
            "--to", required=True, choices=("paddle", "torch", "stepscope"), help="target API"
        )
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--write", action="store_true", help="change the files")
        how.add_argument("--diff", action="store_true", help="print what would change")

    def run(self, args: argparse.Namespace) -> ExitCode:
        """Convert every file, and only then write: if one fails, none is changed."""
        files = list(dict.fromkeys(args.files))
        results = [_convert(path, args.to) for path in files]
        done = [result for result in results if result is not None]
        if len(done) < len(results):
            return BAD_INPUT
        for file, migration in done:
            if args.write:
                _write(file, migration)
            elif args.diff or len(files) > 1:
                _print(_diff(file, migration))
            else:
                _print(migration.text)
            notify(_outcome(file, migration, args.to))
        return 0


def _convert(path: str, to: str) -> tuple[SourceFile, Migration] | None:
    """Return a file and its conversion, or None after saying what is wrong with it."""
    try:
        from stepscope.migrate.rewrite import migrate
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "libcst":
            raise
        raise StepscopeError(
            "migrate needs libcst, which is not installed: pip install libcst"
        ) from error
    from stepscope.migrate.source_file import read_source

    try:
        file = read_source(path)
    except StepscopeError as error:
        notify(str(error))
        return None
    try:
        return file, migrate(file.text, to)
    except StepscopeError as error:
        notify(f"{path}, {error}")
        return None


def _write(file: SourceFile, migration: Migration) -> None:
    from stepscope.migrate.source_file import write_source

    if migration.text != file.text:
        write_source(file, migration.text)


def _diff(file: SourceFile, migration: Migration) -> str:
    lines = []
    for line in difflib.unified_diff(
        file.text.splitlines(keepends=True),
        migration.text.splitlines(keepends=True),
        file.path,
        file.path,
    ):
        ended = line.endswith("\n")
        lines.append(line if ended else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)


def _print(text: str) -> None:
    """Print a text byte for byte, in UTF-8 where the terminal's encoding cannot."""
    sys.stdout.write(text)
    sys.stdout.flush()


def _outcome(file: SourceFile, migration: Migration, to: str) -> str:
    from stepscope.units import count_text

    if not migration.sources:
        return f"{file.path}: no profiler code, left unchanged"
    if migration.text == file.text:
        return f"{file.path}: already uses {to}, left unchanged"
    converted = count_text(migration.converted, "name")
    marked = count_text(len(migration.remarks), "line")
    note = f", {marked} marked" if migration.remarks else ""
    return f"{file.path}: {converted} of {' and '.join(migration.sources)} converted{note}"
