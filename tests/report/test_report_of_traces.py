"""Reports of real traces have the numbers of the analyses, and big ones are thinned out."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from made_trace import Bytes, Call, trace_of_calls
from sample_traces import SAMPLES, sample_name
from stepscope import read_trace
from stepscope.analysis.answer import answer
from stepscope.analysis.base.tree import call_tree
from stepscope.analysis.device.kernels import kernel_table
from stepscope.analysis.host.averages import averages
from stepscope.analysis.host.step_operators import step_operators
from stepscope.analysis.steps.steps import step_table
from stepscope.report.base.detail import detail_of
from stepscope.report.base.payload import Payload
from stepscope.report.build import export_html

if TYPE_CHECKING:
    from pathlib import Path

    from report_page import Reports
    from stepscope.trace.model import Trace


class Columns:
    """Reads a block as decode.js does."""

    def __init__(self, block: bytes) -> None:
        (length,) = struct.unpack_from("<I", block)
        header = json.loads(block[4 : 4 + length])
        self.values: dict[str, Any] = header["values"]
        self._places = header["columns"]
        self._bytes = block[4 + length :]

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        place = self._places[name]
        kind = np.dtype(place["type"])
        raw = np.frombuffer(self._bytes, np.uint8, place["length"] * kind.itemsize, place["offset"])
        planes = raw.reshape(kind.itemsize, place["length"])
        column = np.ascontiguousarray(planes.T).reshape(-1).view(kind)
        return np.cumsum(column.astype(np.float64)) if place["codec"] == "sums" else column

    def __contains__(self, name: str) -> bool:
        return name in self._places


def report_of(
    trace: Trace, path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[Columns, int]:
    """Write a report, and return the data in it and how many slices were left out."""
    blocks: list[bytes] = []
    pack = Payload.packed

    def packed(payload: Payload) -> bytes:
        blocks.append(pack(payload))
        return blocks[-1]

    monkeypatch.setattr(Payload, "packed", packed)
    left_out = export_html(trace, path, **options)
    return Columns(blocks[0]), left_out


@pytest.mark.parametrize("source", SAMPLES, ids=sample_name)
def test_totals_are_those_of_the_summary(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = read_trace(source)
    data, left_out = report_of(trace, tmp_path / "report.html", monkeypatch)
    assert left_out == 0
    # The events as they are ...
    assert len(data["slices.start"]) == len(trace)
    assert data["slices.duration"].sum() == trace.slices.duration_ns.sum()
    self_ns = data["slices.duration"].astype(np.int64) - data["slices.self"].astype(np.int64)
    assert self_ns.sum() == trace.slices.self_ns.sum()
    # ... the sums of `stepscope summary`, by operator ...
    result = data.values["overview"]
    rows = averages(call_tree(trace))
    scopes = data.values["operators.scopes"]
    own_ns = data["operators.name.self_cpu_ns"].astype(np.int64)
    if "operators.name.waiting_ns" in data:
        own_ns += data["operators.name.waiting_ns"].astype(np.int64)
    scope = data["operators.name.scope"] if len(scopes) > 1 else np.zeros(len(own_ns))
    run = scope == scopes.index(next(s for s in scopes if s["when"] == "run" and not s["where"]))
    assert data["operators.name.count"][run].sum() == rows.count[~rows.is_device].sum()
    assert own_ns[run].sum() == rows.self_cpu_ns.sum()
    # ... those of a step, as the terminal has them ...
    operators = step_operators(trace)
    assert [row["name"] for row in result["operators"]] == list(operators.name[:10])
    assert [row["self_ns"] for row in result["operators"]] == operators.self_ns[:10].tolist()
    assert data.values["answer"]["verdict"] == answer(trace).verdict
    # ... by kernel, and by step.
    kernels = kernel_table(trace)
    assert [row["self_ns"] for row in result["kernels"]] == kernels.total_ns[:10].tolist()
    steps = step_table(trace)
    assert data["steps.duration"].tolist() == steps.duration_ns.tolist()
    parts = [data[f"steps.{part['id']}"] for part in data.values["steps.parts"]]
    assert np.sum(parts, axis=0).tolist() == steps.duration_ns.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [path for path in SAMPLES if sample_name(path) in {"cpu_training", "made_rocm"}],
    ids=sample_name,
)
def test_every_page_of_a_real_trace_opens(source: Path, reports: Reports) -> None:
    page = reports.open(read_trace(source))
    links = page.locator("nav a")
    assert links.count() > 1
    for i in range(links.count()):
        name = links.nth(i).inner_text()
        links.nth(i).click()
        page.wait_for_function("name => document.title.startsWith(name)", arg=name)
        assert page.locator("#page [role=alert]").count() == 0, name


def nested(steps: int) -> Trace:
    """Return steps with an operator of 50 µs in each, and 20 of 1 µs inside that."""
    calls = []
    for at in range(0, 100 * steps, 100):
        calls.append(Call(f"ProfilerStep#{at // 100}", at, at + 90, category="user_annotation"))
        calls.append(Call("outer", at + 5, at + 55, external_id=at))
        calls += [Call("inner", at + 6 + 2 * i, at + 7 + 2 * i) for i in range(20)]
    return trace_of_calls(calls, [Bytes(8, 512)])


class TestLowerDetail:
    def test_a_trace_that_fits_is_kept_as_it_is(self) -> None:
        trace = nested(3)
        detail = detail_of(trace, most=len(trace))
        assert detail.trace is trace
        assert detail.left_out == 0

    @pytest.mark.parametrize("most", [40, 100, 219])
    def test_the_longest_stay(self, most: int) -> None:
        trace = nested(10)
        detail = detail_of(trace, most)
        remaining = detail.trace
        assert len(remaining) <= most
        assert len(remaining) + detail.left_out == len(trace)
        names = list(remaining.names())
        assert names.count("outer") == 10
        assert len([name for name in names if name.startswith("ProfilerStep")]) == 10
        assert remaining.slices.start_ns[0] == trace.slices.start_ns[0]

    def test_what_is_left_out_is_found_in_what_is_around_it(self) -> None:
        trace = nested(10)
        detail = detail_of(trace, 30)
        remaining = detail.trace
        rows = np.arange(len(trace))
        for row, place in zip(rows, detail.page_rows(rows), strict=True):
            name, shown = trace.name_of(row), remaining.name_of(int(place))
            assert shown == ("outer" if name == "inner" and shown != "inner" else name)
            assert remaining.slices.start_ns[place] <= trace.slices.start_ns[row]
        assert detail.page_rows(np.array([-1])).tolist() == [-1]
        assert remaining.name_of(int(remaining.memory.slice[0])) in {"inner", "outer"}

    def test_parents_and_arguments_go_along(self) -> None:
        remaining = detail_of(nested(10), 30).trace
        ids = remaining.slices.args.integers["External id"]
        assert [remaining.name_of(int(row)) for row in ids.rows] == ["outer"] * 10
        for row in range(len(remaining)):
            parent = int(remaining.slices.parent[row])
            if parent >= 0:
                assert remaining.slices.start_ns[parent] <= remaining.slices.start_ns[row]
                assert remaining.slices.end_ns[parent] >= remaining.slices.end_ns[row]

    def test_sums_count_every_event(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        trace = nested(30)
        few, left_out = report_of(trace, tmp_path / "a.html", monkeypatch, most_slices=100)
        monkeypatch.undo()
        all_, none = report_of(trace, tmp_path / "b.html", monkeypatch)
        assert none == 0
        assert len(few["slices.start"]) == len(trace) - left_out <= 100
        assert few.values["left_out"] == left_out
        assert few.values["overview"] == all_.values["overview"]
        assert few["steps.duration"].tolist() == all_["steps.duration"].tolist()
        assert few["operators.name.self_cpu_ns"].tolist() == (
            all_["operators.name.self_cpu_ns"].tolist()
        )

    def test_the_command_says_so(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        from stepscope.cli import main

        monkeypatch.setitem(export_html.__kwdefaults__, "most_slices", 100)
        nested(30).save(tmp_path / "t.stepscope")
        assert main(["report", str(tmp_path / "t.stepscope")]) == 0
        assert " of 660 events in its timeline, " in capsys.readouterr().err
