"""Our numbers, names and text beside torch.profiler's, for the same recorded events."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from torch.autograd import profiler_util

from kineto_trace import trace_of
from made_trace import Call, trace_of_calls
from stepscope.analysis.base.landmarks import landmarks
from stepscope.frameworks.torch.dialect.event_lists import EventList
from torch_steps import MODELS, profiled

EQUAL = (
    "name", "trace_name", "key", "thread", "fwd_thread", "scope", "sequence_nr", "input_shapes",
    "is_async", "is_user_annotation", "is_python_function", "device_type", "use_device", "count",
    "node_id", "activity_type",
)  # fmt: skip
CLOSE = ("cpu_time_total", "self_cpu_time_total", "cpu_time", "device_time_total")
OF_AVERAGES = ("key", "count", "is_async", "is_user_annotation", "device_type", "input_shapes")


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest) -> tuple[EventList, Any]:
    profiler = profiled(request.param, record_shapes=True)
    return EventList(trace_of(profiler)), profiler


def assert_same_line(mine: str, other: str) -> None:
    """Compare to the character, but let the last digit of a time differ by one.

    torch adds µs as floats, so an average that falls between two ns may round either way.
    """
    time = re.compile(r"(\d+\.\d{3})(?=us|ms|s)")
    assert time.sub("#", mine) == time.sub("#", other)
    assert len(mine) == len(other)
    mine_times, other_times = map(float, time.findall(mine)), map(float, time.findall(other))
    assert list(mine_times) == pytest.approx(list(other_times), abs=0.0011)


def test_events_are_torchs(pair: tuple[EventList, Any]) -> None:
    ours, profiler = pair
    theirs = profiler.events()
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert [getattr(mine, name) for name in EQUAL] == [getattr(other, name) for name in EQUAL]
        for name in CLOSE:
            assert getattr(mine, name) == pytest.approx(getattr(other, name), abs=1e-6)
        assert mine.time_range.start == pytest.approx(other.time_range.start, abs=1e-6)
        assert [c.name for c in mine.cpu_children] == [c.name for c in other.cpu_children]
        assert (mine.cpu_parent is None) == (other.cpu_parent is None)


@pytest.mark.parametrize("by_shape", [False, True])
def test_averages_are_torchs(pair: tuple[EventList, Any], by_shape: bool) -> None:
    ours, profiler = pair
    theirs = profiler.key_averages(group_by_input_shape=by_shape)
    averages = ours.key_averages(group_by_input_shape=by_shape)
    assert len(averages) == len(theirs)
    for mine, other in zip(averages, theirs, strict=True):
        assert [getattr(mine, n) for n in OF_AVERAGES] == [getattr(other, n) for n in OF_AVERAGES]
        for name in CLOSE:
            assert getattr(mine, name) == pytest.approx(getattr(other, name), abs=1e-6)
    assert averages.self_cpu_time_total == pytest.approx(theirs.self_cpu_time_total, abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_limit": -1},
        {"sort_by": "count", "row_limit": 10},
        {"sort_by": "key"},
        {"sort_by": "cuda_time_total"},
        {"top_level_events_only": True, "header": "a header"},
        {"max_name_column_width": 20, "max_shapes_column_width": 15},
        {"time_unit": "ms"},
    ],
    ids=str,
)
def test_tables_are_torchs_to_the_character(
    pair: tuple[EventList, Any], options: dict[str, Any]
) -> None:
    ours, profiler = pair
    by_shape = {"group_by_input_shape": True}
    for mine, other in [
        (ours, profiler.events()),
        (ours.key_averages(), profiler.key_averages()),
        (ours.key_averages(**by_shape), profiler.key_averages(**by_shape)),
    ]:
        pairs = zip(
            mine.table(**options).split("\n"), other.table(**options).split("\n"), strict=True
        )
        for mine_line, other_line in pairs:
            assert_same_line(mine_line, other_line)


@pytest.mark.parametrize("sort_by", ["cpu_time_total", "self_cpu_time_total", "cpu_time"])
def test_tables_sorted_by_time_are_torchs(pair: tuple[EventList, Any], sort_by: str) -> None:
    """Rows of equal times may stand in either order: torch's floats are not quite equal."""
    ours, profiler = pair
    theirs = profiler.key_averages()
    value = {average.key: getattr(average, sort_by) for average in theirs}

    def name_of(line: str) -> str:  # the total of all may be rounded otherwise
        return line.split("  ", maxsplit=1)[0].partition(" time total: ")[0]

    row = {name_of(line): line for line in map(str.lstrip, theirs.table(row_limit=-1).split("\n"))}
    rows = list(map(str.lstrip, ours.key_averages().table(sort_by, row_limit=-1).split("\n")))
    for line in rows:
        assert_same_line(line, row[name_of(line)])
    names = [name_of(line) for line in rows]
    times = [value[name] for name in names if name in value]
    assert len(times) > 10
    assert all(times[i] >= times[i + 1] - 1e-6 for i in range(len(times) - 1))


@st.composite
def nested_calls(draw: st.DrawFn) -> list[Call]:
    """Calls of few names, opened and closed at every µs: deep chains of one name are common."""
    open_calls: list[tuple[str, int]] = []
    calls: list[Call] = []
    names = st.sampled_from([None, "a", "a", "b", "[memory]"])  # None closes the innermost
    moves = draw(st.lists(names, max_size=30))
    for now, name in enumerate([*moves, *[None] * len(moves)]):
        if name is not None:
            open_calls.append((name, now))
        elif open_calls:
            opened, start = open_calls.pop()
            calls.append(Call(opened, start, now))
    return calls


@given(nested_calls())
@settings(max_examples=200)
def test_folding_and_hiding_give_torchs_tree(calls: list[Call]) -> None:
    shown = sorted((c for c in calls if c.name not in landmarks().hidden), key=lambda c: c.start)
    theirs = profiler_util.EventList(
        profiler_util.FunctionEvent(
            id=c.start, name=c.name, thread=1, start_us=c.start, end_us=c.end
        )
        for c in shown
    )
    theirs._build_tree()
    ours = EventList(trace_of_calls(calls))
    assert [
        (e.time_range.start, e.self_cpu_time_total, [c.time_range.start for c in e.cpu_children])
        for e in ours
    ] == [
        (e.time_range.start, e.self_cpu_time_total, [c.time_range.start for c in e.cpu_children])
        for e in theirs
    ]
