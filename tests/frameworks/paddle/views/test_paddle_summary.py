"""summary(): Paddle's views and layout, of Paddle's traces and of all others."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from made_paddle_tree import (
    CPU_USE,
    US,
    Bytes,
    call,
    device,
    host,
    one_step,
    trace_of_threads,
)
from made_trace import Bytes as MadeBytes
from made_trace import Call, trace_of_calls
from sample_traces import PADDLE_SAMPLES
from stepscope.frameworks.paddle.views.summary import summary_text
from stepscope.frameworks.paddle.views.summary_tables import SortedKeys, SummaryView, summary_tables
from stepscope.trace.build import empty_trace
from stepscope.trace.model import Losses, Trace


def without_notes(text: str) -> str:
    """Leave out the prose: all from "Note:" to the rule that ends the table."""
    return re.sub(r"^Note:\n.*?^(?=-+$)", "Note:\n", text, flags=re.MULTILINE | re.DOTALL)


def printed_by_paddle(name: str) -> str:
    text = (PADDLE_SAMPLES / name).read_text(encoding="utf-8")
    text = re.sub(r"=+Perf Summary=+\n.*?\n(?=-+Device|\Z)", "", text, flags=re.DOTALL)
    return re.sub(r"\n-+ Flops Profiler Begin.*", "", text, flags=re.DOTALL)


@pytest.fixture
def trace() -> Trace:
    return trace_of_threads({11: [one_step()]}, user=CPU_USE)


def views_of(trace: Trace, *views: SummaryView, **options: object) -> str:
    return summary_text(trace, views=views, **options)  # type: ignore[arg-type]


def names_in(trace: Trace, view: SummaryView, **options: object) -> list[str]:
    """Return the first column of a view's rows."""
    lines = views_of(trace, view, **options).splitlines()
    rules = [i for i, line in enumerate(lines) if re.match(r"-+  -", line)]
    return [re.split(r"\s{2,}", line.strip())[0] for line in lines[rules[1] + 1 :] if line.strip()]


def test_all_views_look_as_paddle_prints_them(trace: Trace) -> None:
    expected = printed_by_paddle("summary_of_all_views.txt")
    assert without_notes(summary_text(trace, time_unit="ns")) == without_notes(expected)


def test_a_file_of_paddle_gives_the_summary_that_paddle_printed() -> None:
    from stepscope.frameworks.paddle.files import read_pb as paddle_pb

    expected = printed_by_paddle("summary_of_training.txt")
    trace = paddle_pb.read_paddle_pb(PADDLE_SAMPLES / "training.paddle_trace.pb")
    text = summary_text(trace, SortedKeys.CPUAvg, thread_sep=True, time_unit="us")
    # The operators' rows of the memory view repeat the bytes of what is in them: see below.
    repeated = r"^(full|add|matmul|relu|mean) dygraph +Allocated .*\n"
    once = re.sub(repeated, "", expected, flags=re.MULTILINE)
    assert without_notes(text) == without_notes(once)


@pytest.mark.parametrize(
    ("unit", "shown"), [("s", "0.00"), ("ms", "0.20"), ("us", "200.00"), ("ns", "200000.00")]
)
def test_times_are_shown_in_the_unit_that_is_asked_for(trace: Trace, unit: str, shown: str) -> None:
    text = views_of(trace, SummaryView.OverView, time_unit=unit)
    assert f"Time unit: {unit}\n" in text
    assert re.search(rf"^ProfileStep +1 +{re.escape(shown)} +100.00", text, re.MULTILINE)


def test_an_unknown_unit_is_an_error_that_names_the_units(trace: Trace) -> None:
    with pytest.raises(ValueError, match=r"'hours' is unknown; use one of s, ms, us, ns"):
        summary_text(trace, time_unit="hours")


def test_what_is_no_key_and_no_view_is_an_error_that_names_them(trace: Trace) -> None:
    with pytest.raises(TypeError, match=r"'cpu' is not a SortedKeys; use one of CPUTotal, CPUAvg"):
        summary_text(trace, "cpu")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"3 is not a SummaryView; use one of DeviceView"):
        summary_text(trace, views=[3])  # type: ignore[list-item]


def test_one_view_or_several_can_be_asked_for(trace: Trace) -> None:
    def titles(views: object) -> list[str]:
        text = summary_text(trace, views=views)  # type: ignore[arg-type]
        return re.findall(r"^-+(\w[\w ]+) Summary", text, re.MULTILINE)

    assert titles(SummaryView.KernelView) == ["Kernel"]
    assert titles([SummaryView.KernelView, SummaryView.OverView]) == ["Overview", "Kernel"]
    assert titles([]) == []
    assert titles(None) == [
        *("Device", "Overview", "Model", "Distribution", "Operator", "Kernel"),
        *("Memory Manipulation", "UserDefined"),
    ]


def operators(*times: tuple[str, int, int, int]) -> Trace:
    """Return operators, one after the other: name, µs on the host, µs of a kernel and of a copy."""
    steps, now = [], 0
    for name, cpu, kernel, copy in times:
        launched = [device("k", now, now + kernel)] if kernel else []
        launched += [device("c", now, now + copy, "Memcpy")] if copy else []
        calls = [call("cudaLaunchKernel", now, now + 1, *launched)] if launched else []
        steps.append(host(name, "Operator", now, now + cpu, *calls))
        now += cpu + 1
    return trace_of_threads({1: [host("ProfileStep#0", "ProfileStep", 0, now, *steps)]})


@pytest.mark.parametrize(
    ("key", "order"),
    [
        (SortedKeys.CPUTotal, "often long short"),
        (SortedKeys.CPUAvg, "long often short"),
        (SortedKeys.CPUMax, "long often short"),
        (SortedKeys.CPUMin, "short often long"),
        (SortedKeys.GPUTotal, "often short long"),
        (SortedKeys.GPUAvg, "short often long"),
        (SortedKeys.GPUMax, "short often long"),
        (SortedKeys.GPUMin, "long often short"),
    ],
)
def test_rows_are_sorted_by_the_key_the_least_first_only_for_min(
    key: SortedKeys, order: str
) -> None:
    trace = operators(
        *(("long", 50, 0, 1), ("short", 5, 20, 10)),
        *(("often", 20, 15, 0), ("often", 25, 14, 5), ("often", 30, 5, 5)),
    )
    names = names_in(trace, SummaryView.OperatorView, sorted_by=key, op_detail=False)
    assert " ".join(name for name in names if name.isalpha()) == order


def test_without_details_an_operator_is_one_row(trace: Trace) -> None:
    table = summary_tables(trace, op_detail=False).operators
    assert [row.name for row in table.rows] == ["matmul dygraph", "c_allreduce_sum dygraph"]


def test_threads_can_be_told_apart() -> None:
    threads = {
        22: [host("ProfileStep#0", "ProfileStep", 0, 100, host("a", "Operator", 0, 10))],
        3: [host("a", "Operator", 5, 25), host("mine", "PythonUserDefined", 30, 40)],
    }
    trace = trace_of_threads(threads)
    merged = summary_tables(trace).operators.rows
    assert [(row.thread, row.calls, row.cpu_ns) for row in merged] == [
        ("All threads merged", 2, 30 * US)
    ]
    apart = summary_tables(trace, thread_sep=True)
    assert [(row.thread, row.cpu_ns) for row in apart.operators.rows] == [
        ("3", 20 * US),
        ("22", 10 * US),
    ]
    text = summary_text(trace, thread_sep=True)
    assert re.findall(r"-Thread: (\d+)-", text) == ["3", "22", "3"]


def test_a_phase_within_a_phase_is_not_counted_again() -> None:
    inner = host("Linear", "Forward", 20, 40)
    outer = host("Sequential", "Forward", 10, 60, inner)
    trace = trace_of_threads({1: [host("ProfileStep#0", "ProfileStep", 0, 100, outer)]})
    tables = summary_tables(trace)
    forward = next(row for row in tables.model.rows if row.name == "Forward")
    assert (forward.calls, forward.cpu_ns) == (1, 50 * US)
    overview = {row.event_type: (row.calls, row.time_ns) for row in tables.overview.rows}
    assert overview["Forward"] == (1, 50 * US)


def test_moments_of_a_type_count_once_over_threads() -> None:
    trace = trace_of_threads(
        {
            1: [host("ProfileStep#0", "ProfileStep", 0, 100, host("a", "Operator", 10, 30))],
            2: [host("b", "Operator", 20, 50), host("c", "Operator", 50, 55)],
        }
    )
    overview = {row.event_type: row for row in summary_tables(trace).overview.rows}
    assert (overview["Operator"].calls, overview["Operator"].time_ns) == (3, 45 * US)
    assert overview["Operator"].ratio == pytest.approx(0.45)


def test_bytes_count_once() -> None:
    """Paddle adds an operator's children to it and shows them as well: 416 bytes become 832."""
    launch = host("gaussian kernel launch", "DygraphKernelLaunch", 30, 40, Bytes(35 * US, 416))
    meta = host("gaussian infer_meta", "OperatorInner", 10, 20, Bytes(15 * US, 8))
    operator = host("gaussian dygraph", "Operator", 5, 50, meta, launch)
    step = host("ProfileStep#0", "ProfileStep", 0, 100, operator, Bytes(70 * US, -400))
    trace = trace_of_threads({1: [step]})
    rows = summary_tables(trace).memory.rows
    assert [(row.name, row.increased_bytes) for row in rows] == [
        ("gaussian kernel launch", 416),
        ("gaussian dygraph", 8),
        ("ProfileStep#0", -400),
    ]
    assert sum(row.increased_bytes for row in rows) == trace.memory.size.sum()


def test_a_trace_without_a_step_has_ratios_of_the_whole_recording() -> None:
    ranges = [host("copy Memcpy", "UserDefined", 0, 10), host("mine", "PythonUserDefined", 20, 50)]
    tables = summary_tables(trace_of_threads({1: ranges}))
    assert (tables.has_steps, tables.total_ns) == (False, 50 * US)
    assert [row.cpu_ratio for row in tables.user_defined.rows] == [0.6]
    text = summary_text(trace_of_threads({1: [*ranges, host("Net", "Forward", 60, 100)]}))
    assert "No step was recorded" in text
    assert "Others" in text


def test_an_empty_trace_says_so() -> None:
    text = summary_text(empty_trace())
    assert "CPU(Process)                    -  " in text
    assert text.endswith("No event was recorded.\n")


def test_dropped_events_are_told(trace: Trace) -> None:
    lossy = replace(trace, info=replace(trace.info, losses=Losses(events=1234)))
    assert "1,234 events were dropped" in summary_text(lossy)


def test_self_time_is_a_column_of_its_own_and_only_if_asked_for(trace: Trace) -> None:
    view = SummaryView.OperatorView
    assert "Self" not in views_of(trace, view)
    text = views_of(trace, view, time_unit="us", self_time=True)
    # 40 µs less the launch of 25; the launch's call took 5 of its 25, and launched the kernel.
    assert re.search(r"^matmul dygraph .* 15\.00 / 0\.00 +0 ", text, re.MULTILINE)
    assert re.search(r"^  matmul kernel launch .* 20\.00 / 60\.00 +- ", text, re.MULTILINE)


def test_a_row_limit_cuts_views_and_says_how_much_is_missing() -> None:
    trace = operators(("a", 30, 0, 0), ("b", 20, 0, 0), ("c", 10, 0, 0))
    names = names_in(trace, SummaryView.OperatorView, row_limit=1)
    assert names[1:3] == ["a", "... 2 more"]
    assert "more" not in views_of(trace, SummaryView.OperatorView, row_limit=3)
    with pytest.raises(ValueError, match="row_limit -1 is negative"):
        summary_text(trace, row_limit=-1)


def test_kernels_are_shown_without_their_parameters_and_not_too_long() -> None:
    names = ["void f<int>(int*)", "plain(int)", "void g<" + "x" * 100 + ">(float)"]
    calls = [call("cudaLaunchKernel", i, i + 1, device(n, i, i + 1)) for i, n in enumerate(names)]
    trace = trace_of_threads({1: [host("ProfileStep#0", "ProfileStep", 0, 10, *calls)]})
    shown = names_in(trace, SummaryView.KernelView)
    assert set(shown[:3]) == {"void f<int>", "plain(int)", "void g<" + "x" * 80 + "..."}


def test_work_counts_although_its_launch_is_not_known(trace: Trace) -> None:
    from stepscope.trace.model import NO_CORRELATION

    untied = replace(trace.slices, correlation=trace.slices.correlation * 0 + NO_CORRELATION)
    tables = summary_tables(replace(trace, slices=untied))
    assert {row.name: row.gpu.total_ns for row in tables.kernels.rows} == {
        "ncclKernel_AllReduce": 70 * US,
        "void gemm<float, 128>(float*, int)": 60 * US,
    }
    assert tables.device.rows[2] == ("GPU0", pytest.approx(0.6))


def test_names_that_break_lines_do_not() -> None:
    name = 'quote " \n</script>\x1b[31m 漢字'
    trace = trace_of_threads(
        {
            1: [
                host(
                    *("ProfileStep#0", "ProfileStep", 0, 100),
                    host(name, "Operator", 0, 10, host(name, "OperatorInner", 1, 2)),
                    host(name, "PythonUserDefined", 20, 30, Bytes(25 * US, 8)),
                )
            ]
        }
    )
    text = summary_text(trace)
    assert "\x1b" not in text
    assert text.count(r"quote \" \n</script>\x1b[31m 漢字".replace('\\"', '"')) == 4


def test_every_view_is_a_data_frame(trace: Trace) -> None:
    frames = summary_tables(trace).to_polars()
    assert list(frames) == [
        *("device", "overview", "model", "distribution", "operators", "kernels"),
        *("memory_manipulation", "user_defined", "memory"),
    ]
    operators = frames["operators"]
    assert operators["cpu_total_ns"].to_list() == [40 * US, 25 * US, None, 20 * US, None]
    assert operators["gpu_total_ns"].to_list() == [60 * US] * 3 + [70 * US] * 2
    assert operators["operator"].to_list() == [
        "",
        *["matmul dygraph"] * 2,
        "",
        "c_allreduce_sum dygraph",
    ]
    assert frames["device"]["utilization"].to_list() == [0.5, 0.25, 0.6]
    empty = summary_tables(empty_trace()).to_polars()
    for name, frame in frames.items():
        assert empty[name].schema == frame.schema


def test_threads_of_different_processes_are_told_apart() -> None:
    calls = [Call("aten::add", 0, 10, track=0), Call("aten::add", 0, 20, track=1)]
    trace = trace_of_calls(calls, pids=["10", "11"])
    same = tuple(replace(track, tid="5") for track in trace.tracks)
    rows = summary_tables(replace(trace, tracks=same), thread_sep=True).operators.rows
    assert [row.thread for row in rows] == ["5 of process 10", "5 of process 11"]


def test_what_the_allocator_takes_from_a_device_is_reserved() -> None:
    """A file of Paddle has such events without a size: they change what is reserved."""
    step = host("ProfileStep#0", "ProfileStep", 0, 100)
    step.mem_node = [Bytes(10 * US, 256, "Place(cuda:0)"), Bytes(20 * US, 64, "Place(cuda:0)")]
    trace = trace_of_threads({1: [step]}, user={"memoryBefore": {"cuda:0": {"reserved": 100}}})
    memory = replace(trace.memory, size=np.array([0, 64]), reserved=np.array([356, 356]))
    text = views_of(replace(trace, memory=memory), SummaryView.MemoryView)
    assert "Memory Summary - Place(gpu:0)" in text
    assert re.search(r"^ProfileStep#0 +Allocated +1 +0 +64 +0 +64 ", text, re.MULTILINE)
    assert re.search(r"^ProfileStep#0 +Reserved +1 +0 +256 +0 +256 ", text, re.MULTILINE)


def test_memory_outside_of_all_events_is_not_lost() -> None:
    trace = trace_of_calls([Call("aten::add", 0, 10)], [MadeBytes(5, 8), MadeBytes(50, 16)])
    rows = summary_tables(trace).memory.rows
    assert [(row.name, row.increased_bytes) for row in rows] == [
        ("(outside of all events)", 16),
        ("aten::add", 8),
    ]
