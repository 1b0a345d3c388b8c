"""The summary table: torch.profiler's, character for character."""

from __future__ import annotations

import re

import pytest

from made_trace import Call, trace_of_calls
from stepscope.frameworks.torch.dialect.event_lists import EventList
from stepscope.frameworks.torch.dialect.table import size_text
from stepscope.trace.model import Losses, SliceFlags

CALLS = (
    Call("outer", 0, 100),
    Call("inner", 10, 90),
    Call("lone", 200, 250),
    Call("outer", 300, 310),
    Call("tiny", 301, 304),
)


def events(*calls: Call, **info: object) -> EventList:
    return EventList(trace_of_calls(calls or CALLS, **info))


def names(text: str) -> list[str]:
    """The first cell of each row."""
    rules = [i for i, line in enumerate(text.splitlines()) if line.startswith("-----")]
    return [line.split()[0] for line in text.splitlines()[rules[1] + 1 : rules[2]]]


def test_the_whole_table() -> None:
    text = events().key_averages().table()
    assert text.replace("  \n", "|\n") == (
        "---------  ------------  ------------  ------------  ------------  ------------"
        "  ------------|\n"
        "     Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg"
        "    # of Calls|\n"
        "---------  ------------  ------------  ------------  ------------  ------------"
        "  ------------|\n"
        "    outer        16.88%      27.000us        68.75%     110.000us      55.000us"
        "             2|\n"
        "    inner        50.00%      80.000us        50.00%      80.000us      80.000us"
        "             1|\n"
        "     lone        31.25%      50.000us        31.25%      50.000us      50.000us"
        "             1|\n"
        "     tiny         1.88%       3.000us         1.88%       3.000us       3.000us"
        "             1|\n"
        "---------  ------------  ------------  ------------  ------------  ------------"
        "  ------------|\n"
        "Self CPU time total: 160.000us\n"
    )


@pytest.mark.parametrize(
    ("sort_by", "order"),
    [
        (None, ["outer", "inner", "lone", "tiny"]),
        ("cpu_time_total", ["outer", "inner", "lone", "tiny"]),
        ("self_cpu_time_total", ["inner", "lone", "outer", "tiny"]),
        ("cpu_time", ["inner", "outer", "lone", "tiny"]),
        ("count", ["outer", "inner", "lone", "tiny"]),
        ("key", ["tiny", "outer", "lone", "inner"]),
        ("cuda_time_total", ["outer", "inner", "lone", "tiny"]),
        ("self_xpu_memory_usage", ["outer", "inner", "lone", "tiny"]),
    ],
)
def test_rows_are_sorted_the_largest_first(sort_by: str | None, order: list[str]) -> None:
    assert names(events().key_averages().table(sort_by=sort_by)) == order


def test_an_unknown_column_is_named_with_those_there_are() -> None:
    with pytest.raises(AttributeError, match=r"'wall_time'.*self_cpu_time_total"):
        events().key_averages().table(sort_by="wall_time")


@pytest.mark.parametrize(("limit", "rows"), [(0, 0), (2, 2), (-1, 5), (100, 5)])
def test_the_row_limit(limit: int, rows: int) -> None:
    assert len(names(events().table(row_limit=limit))) == rows


def test_only_top_level_events_and_a_header() -> None:
    text = events().table(top_level_events_only=True, header="mine", row_limit=2)
    lines = text.splitlines()
    assert lines[0] == lines[2] == "=" * (len(lines[4]) - 2)
    assert lines[1] == "mine"
    assert lines[3] == "This report only display top-level ops statistics"
    assert names(text) == ["outer", "lone"]


@pytest.mark.parametrize(
    ("unit", "total"), [("s", "0.000s"), ("ms", "0.160ms"), ("us", "160.000us")]
)
def test_a_time_unit_holds_for_all_times(unit: str, total: str) -> None:
    text = events().table(time_unit=unit)
    assert text.endswith(f"Self CPU time total: {total}\n")
    assert set(re.findall(r"\d(s|ms|us)\b", text)) == {unit}


def test_each_time_has_the_unit_that_suits_it() -> None:
    text = events(
        Call("a", 0, 2_500_000), Call("b", 3_000_000, 3_001_500), Call("c", 4_000_000, 4_000_001)
    ).table()
    assert [line.split()[2] for line in text.splitlines()[3:6]] == ["2.500s", "1.500ms", "1.000us"]


def test_an_unknown_time_unit_is_named() -> None:
    with pytest.raises(ValueError, match="'ns'"):
        events().table(time_unit="ns")


def test_no_events_give_an_empty_text() -> None:
    empty = EventList(trace_of_calls([]))
    assert empty.table() == empty.key_averages().table(header="mine") == ""


def test_shares_of_nothing_are_not_numbers() -> None:
    assert "NaN" in events(Call("a", 5, 5)).table()


def test_what_ends_on_another_thread_has_no_share() -> None:
    row = (
        events(Call("a", 0, 100), Call("b", 10, 90, flags=SliceFlags.ASYNC)).table().splitlines()[4]
    )
    assert row.split() == ["b", "0.00%", "0.000us", "0", "80.000us", "80.000us", "1"]


@pytest.mark.parametrize(
    ("width", "shown"), [(13, "aaaaaaaaa"), (12, "aaaaaaaaa..."), (9, "aaaaaa..."), (None, "a" * 9)]
)
def test_long_names_are_cut_where_torch_cuts_them(width: int | None, shown: str) -> None:
    assert names(events(Call("a" * 9, 0, 1)).table(max_name_column_width=width)) == [shown]


def test_names_cannot_break_the_table() -> None:
    text = events(Call('new\nline\x1b[31m"', 0, 1), Call("é漢字", 2, 3)).table()
    assert names(text) == ['new\\nline\\x1b[31m"', "é漢字"]
    assert len({len(line) for line in text.splitlines()[:6]}) == 1


def test_shapes_have_a_column_when_grouped_by() -> None:
    calls = (Call("mm", 0, 10, rest='"Input Dims": [[2, 3], [3, 4], []]'), Call("add", 20, 30))
    by_shapes = events(*calls).key_averages(group_by_input_shape=True)
    lines = by_shapes.table().splitlines()
    assert lines[1].endswith("          Input Shapes  ")
    assert lines[3].endswith("    [[2, 3], [3, 4], []]  ")
    assert lines[4].endswith("                      []  ")
    assert (
        by_shapes.table(max_shapes_column_width=14).splitlines()[3].endswith("  [[2, 3], [3, 4  ")
    )
    assert "Shapes" not in events(*calls).key_averages().table()
    assert "Shapes" in events(*calls).table()
    assert "Shapes" not in events().key_averages(group_by_input_shapes=True).table()


def test_overloads_have_a_column_when_grouped_by() -> None:
    calls = (Call("add", 0, 10, overload="out"), Call("add", 20, 30, overload="Tensor"))
    assert "Overload Name" not in events(*calls).key_averages().table()
    lines = events(*calls).key_averages(group_by_overload_name=True).table().splitlines()
    assert lines[1].startswith("   Name  Overload Name    Self CPU %")
    assert lines[3].startswith("    add            out  ")
    assert lines[4].startswith("    add         Tensor  ")


def test_device_columns_appear_with_device_time() -> None:
    text = events(
        Call("op", 0, 100),
        Call("cudaLaunchKernel", 20, 30, category="cuda_runtime", correlation=5),
        Call("kernel", 200, 260, category="kernel", track=1, correlation=5),
        Call("Memset", 300, 400, category="gpu_memset", track=1),
    ).table(sort_by="self_cuda_time_total")
    assert "    Self CUDA   Self CUDA %    CUDA total  CUDA time avg    # of Calls  \n" in text
    assert names(text) == ["Memset", "op", "kernel", "cudaLaunchKernel"]
    row = "    60.000us        37.50%      60.000us      60.000us             1  "
    assert text.splitlines()[4].endswith(row)
    assert text.endswith("Self CPU time total: 100.000us\nSelf CUDA time total: 160.000us\n")


def test_losses_stand_under_the_totals() -> None:
    losses = Losses(events=1234, policy="oldest", limit_bytes=64 * 2**20)
    last = events(losses=losses).key_averages().table().splitlines()[-1]
    assert "1,234 events were dropped" in last
    assert "oldest" in last
    assert "64.0 MiB" in last


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (-1023, "-1023 B"),
        (1024, "1.00 KB"),
        (-1536, "-1.50 KB"),
        (5 * 2**20, "5.00 MB"),
        (3 * 2**30, "3.00 GB"),
        (2**42, "4096.00 GB"),
    ],
)
def test_sizes_have_torchs_units(size: int, text: str) -> None:
    assert size_text(size) == text
