"""SQL over traces: the views hold what the trace holds, and errors name the way out."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from made_trace import Bytes, Call, Sample, trace_of_calls
from stepscope.cli import main
from stepscope.errors import StepscopeError
from stepscope.query.engine import run_sql
from stepscope.query.views import VIEWS, markdown
from stepscope.trace.build import empty_trace

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

DIMS = '"Input Dims":[[2,3],[3]],"Input type":["float","float"]'
QUERY = "select name, sum(self_ns) from slices group by 1 order by 2 desc"


@pytest.fixture
def trace() -> Trace:
    return trace_of_calls(
        [
            Call("ProfilerStep#0", 0, 100, "user_annotation"),
            Call("aten::linear", 10, 40, rest=DIMS),
            Call("aten::addmm", 15, 30),
            Call("cudaLaunchKernel", 20, 22, "cuda_runtime", correlation=7),
            Call("ProfilerStep#1", 100, 200, "user_annotation"),
            Call("aten::linear", 110, 150, rest=DIMS),
            Call("gemm", 50, 80, "kernel", track=1, correlation=7),
        ],
        memory=[Bytes(12, 100), Bytes(160, -100)],
        samples=[Sample(12, 14, ("train.py(3): step", "train.py(9): main"))],
    )


def test_the_query_of_the_newcomer(trace: Trace) -> None:
    rows = trace.sql(QUERY).rows()
    assert rows[0] == ("ProfilerStep#0", 70_000)
    assert ("aten::linear", 55_000) in rows
    assert sum(ns for _, ns in rows) == int(trace.slices.self_ns.sum())


def test_every_view_has_the_columns_that_it_documents(trace: Trace) -> None:
    for item in (trace, empty_trace()):
        for view in VIEWS:
            frame = run_sql({"one": item}, f"select * from {view.name}")
            assert set(frame.columns) == {*view.columns, "trace"}, view.name


def test_operators_and_kernels_know_each_other(trace: Trace) -> None:
    (op,) = trace.sql("select name, device_ns, types from ops where device_ns > 0").rows()
    assert op[:2] == ("aten::addmm", 30_000)
    asked = "select name, kind, operator, step, launched_ns, duration_ns from kernels"
    assert trace.sql(asked).rows() == [("gemm", "compute", "aten::addmm", 0, 20_000, 30_000)]
    shapes = trace.sql("select distinct shapes from ops where name = 'aten::linear'")
    assert shapes.to_series().to_list() == ["[[2, 3], [3]]"]


def test_memory_samples_steps_and_ranks(trace: Trace) -> None:
    assert trace.sql("select size, inside, step from memory order by time_ns").rows() == [
        (100, "aten::linear", 0),
        (-100, "ProfilerStep#1", 1),
    ]
    assert trace.sql("select frame, stack from samples").rows() == [
        ("train.py(3): step", "train.py(3): step < train.py(9): main")
    ]
    assert trace.sql("select step, duration_ns from steps").rows() == [(0, 100_000), (1, 100_000)]
    assert trace.sql("select events, steps, device_busy_ns from ranks").rows() == [(7, 2, 30_000)]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select count(*) from slices", [(7,)]),
        ("SELECT count(*) AS n FROM slices WHERE name LIKE 'aten::%' -- '*'", [(3,)]),
        ("select upper(name) from kernels;", [("GEMM",)]),
        ("select name from slices where kind = 'no such kind'", []),
        ("select max(e) from (select start_ns + duration_ns as e from slices)", [(200_000,)]),
        ("select p.name, s.name from slices s join slices p on s.parent = p.id where s.depth = 2",
         [("aten::linear", "aten::addmm")]),
    ],
)  # fmt: skip
def test_more_queries(trace: Trace, query: str, rows: list[tuple[object, ...]]) -> None:
    assert trace.sql(query).rows() == rows


def test_several_traces_are_told_apart(trace: Trace) -> None:
    asked = "select trace, count(*) as n from ops group by trace order by trace"
    assert run_sql({"a": trace, "b": trace}, asked).rows() == [("a", 3), ("b", 3)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select nam from slices", r"'nam' \(did you mean 'name'\?\); slices has id, name"),
        ("select name from slice", r"'slice' \(did you mean 'slices'\?\); there are slices"),
        ("selec name from slices", "cannot be run: sql parser error"),
        ("", "the query is empty"),
    ],
)  # fmt: skip
def test_an_error_names_what_exists(trace: Trace, query: str, message: str) -> None:
    with pytest.raises(StepscopeError, match=message):
        trace.sql(query)


def test_an_unknown_engine_is_named(trace: Trace) -> None:
    with pytest.raises(StepscopeError, match="engine='sqlite' is not known"):
        trace.sql(QUERY, engine="sqlite")


def test_duckdb_says_the_same(trace: Trace) -> None:
    pytest.importorskip("duckdb")
    asked = f"{QUERY}, 1"
    one, other = trace.sql(asked, engine="duckdb"), trace.sql(asked)
    assert one.rows() == other.rows()
    assert one.dtypes == other.dtypes
    with pytest.raises(StepscopeError, match=r"no column 'nam' \(did you mean 'name'"):
        trace.sql("select nam from slices", engine="duckdb")


def test_the_command_writes_every_form(
    trace: Trace, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    for name in ("a.stepscope", "b.stepscope"):
        trace.save(folder / name)
    asked = "select trace, sum(duration_ns) as ns from kernels group by trace order by trace"
    wanted = [("a.stepscope", 30_000), ("b.stepscope", 30_000)]

    def printed(*words: str) -> bytes:
        assert main(["sql", str(folder), *words, asked]) == 0
        return capsysbinary.readouterr().out

    assert b"| a.stepscope | 30,000 |" in printed()
    assert printed("--format", "csv") == b"trace,ns\na.stepscope,30000\nb.stepscope,30000\n"
    parsed = json.loads(printed("--json"))
    assert parsed["schema"] == "stepscope.sql/1"
    assert [tuple(row.values()) for row in parsed["rows"]] == wanted
    assert parsed["columns"] == [
        {"name": "trace", "type": "String"},
        {"name": "ns", "type": "Int64"},
    ]
    assert pl.read_ipc(io.BytesIO(printed("--format", "arrow"))).rows() == wanted
    file = tmp_path / "out.parquet"
    printed("-o", str(file))
    assert pl.read_parquet(file).rows() == wanted


def test_the_command_lists_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--tables"]) == 0
    output = capsys.readouterr().out
    assert all(f"{view.name}: {view.meaning}" in output for view in VIEWS)


def test_the_docs_have_the_tables() -> None:
    page = Path(__file__).parents[2] / "docs" / "sql.md"
    assert markdown() in page.read_text(encoding="utf-8")


def test_columns_that_are_not_asked_for_are_not_made(trace: Trace) -> None:
    """Of millions of rows, each column costs its time."""
    view = next(view for view in VIEWS if view.name == "slices")
    assert view.frame(trace, {"name", "slices", "sum"}).columns == ["name"]
    assert view.frame(trace, {"slices", "count"}).columns == ["start_ns"]
    assert np.array_equal(view.frame(trace, {"id"})["id"], np.arange(7))


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('{}')",
        "select * from read_csv('{}') limit 0",
        "select name from slices where name in (select a from \"read_csv\"('{}'))",
        "select * from slices, read_parquet('{}')",
        r"select E'\'' as x, r.* from read_csv('{}') as r where 'x' = E'\''",
        "select '--' as x, r.* from read_csv('{}') as r",
        "explain select * from read_csv('{}')",
        "copy slices to '{}'",
        "attach '{}' as other",
        "select * from '{}'",
        "install '{}'",
        "load '{}'",
        "set enable_external_access = true",
    ],
)
def test_a_query_neither_reads_nor_writes_files(
    trace: Trace, tmp_path: Path, engine: str, query: str
) -> None:
    if engine == "duckdb":
        pytest.importorskip("duckdb")
    file = tmp_path / "secret.csv"
    file.write_text("a,b\nsecret,1\n")
    with pytest.raises(StepscopeError) as raised:
        trace.sql(query.replace("{}", str(file)), engine=engine)
    assert "secret,1" not in str(raised.value)
    assert file.read_text() == "a,b\nsecret,1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


def test_functions_that_read_files_may_be_names(trace: Trace) -> None:
    assert trace.sql("select name from slices where name = 'read_csv(--x)'").height == 0
