"""The Python frames of events: from our recordings, from python_function slices, and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from made_trace import Call, trace_of_calls
from stepscope.analysis.code.stacks import stack_of_slices
from stepscope.frameworks.torch.dialect.event_lists import EventList
from stepscope.trace.model import SliceFlags

if TYPE_CHECKING:
    from collections.abc import Sequence

MAIN = ("train.py(9): main", "train.py(1): <module>")
STEP = ("model.py(4): forward", *MAIN)
ENGINE = "autograd::engine::evaluate_function: "


def stacks(calls: Sequence[Call], **trace: Any) -> dict[str, list[str]]:
    """Return the stack of every event by its name."""
    return {event.name: event.stack for event in EventList(trace_of_calls(calls, **trace))}


def frame(name: str, start: int, end: int, track: int = 0) -> Call:
    return Call(name, start, end, category="python_function", track=track)


def test_a_trace_without_stacks_has_none() -> None:
    calls = [Call("a", 0, 10)]
    assert stack_of_slices(trace_of_calls(calls)) is None
    assert stacks(calls) == {"a": []}
    assert len(EventList(trace_of_calls(calls)).key_averages(group_by_stack_n=3)) == 1


def test_recorded_stacks_are_shown_innermost_first() -> None:
    assert stacks([Call("a", 0, 10, stack=STEP), Call("b", 20, 30, stack=MAIN)]) == {
        "a": list(STEP),
        "b": list(MAIN),
    }


def test_what_an_operator_calls_has_its_stack() -> None:
    stack_rows = stacks([Call("a", 0, 100, stack=STEP), Call("b", 10, 90), Call("c", 20, 30)])
    assert stack_rows["b"] == stack_rows["c"] == list(STEP)


def test_what_runs_in_a_range_does_not_stand_where_the_range_began() -> None:
    around = Call("range", 0, 100, category="user_annotation", stack=MAIN)
    stack_rows = stacks([around, Call("op", 10, 20), Call("told", 30, 40, stack=STEP)])
    assert stack_rows == {"range": list(MAIN), "op": [], "told": list(STEP)}


def test_python_slices_are_the_frames_of_what_starts_in_them() -> None:
    stack_rows = stacks(
        [
            frame("main", 0, 100),
            frame("step", 10, 90),
            Call("outer", 20, 60),
            Call("inner", 30, 40),
            Call("other thread", 30, 40, track=1),
            frame("late", 95, 99),
        ]
    )
    assert stack_rows == {
        "main": [],
        "step": ["main"],
        "outer": ["step", "main"],
        "inner": ["step", "main"],
        "other thread": [],
        "late": ["main"],
    }


def test_a_range_over_several_frames_hides_none_of_them() -> None:
    """``record_function`` begins in its ``__enter__`` and ends long after that has returned."""
    stack_rows = stacks(
        [
            frame("step", 0, 100),
            frame("__enter__", 10, 20),
            Call("range", 15, 80, category="user_annotation"),
            frame("forward", 30, 70),
            Call("op", 40, 50),
        ]
    )
    assert stack_rows["range"] == ["__enter__", "step"]
    assert stack_rows["op"] == ["forward", "step"]
    assert stack_rows["forward"] == ["step"]


def test_a_recorded_stack_counts_more_than_python_slices() -> None:
    stack_rows = stacks([frame("step", 0, 100), Call("a", 10, 20, stack=STEP), Call("b", 30, 40)])
    assert (stack_rows["a"], stack_rows["b"]) == (list(STEP), ["step"])


BACKWARD = (
    Call(
        "load", 0, 5, stack=MAIN, sequence=7
    ),  # needs no gradient: takes the number, makes no node
    Call("linear", 10, 30, stack=STEP, sequence=7),
    Call("t", 12, 14, sequence=7),
    Call("addmm", 15, 29, sequence=8),
    Call(f"{ENGINE}TBackward0", 100, 200, sequence=7, forward_thread=1, track=1),
    Call("TBackward0", 110, 190, sequence=7, forward_thread=1, track=1, flags=SliceFlags.BACKWARD),
    Call("transpose", 120, 130, track=1),
    Call("Unseen", 210, 220, sequence=3, forward_thread=1, track=1, flags=SliceFlags.BACKWARD),
)


def test_backward_functions_show_where_their_forward_operator_was_called() -> None:
    stack_rows = stacks(BACKWARD)
    assert stack_rows["TBackward0"] == stack_rows["transpose"] == list(STEP)
    assert stack_rows[f"{ENGINE}TBackward0"] == []
    assert stack_rows["Unseen"] == []


def test_foreign_traces_tell_neither_backward_functions_nor_threads_by_number() -> None:
    """There, what the engine's slice for X calls by X is one, and sequence numbers find threads."""
    calls = [
        frame("step", 0, 100),
        Call("mul", 10, 20, sequence=7, forward_thread=0),
        frame("other step", 0, 100, track=2),
        Call("div", 10, 20, sequence=7, forward_thread=0, track=2),
        Call("exp", 30, 40, sequence=9, forward_thread=0, track=2),
        Call(f"{ENGINE}MulBackward0", 200, 250, sequence=7, forward_thread=1, track=1),
        Call("MulBackward0", 210, 240, sequence=7, forward_thread=1, track=1),
        Call(f"{ENGINE}DivBackward0", 300, 350, sequence=7, forward_thread=2, track=1),
        Call("DivBackward0", 310, 340, sequence=7, forward_thread=2, track=1),
        Call(f"{ENGINE}ExpBackward0", 400, 450, sequence=9, forward_thread=2, track=1),
        Call("ExpBackward0", 410, 440, sequence=9, forward_thread=2, track=1),
    ]
    events = {e.name: e for e in EventList(trace_of_calls(calls, logical_ids=False))}
    assert events["MulBackward0"].stack == ["step"]
    assert events["DivBackward0"].stack == events["ExpBackward0"].stack == ["other step"]
    assert (events["MulBackward0"].scope, events[f"{ENGINE}MulBackward0"].scope) == (1, 0)


def test_processes_of_a_merged_trace_keep_to_themselves() -> None:
    flags = SliceFlags.BACKWARD
    stack_rows = stacks(
        [
            Call("mul", 0, 5, stack=("rank 0",), sequence=7),
            Call("div", 0, 5, stack=("rank 1",), sequence=7, track=1),
            Call("MulBackward0", 10, 20, sequence=7, forward_thread=1, flags=flags),
            Call("DivBackward0", 10, 20, sequence=7, forward_thread=1, flags=flags, track=1),
        ],
        pids=["10", "11"],
    )
    assert (stack_rows["MulBackward0"], stack_rows["DivBackward0"]) == (["rank 0"], ["rank 1"])


def test_frames_of_autograd_itself_are_left_out_as_torch_does() -> None:
    frames = ("torch/autograd/__init__.py(255): backward", "torch/_tensor.py(566): backward", *MAIN)
    assert stacks([Call("a", 0, 10, stack=frames)])["a"] == list(frames[1:])


def test_device_work_has_the_stack_of_its_launch() -> None:
    stack_rows = stacks(
        [
            Call("op", 0, 100, stack=STEP),
            Call("cudaLaunchKernel", 20, 30, category="cuda_runtime", correlation=5),
            Call("kernel", 200, 260, category="kernel", track=1, correlation=5),
        ]
    )
    assert stack_rows["kernel"] == stack_rows["cudaLaunchKernel"] == list(STEP)


def test_averages_are_told_apart_by_the_innermost_frames() -> None:
    events = EventList(
        trace_of_calls(
            [
                Call("mm", 0, 10, stack=STEP),
                Call("mm", 20, 40, stack=("model.py(4): forward", "other.py(2): f")),
                Call("mm", 50, 80, stack=MAIN),
                Call("mm", 90, 94),
            ]
        )
    )
    by_one = events.key_averages(group_by_stack_n=1)
    assert [(a.stack, a.count, a.cpu_time_total) for a in by_one] == [
        (["model.py(4): forward"], 2, 30),
        (["train.py(9): main"], 1, 30),
        ([], 1, 4),
    ]
    by_many = events.key_averages(group_by_stack_n=100)
    assert by_many[0].stack == list(STEP)
    assert len(by_many) == 4
    assert [a.stack for a in events.key_averages()] == [[]]


def test_shapes_and_stacks_tell_apart_together() -> None:
    shapes = ['"Input Dims": [[2, 3]]', '"Input Dims": [[4, 5]]']
    calls = [
        Call("mm", 10 * i, 10 * i + 5, rest=shapes[i // 2 % 2], stack=STEP if i % 2 else MAIN)
        for i in range(8)
    ]
    groups = EventList(trace_of_calls(calls)).key_averages(
        group_by_input_shape=True, group_by_stack_n=2
    )
    assert [(g.input_shapes, g.stack, g.count) for g in groups] == [
        ([[2, 3]], list(MAIN), 2),
        ([[2, 3]], list(STEP[:2]), 2),
        ([[4, 5]], list(MAIN), 2),
        ([[4, 5]], list(STEP[:2]), 2),
    ]


@pytest.mark.parametrize(
    ("width", "first", "second"),
    [
        (75, "model.py(4): forward", "train.py(9): main"),
        (None, "model.py(4): forward", "train.py(9): main"),
        (16, "...y(4): forward", "...n.py(9): main"),
    ],
)
def test_the_table_has_a_line_a_frame(width: int | None, first: str, second: str) -> None:
    events = EventList(trace_of_calls([Call("a", 0, 10, stack=STEP), Call("b", 20, 30)]))
    table = events.key_averages(group_by_stack_n=2).table(max_src_column_width=width)
    lines = table.splitlines()
    place = lines[1].index("Source Location")
    column = min(24, width or 24)  # the longest frame and four more
    assert [line[place : place + column].rstrip() for line in lines[3:8]] == [
        first, second, "", "", "",
    ]  # fmt: skip
    assert [line[:10].split() for line in lines[3:8]] == [["a"], [], [], ["b"], []]
    assert len({len(line) for line in lines[:9]}) == 1


def test_flops_stand_under_their_own_header_beside_stacks() -> None:
    """torch.profiler 2.13 swaps the two columns."""
    mm = '"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]'
    events = EventList(
        trace_of_calls([Call("aten::mm", 0, 10, stack=STEP, rest=mm), Call("b", 20, 30)]),
        with_flops=True,
    )
    lines = events.key_averages(group_by_stack_n=1).table().splitlines()
    assert lines[1].endswith("  Source Location            Total FLOPs  ")
    assert lines[3].endswith("  model.py(4): forward            48.000  ")
    assert lines[5].endswith("                                      --  ")
