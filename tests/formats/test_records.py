"""Tables as DataFrames, CSV and JSON."""

from __future__ import annotations

import csv
import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from made_trace import Bytes, Call, trace_of_calls
from sample_traces import HOSTILE
from stepscope.formats.records import write_csv, write_json
from stepscope.frameworks.torch.dialect.event_lists import EventList

if TYPE_CHECKING:
    from pathlib import Path

MM = '"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]'
CALLS = (
    Call("aten::mm", 0, 10, rest=MM, stack=("a.py(1): f", "b.py(2): g")),
    Call("aten::mm", 20, 40, rest=MM),
    Call("other", 50, 60),
)


def events() -> EventList:
    return EventList(trace_of_calls(CALLS, [Bytes(5, 100)]), with_flops=True)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_averages_become_data_frames() -> None:
    pytest.importorskip("pandas")
    averages = events().key_averages(group_by_input_shape=True, group_by_stack_n=1)
    polars, pandas = averages.to_polars(), averages.to_pandas()
    assert polars["key"].to_list() == pandas["key"].tolist() == ["aten::mm", "aten::mm", "other"]
    assert polars["stack"].to_list() == [["a.py(1): f"], [], []]
    assert polars["input_shapes"].to_list() == ["[[2, 3], [3, 4]]", "[[2, 3], [3, 4]]", "[]"]
    assert polars["cpu_bytes"].to_list() == pandas["cpu_bytes"].tolist() == [100, 0, 0]
    assert polars["flops"].to_list() == [48, 48, 0]
    assert polars["flops_per_second"].to_list() == pytest.approx([4.8e6, 2.4e6, 0])


def test_only_columns_with_something_in_them_are_there() -> None:
    columns = EventList(trace_of_calls(CALLS)).key_averages().to_polars().columns
    assert not {"flops", "cpu_bytes", "stack", "input_shapes"} & set(columns)


def test_events_become_data_frames_too() -> None:
    pytest.importorskip("pandas")
    frame = events().to_polars()
    assert frame["name"].to_list() == ["aten::mm", "aten::mm", "other"]
    assert frame["start_ns"].to_list() == [0, 20_000, 50_000]
    assert frame["stack"].to_list() == [["a.py(1): f", "b.py(2): g"], [], []]
    assert events().to_pandas()["cpu_ns"].tolist() == [10_000, 20_000, 10_000]


def test_averages_as_csv_and_json(tmp_path: Path) -> None:
    averages = events().key_averages(group_by_stack_n=2)
    averages.to_csv(tmp_path / "table.csv")
    averages.to_json(tmp_path / "table.json")
    rows = read_csv(tmp_path / "table.csv")
    assert [row["key"] for row in rows] == ["aten::mm", "aten::mm", "other"]
    assert rows[0]["self_cpu_ns"] == "10000"
    assert json.loads(rows[0]["stack"]) == ["a.py(1): f", "b.py(2): g"]
    records = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert [record["count"] for record in records] == [1, 1, 1]
    assert records[0]["stack"] == ["a.py(1): f", "b.py(2): g"]
    assert records[0]["is_device"] is False
    assert list(records[0]) == list(rows[0])


@pytest.mark.parametrize("name", [*HOSTILE, "=1+1", ",", '"', "\r\n", "'", " padded "])
def test_every_name_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    listed = EventList(trace_of_calls([Call(name, 0, 10, stack=(name,))]))
    averages = listed.key_averages(group_by_stack_n=1)
    averages.to_csv(tmp_path / "table.csv")
    averages.to_json(tmp_path / "table.json")
    (row,) = read_csv(tmp_path / "table.csv")
    (record,) = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert row["key"] == record["key"] == name
    assert json.loads(row["stack"]) == record["stack"] == [name]


def test_events_as_csv_and_json(tmp_path: Path) -> None:
    events().to_csv(tmp_path / "events.csv.gz")
    events().to_json(tmp_path / "events.json")
    with gzip.open(tmp_path / "events.csv.gz", "rt", encoding="utf-8", newline="") as file:
        assert [row["start_ns"] for row in csv.DictReader(file)] == ["0", "20000", "50000"]
    records = json.loads((tmp_path / "events.json").read_text(encoding="utf-8"))
    assert [record["name"] for record in records] == ["aten::mm", "aten::mm", "other"]


def test_no_rows_give_a_header_and_an_empty_array(tmp_path: Path) -> None:
    nothing = EventList(trace_of_calls([])).key_averages()
    nothing.to_csv(tmp_path / "table.csv")
    nothing.to_json(tmp_path / "table.json")
    assert (tmp_path / "table.csv").read_text(encoding="utf-8").startswith("key,")
    assert json.loads((tmp_path / "table.json").read_text(encoding="utf-8")) == []


def test_numbers_that_json_lacks_are_unknown(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {"x": [float("nan"), float("inf"), 1.5], "y": [None, True, 2]}
    write_json(columns, tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=pytest.fail) == [
        {"x": None, "y": None}, {"x": None, "y": True}, {"x": 1.5, "y": 2},
    ]  # fmt: skip
    write_csv(columns, tmp_path / "x.csv")
    assert [row["y"] for row in read_csv(tmp_path / "x.csv")] == ["", "true", "2"]


def test_many_rows_are_all_written(tmp_path: Path) -> None:
    write_csv({"n": list(range(10_000))}, tmp_path / "n.csv")
    assert [int(row["n"]) for row in read_csv(tmp_path / "n.csv")] == list(range(10_000))
