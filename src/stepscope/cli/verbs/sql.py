"""``stepscope sql``: ask traces a question in SQL."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.cli.base.json_output import json_text
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    import polars as pl

    from stepscope.trace.model import Trace

_ROWS = 50
_FORMATS = ("table", "csv", "json", "parquet", "arrow")


class Sql:
    """Ask traces a question in SQL.

    The last argument is the query; - reads it from standard input. Before it come traces of any
    format, or folders of traces. With several, each table has the rows of all of them, and the
    column `trace` tells them apart. `stepscope sql --tables` lists the tables and their columns.

    Example: stepscope sql run.stepscope "select name, sum(self_ns) from ops group by 1 order by 2
    desc limit 10"
    """

    name = "sql"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("words", metavar="TRACE... QUERY", nargs="*")
        parser.take_scattered("words")
        parser.add_argument(
            "--engine", choices=("polars", "duckdb"), default="polars", help="what runs the query"
        )
        parser.add_argument(
            "--format",
            choices=_FORMATS,
            help="how the result is written (default: by FILE, else a table)",
        )
        parser.add_argument("--json", action="store_true", help="the same as --format json")
        parser.add_argument("-o", "--output", metavar="FILE", help="write the result to a file")
        parser.add_argument(
            "--row-limit",
            metavar="N",
            type=int,
            default=_ROWS,
            help=f"rows of a table that is printed; 0: all (default: {_ROWS})",
        )
        parser.add_argument(
            "--tables", action="store_true", help="list tables and columns, and exit"
        )

    def run(self, args: argparse.Namespace) -> ExitCode:
        if args.tables:
            print(tables_text())
            return 0
        if len(args.words) < 2:
            raise StepscopeError(
                'give a trace and a query: stepscope sql TRACE "select name, kind from slices"'
            )
        *paths, query = args.words
        form = _format(args)
        if query == "-":
            query = sys.stdin.read()
        from stepscope.query.engine import run_sql

        result = run_sql(dict(_named(paths)), query, args.engine)
        if args.output is None:
            _print(result, form, args.row_limit)
        else:
            _write(result, form, Path(args.output))
        return 0


def tables_text() -> str:
    """Return the tables, their columns, and the meaning and unit of each."""
    from stepscope.query.views import VIEWS

    parts = []
    for view in VIEWS:
        wide = max(map(len, view.columns))
        lines = [f"  {column.ljust(wide)}  {meaning}" for column, meaning in view.columns.items()]
        parts.append("\n".join([f"{view.name}: {view.meaning}", *lines]))
    return "\n\n".join([*parts, "Every table also has `trace`, the name of the trace."])


def _format(args: argparse.Namespace) -> str:
    if args.json:
        return "json"
    if args.format is not None:
        return str(args.format)
    if args.output is None:
        return "table"
    suffix = Path(args.output).suffix.lower().lstrip(".")
    formats = {"csv": "csv", "json": "json", "parquet": "parquet", "arrow": "arrow", "txt": "table"}
    if suffix not in formats:
        raise StepscopeError(
            f"{args.output}: the suffix names no format; use .csv, .json, .parquet, .arrow or "
            ".txt, or --format"
        )
    return formats[suffix]


def _named(paths: Sequence[str]) -> Iterator[tuple[str, Trace]]:
    from stepscope.cli.base.files import read, traces_in

    traces = [trace for path in paths for trace in traces_in(path)]
    names = [Path(path).name for path in traces]
    for path, name in zip(traces, names, strict=True):
        yield (name if names.count(name) == 1 else path), read(path)


def _print(result: pl.DataFrame, form: str, row_limit: int) -> None:
    if form in {"parquet", "arrow"}:
        _binary(form)(result, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    else:
        print(_text(result, form, row_limit), end="", flush=True)


def _write(result: pl.DataFrame, form: str, path: Path) -> None:
    try:
        if form in {"parquet", "arrow"}:
            with path.open("wb") as file:
                _binary(form)(result, file)
        else:
            path.write_text(_text(result, form, 0), encoding="utf-8")
    except OSError as error:
        raise StepscopeError(f"{path}: {error.strerror}") from None


def _binary(form: str) -> Callable[[pl.DataFrame, Any], Any]:
    if form == "parquet":
        return lambda frame, file: frame.write_parquet(file)
    return lambda frame, file: frame.write_ipc(file)


def _text(result: pl.DataFrame, form: str, row_limit: int) -> str:
    import polars as pl

    if form == "csv":
        return str(result.write_csv())
    if form == "json":
        columns = [{"name": name, "type": str(kind)} for name, kind in result.schema.items()]
        return json_text("sql", {"columns": columns, "rows": result.to_dicts()})
    shown = result.head(row_limit) if row_limit else result
    with pl.Config(
        tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True,
        fmt_str_lengths=60, thousands_separator=True, tbl_width_chars=1000,
        tbl_formatting="ASCII_MARKDOWN", tbl_cell_numeric_alignment="RIGHT",
    ):  # fmt: skip
        table = str(shown)
    not_shown = len(result) - len(shown)
    return f"{table}\n" + (f"{not_shown:,} more rows: --row-limit 0\n" if not_shown else "")
