"""The schema is the one place that states columns: everything else follows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from made_trace import Call, trace_of_calls
from stepscope import _native
from stepscope.trace.build import build, since, started_outside
from stepscope.trace.frames import slices_frame
from stepscope.trace.join import join_traces, merge_parts
from stepscope.trace.model import Trace
from stepscope.trace.schema import TABLES, Captured, Memory, Slices, TraceInfo, Track, markdown
from stepscope.trace.strings import Strings
from stepscope.trace.table import Args, Column, IntColumn, Remap, Role, add_column, remove_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCS = Path(__file__).parents[2] / "docs" / "trace.md"


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint32)


def times(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def captured(names: list[int], start_ns: list[int], **more: object) -> Captured:
    count = len(names)
    slices = Slices.of(
        name=ids(*names),
        category=np.full(count, 1, np.uint32),
        start_ns=times(*start_ns),
        duration_ns=np.full(count, 10, np.int64),
        track=np.zeros(count, np.uint32),
        **more,
    )
    return Captured(slices, (Track("1", "1"),), Strings.of(["", "cpu_op", "a", "b", "c"]))


def test_the_docs_are_made_of_the_schema() -> None:
    assert markdown() in DOCS.read_text(encoding="utf-8"), (
        "docs/trace.md is out of date: paste what `python -c 'from stepscope.trace.schema import "
        "markdown; print(markdown())'` prints"
    )


@pytest.mark.parametrize("table", TABLES.values())
def test_every_column_is_stated_whole(table: type) -> None:
    for name, expected in table.columns().items():
        assert expected.meaning, name
        assert name.endswith("_ns") == (expected.unit == "ns"), name
        assert not expected.may_be_absent or expected.dtype is not None


@pytest.mark.parametrize("table", TABLES.values())
def test_an_empty_table_has_every_column(table: type) -> None:
    empty = table.empty()
    for name, expected in table.columns().items():
        if expected.dtype is not None and not expected.transient:
            assert getattr(empty, name).dtype == expected.dtype, name


def test_rows_are_taken_by_number_and_by_mask() -> None:
    args = Args({"x": IntColumn(ids(0, 2), times(7, 9))}, ids(1, 0, 2))
    slices = captured([2, 3, 4], [0, 10, 20], args=args).slices
    turned = slices.take(np.array([2, 0]))
    assert turned.name.tolist() == [4, 2]
    assert turned.args.integers["x"].rows.tolist() == [0, 1]
    assert turned.args.integers["x"].values.tolist() == [9, 7]
    assert turned.args.rest.tolist() == [2, 1]
    assert slices.take(np.array([False, True, True])).args.integers["x"].values.tolist() == [9]


def test_numbers_follow_what_they_refer_to() -> None:
    memory = Memory.of(
        time_ns=times(5, 6), device=ids(1, 2), track=ids(0, 1), slice=np.array([-1, 1], np.int32)
    )
    new = Remap(text=ids(0, 9, 8), track=ids(3, 4), slice=np.array([5, 6]))
    moved = memory.remap(new)
    assert moved.device.tolist() == [9, 8]
    assert moved.track.tolist() == [3, 4]
    assert moved.slice.tolist() == [-1, 6]


def test_what_stood_beside_the_arguments_survives_merging() -> None:
    first = captured([2], [0], fields=Args({"id": IntColumn(ids(0), times(41))}, ids(3)))
    merged = merge_parts([first, captured([3], [5])])
    trace = build(merged, TraceInfo("test"))
    assert trace.slices.fields.integers["id"].values.tolist() == [41]
    assert trace.strings[int(trace.slices.fields.rest[0])] == "b"


@pytest.mark.parametrize(
    ("cut", "kept_ns", "stays"),
    [
        (lambda all_of_it: since(all_of_it, 10), [10], {"held", "owners", "uses"}),
        (lambda all_of_it: started_outside(all_of_it, [(2, 7)]), [0, 10], {"owners", "marks"}),
    ],
    ids=["since", "pauses"],
)
def test_every_table_is_cut_unless_its_rows_go_on(
    cut: Callable[[Captured], Captured], kept_ns: list[int], stays: set[str]
) -> None:
    at_ns = times(0, 5, 10)
    rows = {
        name: table.of(**{"start_ns" if name == "slices" else "time_ns": at_ns})
        for name, table in TABLES.items()
        if name != "stacks"
    }
    after = cut(Captured(tracks=(), strings=Strings.of([""]), **rows))
    for name in rows:
        times_ns = getattr(after, name).times_ns
        assert times_ns.tolist() == (at_ns.tolist() if name in stays else kept_ns), name


@pytest.fixture
def energy() -> Iterator[None]:
    """A column that somebody else thought of."""
    add_column(Slices, "energy", Column("what it used", np.int64, unit="mJ", absent=-1))
    yield
    remove_column(Slices, "energy")


@pytest.mark.usefixtures("energy")
def test_a_column_added_from_outside_is_one_of_all(tmp_path: Path) -> None:
    raw = merge_parts([captured([2, 3], [30, 0], energy=times(5, 6)), captured([4], [10])])
    trace = build(raw, TraceInfo("test"))
    assert trace.slices.energy.tolist() == [6, -1, 5]
    trace.save(tmp_path / "t.stepscope")
    again = Trace.load(tmp_path / "t.stepscope")
    assert again.slices.energy.tolist() == [6, -1, 5]
    assert slices_frame(again)["energy"].to_list() == [6, None, 5]
    assert join_traces([trace, trace]).slices.energy.tolist() == [6, 6, -1, -1, 5, 5]
    remove_column(Slices, "energy")
    assert len(Trace.load(tmp_path / "t.stepscope")) == 3  # nobody knows the column any more
    add_column(Slices, "energy", Column("what it used", np.int64, absent=-1))
    old = trace_of_calls([Call("aten::mm", 0, 5)])
    assert old.slices.energy.tolist() == [-1]


@pytest.mark.usefixtures("energy")
@pytest.mark.parametrize("name", ["energy", "start_ns", "no name"])
def test_a_name_that_is_taken_or_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="choose another name"):
        add_column(Slices, name, Column("again", np.int64))


def test_a_column_that_nobody_stated_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="no column 'colour'"):
        Slices.of(start_ns=times(1), colour=ids(1))
    with pytest.raises(AttributeError, match="no column 'colour'"):
        _ = Slices.empty().colour


def test_devices_are_the_same_wherever_they_are_told() -> None:
    expected = {
        "id": 3,
        "name": "NVIDIA H200",
        "numSms": 132,
        "totalGlobalMem": 7,
        "computeMajor": 9,
    }
    own = trace_of_calls([], devices=[expected]).devices()
    foreign = trace_of_calls([], user={"deviceProperties": [expected, "nonsense"]}).devices()
    assert own == foreign
    assert (own[0].id, own[0].name, own[0].multiprocessors) == (3, "NVIDIA H200", 132)
    assert (own[0].memory_bytes, own[0].compute_capability) == (7, (9, 0))


def test_links_are_what_is_moved_apart_between_processes() -> None:
    links = [name for name, expected in Slices.columns().items() if expected.role is Role.LINK]
    assert links == ["sequence", "correlation"]


# What the recorder writes that becomes something else: texts of arguments, and devices by number.
NOT_COLUMNS = {"inputs", "detail"}


@pytest.mark.parametrize("table", ["slices", "memory", "owners", "uses"])
def test_the_native_record_has_the_columns_of_the_schema(table: str) -> None:
    expected = TABLES[table].columns()
    for name, dtype in _native.record_columns()[table]:
        if name not in NOT_COLUMNS:
            assert expected[name].dtype is not None, name
            assert np.dtype(expected[name].dtype).name == dtype, name
            assert not expected[name].derived, name
