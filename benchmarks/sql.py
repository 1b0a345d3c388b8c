"""SQL over ten million rows, beside DuckDB on the Parquet files of the same trace."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscope.trace.build import build
from stepscope.trace.frames import slices_frame
from stepscope.trace.model import Trace, TraceInfo, Track
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable

QUERIES = {
    "group by name": "select name, sum(self_ns) as ns from slices group by name order by ns desc",
    "names like": "select count(*) as n from slices where name like 'aten::op_1%'",
}


def trace_of(rows: int) -> Trace:
    """Return a trace of that many slices with 500 names on four threads."""
    random = np.random.default_rng(0)
    names = [f"aten::op_{number}" for number in range(500)]
    strings = Strings.of(["", "cpu_op", *names])
    raw = Slices.of(
        category=np.full(rows, 1, np.uint32),
        name=(random.integers(0, len(names), rows) + 2).astype(np.uint32),
        start_ns=np.arange(rows) * 1_000,
        duration_ns=random.integers(1, 900, rows),
        track=random.integers(0, 4, rows).astype(np.uint32),
    )
    tracks = tuple(Track("1", str(number)) for number in range(4))
    return build(Captured(raw, tracks, strings), TraceInfo("benchmark"))


def seconds(run: Callable[[], object], rounds: int) -> float:
    """Return the median time of some runs."""
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    trace = trace_of(args.rows)
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "slices.parquet"
        slices_frame(trace).write_parquet(file)
        with duckdb.connect() as theirs:
            theirs.execute(f"create view slices as select * from read_parquet('{file}')")
            for name, query in QUERIES.items():
                ours_s = seconds(lambda query=query: trace.sql(query), args.rounds)
                theirs_s = seconds(
                    lambda query=query: theirs.execute(query).fetchall(), args.rounds
                )
                print(
                    f"{name}: {args.rows:,} rows: stepscope {ours_s:.3f} s, DuckDB {theirs_s:.3f} s"
                )


if __name__ == "__main__":
    main()
