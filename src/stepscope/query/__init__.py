"""Questions in SQL about traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stepscope.trace.model import QUERIES, Trace

if TYPE_CHECKING:
    import polars


@QUERIES.register
def _run_sql(traces: Mapping[str, Trace], query: str, engine: str) -> polars.DataFrame:
    # Importing data frames takes longer than reading many traces.
    from stepscope.query.engine import run_sql

    return run_sql(traces, query, engine)
