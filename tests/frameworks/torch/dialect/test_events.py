"""torch.profiler's results over a Trace: the same elements, made when they are looked at."""

from __future__ import annotations

import copy
import json
import math
import pickle
import subprocess
import sys
from typing import Any

import pytest

from made_trace import Call, trace_of_calls
from stepscope.errors import UnsupportedError
from stepscope.frameworks.torch.dialect.event_lists import EventList
from stepscope.trace.model import SliceFlags

STEP = Call("ProfilerStep#2", 0, 1000, category="user_annotation")
CALLS = (
    STEP,
    Call("forward", 100, 400, category="user_annotation"),
    Call(
        "aten::mm", 150, 250, overload="out", rest='"Input Dims": [[2, 3]], "Input type": ["float"]'
    ),
    Call("aten::mm", 300, 350, track=1),
    Call("MmBackward0", 500, 600, flags=SliceFlags.BACKWARD),
)


MATMUL = (
    Call("layer", 0, 20, category="module"),
    Call(
        "aten::mm",
        5,
        15,
        rest='"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]',
    ),
)


@pytest.fixture
def events() -> EventList:
    return EventList(trace_of_calls(CALLS, start_ns=-50_000))


def test_events_are_a_sequence_in_time_order(events: EventList) -> None:
    assert len(events) == 5
    assert [e.name for e in events] == [
        "ProfilerStep*", "forward", "aten::mm", "aten::mm", "MmBackward0",
    ]  # fmt: skip
    assert events[-1].name == "MmBackward0"
    assert [e.id for e in events[1:3]] == [2, 3]
    assert events[2] in events
    assert events[2] == events[-3]
    assert events.index(events[3]) == 3
    with pytest.raises(IndexError, match="event 5 of 5"):
        events[5]


def test_the_text_of_a_list_is_its_table(events: EventList) -> None:
    assert str(events) == events.table()
    assert repr(events) == "<EventList of 5 events>"


def test_an_event_knows_what_torchs_knows(events: EventList) -> None:
    mm = events[2]
    assert (mm.id, mm.name, mm.trace_name, mm.key, mm.overload_name) == (
        3, "aten::mm", "aten::mm", "aten::mm", "out",
    )  # fmt: skip
    assert (mm.time_range.start, mm.time_range.end, mm.time_range.elapsed_us()) == (200, 300, 100)
    assert (mm.cpu_time_total, mm.self_cpu_time_total, mm.cpu_time, mm.count) == (100, 100, 100, 1)
    assert (mm.device_time_total, mm.self_device_time_total, mm.device_time) == (0, 0, 0)
    assert (mm.cpu_time_str, mm.cpu_time_total_str) == ("100.000us", "100.000us")
    assert (mm.self_cpu_time_total_str, mm.device_time_str) == ("100.000us", "0.000us")
    assert (mm.thread, mm.fwd_thread, mm.sequence_nr, mm.scope) == (1, 0, -1, 0)
    assert (mm.device_index, mm.device_resource_id, mm.use_device) == (10, 20, None)
    assert (mm.input_shapes, mm.input_dtypes, mm.concrete_inputs) == ([[2, 3]], ["float"], [])
    assert (mm.kwinputs, mm.kernels, mm.stack, mm.flops) == ({}, [], [], 0)
    assert (mm.is_async, mm.is_remote, mm.is_legacy, mm.node_id) == (False, False, False, -1)
    assert (mm.is_user_annotation, mm.is_python_function) == (False, False)
    assert (mm.cpu_memory_usage, mm.self_device_memory_usage) == (0, 0)
    assert mm.device_type.name == "CPU"
    assert mm.activity_type == "cpu_op"
    assert mm.external_id == 3


def test_steps_keep_their_number_in_the_trace_name(events: EventList) -> None:
    assert events[0].name == events[0].key == "ProfilerStep*"
    assert events[0].trace_name == "ProfilerStep#2"


def test_scopes_have_torchs_numbers(events: EventList) -> None:
    assert [e.scope for e in events] == [7, 7, 0, 0, 1]


def test_nesting_can_be_walked_both_ways(events: EventList) -> None:
    step, forward, mm, other_thread, backward = events
    assert step.cpu_children == [forward, backward]
    assert forward.cpu_children == [mm]
    assert mm.cpu_parent == forward
    assert forward.cpu_parent == step
    assert step.cpu_parent is None
    assert other_thread.cpu_parent is None
    assert mm.cpu_children == []


def test_folded_and_hidden_calls_are_not_in_the_tree() -> None:
    calls = [Call("a", 0, 100), Call("a", 10, 90), Call("[memory]", 20, 30), Call("b", 40, 50)]
    a, b = EventList(trace_of_calls(calls))
    assert a.cpu_children == [b]
    assert b.cpu_parent == a
    assert b.id == 4


def test_averages_know_what_torchs_know(events: EventList) -> None:
    mm = events.key_averages()[2]
    assert (mm.key, mm.count, mm.cpu_time_total, mm.cpu_time) == ("aten::mm", 2, 150, 75)
    assert (mm.input_shapes, mm.overload_name, mm.stack) == ("", "", [])
    assert mm.cpu_parent == events[1]
    assert [child.name for child in events.key_averages()[0].cpu_children] == [
        "forward",
        "MmBackward0",
    ]
    assert events.key_averages().self_cpu_time_total == events.self_cpu_time_total == 1050
    assert "key=aten::mm self_cpu_time=150.000us cpu_time=75.000us" in repr(mm)


@pytest.mark.parametrize("spelling", ["group_by_input_shapes", "group_by_input_shape"])
def test_both_spellings_group_by_shapes(events: EventList, spelling: str) -> None:
    groups = events.key_averages(**{spelling: True})
    assert [(g.key, g.input_shapes) for g in groups if g.key == "aten::mm"] == [
        ("aten::mm", [[2, 3]]),
        ("aten::mm", []),
    ]


def test_the_total_is_one_average(events: EventList) -> None:
    for total in (events.total_average(), events.key_averages().total_average()):
        assert (total.key, total.count) == ("Total", 5)
        assert (total.cpu_time_total, total.self_cpu_time_total) == (1550, 1050)


@pytest.mark.parametrize("old", ["cuda_time", "cuda_time_total", "self_cuda_time_total"])
def test_old_names_work_with_a_warning(events: EventList, old: str) -> None:
    with pytest.warns(FutureWarning, match=f"`{old}` is deprecated"):
        assert getattr(events[0], old) == 0
    with pytest.warns(FutureWarning, match=old.replace("cuda", "device")):
        assert getattr(events.key_averages()[0], old) == 0


def test_an_operator_knows_the_kernels_it_launched() -> None:
    op, launch, kernel = EventList(
        trace_of_calls(
            [
                Call("op", 0, 100),
                Call("cudaLaunchKernel", 20, 30, category="cuda_runtime", correlation=5),
                Call("kernel", 200, 260, category="kernel", track=2, correlation=5),
            ]
        )
    )
    assert [tuple(k) for k in op.kernels] == [("kernel", 10, 60.0)]
    assert launch.kernels == kernel.kernels == []
    assert (op.use_device, kernel.use_device) == ("cuda", "cuda")
    assert (op.device_type.name, kernel.device_type.name) == ("CPU", "CUDA")
    assert (kernel.cpu_time_total, kernel.device_time_total) == (0, 60)
    assert kernel.device_resource_id == 22


def test_scalar_inputs_are_values(events: EventList) -> None:
    texts = ["", "0", "2.", "False", "[2, 3]", "nan", "cpu", "[", "1e400"]
    rest = f'"Concrete Inputs": {json.dumps(texts)}'
    (event,) = EventList(trace_of_calls([Call("op", 0, 1, rest=rest)]))
    values = event.concrete_inputs
    assert values[:5] == [None, 0, 2.0, False, [2, 3]]
    assert math.isnan(values[5])
    assert values[6:] == ["cpu", "[", math.inf]


def test_lists_of_tensors_have_structured_shapes() -> None:
    dims = "[[[3, 4], [3, 4]], [5]]"
    rest = f'"Input Dims": {dims}, "Input Strides": [[[4, 1], [4, 1]], [1]]'
    (event,) = EventList(trace_of_calls([Call("aten::cat", 0, 1, rest=rest)]))
    assert event.input_shapes == [[], [5]]
    assert event.structured_input_shapes == [[[3, 4], [3, 4]], [5]]
    assert event.structured_input_strides == [[[4, 1], [4, 1]], [1]]


def test_lists_and_elements_can_be_copied(events: EventList) -> None:
    averages = events.key_averages(group_by_input_shape=True)
    for duplicate in (copy.copy, copy.deepcopy):
        assert duplicate(events).table() == events.table()
        assert duplicate(averages).table() == averages.table()
        assert [e.name for e in duplicate(events[1]).cpu_children] == ["aten::mm"]


def test_lists_and_elements_can_be_pickled(events: EventList) -> None:
    assert pickle.loads(pickle.dumps(events)).table() == events.table()
    averages = events.key_averages()
    loaded: Any = pickle.loads(pickle.dumps(averages))
    assert loaded.table() == averages.table()
    assert [child.name for child in loaded[1].cpu_children] == ["aten::mm"]
    flops = EventList(trace_of_calls(MATMUL), with_flops=True, modules=True)
    assert pickle.loads(pickle.dumps(flops)).table() == flops.table()
    assert "Total FLOPs" in flops.table()
    assert len(flops) == 2
    assert pickle.loads(pickle.dumps(events[2])).cpu_parent.name == "forward"


def test_stacks_are_refused_with_the_way_out(events: EventList) -> None:
    with pytest.raises(UnsupportedError, match="export_chrome_trace"):
        events.export_stacks("stacks.txt", "self_cpu_time_total")


def test_results_need_neither_torch_nor_polars() -> None:
    program = (
        "import sys; sys.path.insert(0, 'tests/support')\n"
        "from made_trace import Call, trace_of_calls\n"
        "from stepscope.frameworks.torch.dialect.event_lists import EventList\n"
        "events = EventList(trace_of_calls([Call('a', 0, 10)]))\n"
        "assert events.key_averages().table()\n"
        "assert repr(events[0].device_type) == '<DeviceType.CPU: 0>', events[0].device_type\n"
        "assert not {'torch', 'polars'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
