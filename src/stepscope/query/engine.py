"""Runs SQL over the views of traces, in Polars or in DuckDB."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any

import polars as pl

from stepscope.analysis.base.shared import shared_analyses
from stepscope.errors import StepscopeError
from stepscope.query.views import VIEWS, View
from stepscope.trace.model import Trace

# Quoted names are part of the code; literals and comments are not.
_PARTS = re.compile(r"""("(?:[^"]|"")*")|'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_FILE_FUNCTIONS = ("read_", "scan_")
_FILE_SCAN = re.compile(r"\bSCAN \[")  # in a plan of Polars; our tables are no scans
_COUNT_ALL = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_TEXTS = (pl.Categorical, pl.Enum)
_NO_FILES = "a query reads the tables of its traces only, no files"
_DUCKDB_CONFIG = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "lock_configuration": "true",  # or the query could undo the settings above
}


class Engine(Enum):
    POLARS = "polars"
    DUCKDB = "duckdb"


def run_sql(
    traces: Mapping[str, Trace], query: str, engine: Engine | str = Engine.POLARS
) -> pl.DataFrame:
    """Return the rows that a query asks for; the column ``trace`` has the key of each trace.

    A query has no access to files: it may come from an agent that follows a trace's text.
    """
    if engine not in {known_engine.value for known_engine in Engine} | set(Engine):
        raise StepscopeError(f"engine={engine!r} is not known: use 'polars' or 'duckdb'")
    code = _PARTS.sub(lambda part: part[1] or " ", query)
    words = {word.lower() for word in _WORD.findall(code)}
    if not words:
        raise StepscopeError("the query is empty; try: select name, kind from slices limit 10")
    if any(word.startswith(_FILE_FUNCTIONS) for word in words):
        raise StepscopeError(_NO_FILES)
    named = [view for view in VIEWS if view.name in words]
    wanted = None if "*" in _COUNT_ALL.sub(" ", code) else words
    with shared_analyses():
        frames = {view.name: _frame(view, traces, wanted) for view in named}
    run = _in_duckdb if Engine(engine) is Engine.DUCKDB else _in_polars
    return run(frames, query)


def _frame(view: View, traces: Mapping[str, Trace], wanted: Collection[str] | None) -> pl.DataFrame:
    frames = []
    for name, trace in traces.items():
        frame = view.frame(trace, wanted)
        if wanted is None or "trace" in wanted:
            label = pl.Series([name], dtype=pl.Categorical).new_from_index(0, frame.height)
            frame = frame.with_columns(trace=label)
        frames.append(frame)
    return frames[0] if len(frames) == 1 else pl.concat(frames)


def _in_polars(frames: Mapping[str, pl.DataFrame], query: str) -> pl.DataFrame:
    """Run a query on categorical texts, five times as fast, if it supports them."""
    try:
        if _categories_sort_as_text():
            return _polars_result(frames, query)
    except (
        pl.exceptions.InvalidOperationError,
        pl.exceptions.SchemaError,
        pl.exceptions.ComputeError,
    ):
        pass  # LIKE and text functions reject categories
    except pl.exceptions.PolarsError as error:
        raise _explained(error, frames) from None
    texts = pl.col(*_TEXTS).cast(pl.String)
    try:
        spelled = {name: frame.lazy().with_columns(texts) for name, frame in frames.items()}
        return _polars_result(spelled, query)
    except pl.exceptions.PolarsError as error:
        raise _explained(error, frames) from None


def _polars_result(frames: Mapping[str, Any], query: str) -> pl.DataFrame:
    with pl.SQLContext(frames=dict(frames)) as context:
        lazy = context.execute(query.strip().rstrip(";"), eager=False)
        if _FILE_SCAN.search(lazy.explain(optimized=False)):
            raise StepscopeError(_NO_FILES)
        result = lazy.collect()
    return result.with_columns(pl.col(*_TEXTS).cast(pl.String)) if result.width else result


def _categories_sort_as_text() -> bool:
    return pl.Series(["b", "a"], dtype=pl.Categorical).sort().to_list() == ["a", "b"]


def _in_duckdb(frames: Mapping[str, pl.DataFrame], query: str) -> pl.DataFrame:
    try:
        import duckdb
    except ImportError:
        raise StepscopeError(
            "DuckDB is not installed: pip install duckdb, or omit --engine duckdb"
        ) from None
    with duckdb.connect(config=dict(_DUCKDB_CONFIG)) as connection:
        for name, frame in frames.items():
            connection.register(name, frame)
        try:
            result = connection.sql(query)
            return pl.DataFrame() if result is None else _plain(pl.DataFrame(result))
        except duckdb.Error as error:
            raise _explained(error, frames) from None


def _plain(result: pl.DataFrame) -> pl.DataFrame:
    """Return sums, which DuckDB makes 128 bits wide, as 64-bit integers."""
    wide = [
        name
        for name, kind in result.schema.items()
        if isinstance(kind, pl.Decimal) and not kind.scale
    ]
    return result.with_columns(pl.col(wide).cast(pl.Int64)) if wide else result


# ---- errors


def _explained(error: Exception, frames: Mapping[str, pl.DataFrame]) -> StepscopeError:
    message = str(error).strip().partition("\n")[0]
    missing = re.search(r"(?:unable to find column|Referenced column) \"([^\"]+)\"", message)
    if missing:
        return StepscopeError(_no_column(missing[1], frames))
    unknown = re.search(r"relation '([^']+)' was not found|Table with name (\S+) does not", message)
    if unknown:
        name = unknown[1] or unknown[2]
        tables = [view.name for view in VIEWS]
        return StepscopeError(
            f"there is no table {name!r}{_meant(name, tables)}; there are {_listed(tables)}"
        )
    return StepscopeError(f"the query cannot be run: {message}")


def _no_column(name: str, frames: Mapping[str, pl.DataFrame]) -> str:
    views = {view.name: [*view.columns, "trace"] for view in VIEWS if view.name in frames}
    every = [column for columns in views.values() for column in columns]
    there = "; ".join(f"{view} has {_listed(columns)}" for view, columns in views.items())
    return (
        f"there is no column {name!r}{_meant(name, every)}; {there or 'the query names no table'}"
    )


def _meant(name: str, names: list[str]) -> str:
    close = get_close_matches(name.lower(), names, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _listed(names: Collection[str]) -> str:
    return ", ".join(names)
