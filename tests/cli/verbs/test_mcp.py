"""`stepscope mcp`, asked by the official client."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("mcp")

from mcp import ClientSession, StdioServerParameters, stdio_client

from command_line import ENVIRONMENT
from made_trace import Call, trace_of_calls
from stepscope.cli.base.tools_for_agents import Tools
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from pathlib import Path

CALLS = [
    Call("ProfilerStep#0", 0, 100, "user_annotation"),
    Call("aten::linear", 10, 40),
    Call("aten::addmm", 15, 30),
]
SLOWER = [
    Call("ProfilerStep#0", 0, 130, "user_annotation"),
    Call("aten::linear", 10, 70),
    Call("aten::addmm", 15, 60),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    traces = tmp_path / "traces"
    traces.mkdir()
    trace_of_calls(CALLS).save(traces / "a.stepscope")
    trace_of_calls(SLOWER).save(traces / "b.stepscope")
    trace_of_calls(CALLS).save(tmp_path / "outside.stepscope")
    return traces


@pytest.mark.slow
def test_the_official_client_gets_its_answers(folder: Path) -> None:
    async def ask() -> dict[str, Any]:
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "stepscope", "mcp", str(folder)], env=ENVIRONMENT
        )
        async with stdio_client(command) as streams, ClientSession(*streams) as session:
            await session.initialize()
            expected: dict[str, Any] = {"tools": (await session.list_tools()).tools}
            for name, arguments in (
                ("list_traces", {}),
                ("summary", {"trace": "a.stepscope"}),
                ("sql", {"traces": ["a.stepscope"], "query": "select name from ops"}),
                ("diff", {"before": ["a.stepscope"], "after": ["b.stepscope"], "limit": 1}),
                ("timeline", {"trace": "a.stepscope", "limit": 1}),
                ("findings", {"trace": "../outside.stepscope"}),
            ):
                result = await session.call_tool(name, arguments)
                failed = getattr(result, "is_error", None)
                failed = result.isError if failed is None else failed
                expected[name] = (failed, result.content[0].text)
            return expected

    done = asyncio.run(ask())
    tools = {tool.name: tool for tool in done["tools"]}
    assert set(tools) == {
        *("list_traces", "summary", "findings", "diff", "list_tables", "sql", "timeline")
    }
    assert "most expensive first" in tools["findings"].description

    def answer(name: str) -> Any:
        failed, text = done[name]
        assert not failed, text
        return json.loads(text)

    listed = {item["trace"] for item in answer("list_traces")["traces"]}
    assert listed == {"a.stepscope", "b.stepscope"}
    changed = answer("diff")
    assert changed["difference_ns"] == 30_000
    assert [(row["what"], row["difference_ns"]) for row in changed["rows"]] == [
        ("aten::addmm", 30_000)
    ]
    assert changed["not_shown_difference_ns"] == 0
    assert [item["name"] for item in answer("timeline")["slices"]] == ["ProfilerStep#0"]
    assert all("ns" in answer(name)["units"] for name in ("summary", "sql", "diff", "timeline"))
    assert answer("summary")["steps"]["count"] == 1
    assert answer("sql")["rows"] == [["aten::linear"], ["aten::addmm"]]
    failed, text = done["findings"]
    assert failed
    assert "there is no trace '../outside.stepscope' in the folder; there are: " in text


def test_a_part_of_the_timeline(folder: Path) -> None:
    tools = Tools(folder)
    result = tools.timeline("a.stepscope", from_ns=12_000, to_ns=14_000)
    assert [item["name"] for item in result["slices"]] == ["ProfilerStep#0", "aten::linear"]
    first = tools.timeline("a.stepscope", limit=1)
    assert first["not_shown"] == 2
    assert first["slices"][0] == {
        "name": "ProfilerStep#0",
        "start_ns": 0,
        "duration_ns": 100_000,
        "depth": 0,
        "thread": "10/20",
    }


def test_mistakes_are_told(folder: Path) -> None:
    tools = Tools(folder)
    with pytest.raises(StepscopeError, match="limit=0 is not a number of rows"):
        tools.findings("a.stepscope", limit=0)
    with pytest.raises(StepscopeError, match="traces is empty"):
        tools.sql([], "select 1")
    with pytest.raises(StepscopeError, match="after has 0 traces: name 1 to"):
        tools.diff(["a.stepscope"], [])
    with pytest.raises(StepscopeError, match="no table by 'colour': this comparison has work, ph"):
        tools.diff(["a.stepscope"], ["b.stepscope"], by="colour")
    with pytest.raises(StepscopeError, match="read_"):
        tools.sql(["a.stepscope"], "select * from read_csv('/etc/passwd')")


def test_a_name_that_would_fill_pages_is_cut(tmp_path: Path) -> None:
    trace_of_calls([Call("k<" + "int, " * 1000 + ">", 0, 1)]).save(tmp_path / "a.stepscope")
    tools = Tools(tmp_path)
    name = tools.timeline("a.stepscope")["slices"][0]["name"]
    assert name.endswith("... (4703 more letters)")
    assert tools.sql(["a.stepscope"], "select name from slices")["rows"] == [[name]]
