"""Events summed by name, as torch.profiler sums them."""

from __future__ import annotations

import pytest

from made_trace import Bytes, Call, trace_of_calls
from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.tree import call_tree
from stepscope.analysis.host.averages import Averages, averages, single_events
from stepscope.trace.model import SliceFlags


def summed(*calls: Call, **by: bool) -> Averages:
    return averages(call_tree(trace_of_calls(calls)), **by)


def test_groups_stand_in_the_order_in_which_they_were_first_seen() -> None:
    rows = summed(Call("b", 0, 10), Call("a", 20, 30), Call("b", 40, 60))
    assert list(rows.key) == ["b", "a"]
    assert rows.count.tolist() == [2, 1]
    assert rows.cpu_ns.tolist() == [30_000, 10_000]


def test_self_time_is_what_direct_children_leave() -> None:
    rows = summed(Call("a", 0, 100), Call("b", 10, 60), Call("c", 20, 30), Call("d", 70, 80))
    assert dict(zip(rows.key, rows.self_cpu_ns.tolist(), strict=True)) == {
        "a": 40_000,
        "b": 40_000,
        "c": 10_000,
        "d": 10_000,
    }
    assert rows.total_self_cpu_ns == 100_000


def test_children_of_another_thread_take_nothing_away() -> None:
    rows = summed(Call("a", 0, 100), Call("b", 10, 60, track=1))
    assert rows.self_cpu_ns.tolist() == [100_000, 50_000]
    assert rows.is_top_level.tolist() == [True, True]


def test_a_range_and_an_operator_of_one_name_are_two_groups() -> None:
    rows = summed(Call("a", 0, 10), Call("a", 20, 30, category="user_annotation"))
    assert list(rows.key) == ["a", "a"]
    assert rows.is_annotation.tolist() == [False, True]


def test_all_steps_are_one_group() -> None:
    rows = summed(
        Call("ProfilerStep#7", 0, 10, category="user_annotation"),
        Call("ProfilerStep#8", 10, 30, category="user_annotation"),
        Call("MyProfilerStep#9", 30, 40),
    )
    assert list(rows.key) == ["ProfilerStep*", "MyProfilerStep#9"]
    assert rows.count.tolist() == [2, 1]


def test_an_only_child_with_its_parents_name_is_folded_into_it() -> None:
    rows = summed(Call("a", 0, 100), Call("a", 10, 90), Call("a", 20, 80), Call("b", 30, 40))
    assert list(rows.key) == ["a", "b"]
    assert rows.count.tolist() == [1, 1]
    assert rows.cpu_ns.tolist() == [100_000, 10_000]
    assert rows.self_cpu_ns.tolist() == [90_000, 10_000]


def test_one_of_two_children_is_not_folded() -> None:
    rows = summed(Call("a", 0, 100), Call("a", 10, 30), Call("a", 40, 80))
    assert rows.count.tolist() == [3]
    assert rows.cpu_ns.tolist() == [160_000]
    assert rows.self_cpu_ns.tolist() == [100_000]


@pytest.mark.parametrize("hidden", sorted(landmarks().hidden))
def test_hidden_names_leave_their_time_and_children_to_their_parent(hidden: str) -> None:
    rows = summed(Call("a", 0, 100), Call(hidden, 10, 90), Call("b", 20, 50))
    assert list(rows.key) == ["a", "b"]
    assert rows.self_cpu_ns.tolist() == [70_000, 30_000]


def test_what_hidden_siblings_leave_alone_is_folded() -> None:
    rows = summed(Call("a", 0, 100), Call("[memory]", 5, 6), Call("a", 10, 90))
    assert rows.count.tolist() == [1]
    assert rows.self_cpu_ns.tolist() == [100_000]


MODULES = (
    Call("a", 0, 100),
    Call("encoder", 10, 90, category="module"),
    Call("encoder.layer", 20, 80, category="module"),
    Call("b", 30, 50),
    Call("c", 60, 70),
)


def test_calls_of_modules_leave_their_time_and_children_to_the_operators_around() -> None:
    rows = summed(*MODULES)
    assert list(rows.key) == ["a", "b", "c"]
    assert rows.self_cpu_ns.tolist() == [70_000, 20_000, 10_000]
    tree = call_tree(trace_of_calls(MODULES))
    assert tree.parent.tolist() == [-1, 0, 0]
    assert tree.is_device is None


def test_calls_of_modules_are_events_where_asked_for() -> None:
    rows = averages(call_tree(trace_of_calls(MODULES), modules=True))
    assert list(rows.key) == ["a", "encoder", "encoder.layer", "b", "c"]
    assert rows.self_cpu_ns.tolist() == [20_000, 20_000, 30_000, 20_000, 10_000]


def test_python_functions_are_events_as_in_torch() -> None:
    rows = summed(Call("step", 0, 100, category="python_function"), Call("a", 10, 60))
    assert list(rows.key) == ["step", "a"]
    assert rows.self_cpu_ns.tolist() == [50_000, 50_000]


def test_the_slice_of_a_whole_recording_is_no_event() -> None:
    rows = summed(Call("PyTorch Profiler (0)", 0, 100, category="Trace"), Call("a", 0, 10))
    assert list(rows.key) == ["a"]


def test_what_ends_on_another_thread_has_no_self_time_and_no_children() -> None:
    rows = summed(Call("a", 0, 100), Call("b", 10, 90, flags=SliceFlags.ASYNC), Call("c", 20, 50))
    assert rows.self_cpu_ns.tolist() == [70_000, 0, 30_000]
    assert rows.cpu_ns.tolist() == [100_000, 80_000, 30_000]
    assert rows.is_async.tolist() == [False, True, False]


def test_groups_can_be_split_by_shapes_and_overloads() -> None:
    calls = [
        Call("mm", 0, 10, rest='"Input Dims": [[2, 3], []], "x": 1', overload="out"),
        Call("mm", 20, 30, rest='"x": 2, "Input Dims": [[2,3],[]]'),
        Call("mm", 40, 50, rest="not JSON at all"),
        Call("mm", 60, 70),
    ]
    by_shapes = summed(*calls, by_shapes=True)
    assert by_shapes.input_shapes is not None
    assert list(by_shapes.input_shapes) == ["[[2, 3], []]", "[]"]
    assert by_shapes.count.tolist() == [2, 2]
    by_both = summed(*calls, by_shapes=True, by_overload=True)
    assert by_both.overload_name is not None
    assert list(by_both.overload_name) == ["out", "", ""]
    assert summed(*calls).count.tolist() == [4]


def test_a_list_of_tensors_shows_as_one_empty_shape() -> None:
    (shapes,) = (
        summed(
            Call("cat", 0, 10, rest='"Input Dims": [[[3, 4], [3, 4]], [], [5]]'), by_shapes=True
        ).input_shapes
        or []
    )
    assert shapes == "[[], [], [5]]"


def test_flops_of_a_folded_call_are_kept() -> None:
    mm = '"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]'
    calls = [Call("aten::mm", 0, 100), Call("aten::mm", 10, 90, rest=mm)]
    rows = single_events(call_tree(trace_of_calls(calls)), with_flops=True)
    assert rows.flops is not None
    assert rows.flops.tolist() == [48]
    assert rows.flops_per_second.tolist() == [pytest.approx(48 / 100e-6)]


def test_no_events_give_no_groups() -> None:
    assert len(summed()) == 0
    assert len(summed(Call("[memory]", 0, 1))) == 0


LAUNCH = (
    Call("outer", 0, 100, external_id=1),
    Call("inner", 10, 90, external_id=2),
    Call("cudaLaunchKernel", 20, 30, category="cuda_runtime", correlation=5),
)


@pytest.mark.parametrize(
    "kernel",
    [
        Call("kernel", 200, 260, category="kernel", track=1, correlation=5),
        Call("kernel", 200, 260, category="kernel", track=1, correlation=99, external_id=2),
    ],
    ids=["by correlation", "by external id"],
)
def test_device_time_belongs_to_the_operator_around_the_launch(kernel: Call) -> None:
    rows = summed(*LAUNCH, kernel)
    assert list(rows.key) == ["outer", "inner", "cudaLaunchKernel", "kernel"]
    assert rows.device_ns.tolist() == [60_000, 60_000, 0, 60_000]
    assert rows.self_device_ns.tolist() == [0, 60_000, 0, 60_000]
    assert rows.cpu_ns.tolist() == [100_000, 80_000, 10_000, 0]
    assert rows.total_self_device_ns == 60_000
    assert rows.total_self_cpu_ns == 100_000


def test_python_frames_inside_an_operator_are_part_of_its_launch() -> None:
    frame = Call("launcher.py(3): run", 15, 85, category="python_function")
    kernel = Call("kernel", 200, 260, category="kernel", track=1, correlation=5)
    rows = summed(*LAUNCH, frame, kernel)
    device_ns = dict(zip(rows.key, rows.self_device_ns.tolist(), strict=True))
    assert device_ns["inner"] == 60_000
    assert device_ns["launcher.py(3): run"] == 0
    alone = summed(frame, LAUNCH[2], kernel)
    assert alone.self_device_ns.tolist() == [60_000, 0, 60_000]


def test_a_range_on_the_device_holds_work_and_is_none() -> None:
    rows = summed(
        *LAUNCH,
        Call("range", 190, 300, category="gpu_user_annotation", track=1, external_id=1),
        Call("kernel", 200, 260, category="kernel", track=1, correlation=5),
    )
    assert rows.self_device_ns.tolist() == [0, 60_000, 0, 110_000, 60_000]
    assert rows.total_self_device_ns == 60_000


def test_kernels_that_overlap_on_a_stream_keep_all_their_time() -> None:
    rows = summed(
        Call("k", 0, 100, category="kernel", track=1), Call("k", 10, 50, category="kernel", track=1)
    )
    assert rows.count.tolist() == [2]
    assert rows.self_device_ns.tolist() == [140_000]


def test_work_with_an_unknown_launch_is_nobodys_but_its_own() -> None:
    rows = summed(*LAUNCH, Call("k", 200, 260, category="kernel", track=1, correlation=6))
    assert rows.device_ns.tolist() == [0, 0, 0, 60_000]


def test_averages_become_a_data_frame() -> None:
    frame = summed(Call("b", 0, 10), Call("a", 20, 30), Call("b", 40, 60)).to_polars()
    assert frame["key"].to_list() == ["b", "a"]
    assert frame["cpu_ns"].to_list() == [30_000, 10_000]
    assert "input_shapes" not in frame.columns


@pytest.mark.filterwarnings("error")
def test_sizes_that_no_machine_has_are_added_as_integers() -> None:
    largest = 2**63 - 1
    trace = trace_of_calls([Call("aten::empty", 0, 10)], [Bytes(5, largest)])
    table = averages(trace)
    assert table.cpu_bytes.tolist() == [largest]
