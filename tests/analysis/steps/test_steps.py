"""Where one step of a loop ends and the next begins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from made_trace import Call, trace_of_calls
from stepscope.analysis.steps.steps import StepsBy, steady_steps, step_table
from stepscope.trace.keys import MODEL_ID
from stepscope.trace.model import PRODUCER, Args, IntColumn


def marked(number: int, start: int, end: int) -> Call:
    return Call(f"ProfilerStep#{number}", start, end, category="user_annotation")


def optimizer(name: str, start: int, end: int, category: str = "user_annotation") -> Call:
    return Call(f"Optimizer.step#{name}.step", start, end, category=category)


def test_marked_steps_keep_their_numbers() -> None:
    steps = step_table(trace_of_calls([marked(3, 10, 30), Call("a", 12, 20), marked(4, 30, 70)]))
    assert steps.number.tolist() == [3, 4]
    assert steps.start_ns.tolist() == [10_000, 30_000]
    assert steps.duration_ns.tolist() == [20_000, 40_000]


def test_marks_win_over_optimizers() -> None:
    steps = step_table(trace_of_calls([marked(3, 10, 30), optimizer("SGD", 12, 20)]))
    assert steps.number.tolist() == [3]


def test_without_marks_a_step_ends_where_the_optimizers_does() -> None:
    calls = [
        Call("a", 10, 20),
        optimizer("SGD", 20, 30),
        Call("a", 40, 50),
        optimizer("SGD", 50, 65),
    ]
    steps = step_table(trace_of_calls([*calls, Call("a", 70, 80)], start_ns=4_000))
    assert steps.number.tolist() == [0, 1]
    assert steps.start_ns.tolist() == [4_000, 30_000]
    assert steps.duration_ns.tolist() == [26_000, 35_000]


def test_the_optimizer_with_the_most_calls_counts() -> None:
    rare, often = optimizer("Adam", 0, 10), [optimizer("SGD", 20, 30), optimizer("SGD", 50, 60)]
    steps = step_table(trace_of_calls([rare, *often]))
    assert (steps.start_ns + steps.duration_ns).tolist() == [30_000, 60_000]


def test_an_optimizers_range_on_the_device_is_not_its_step() -> None:
    on_device = [optimizer("SGD", 15, 40 + i, "gpu_user_annotation") for i in range(3)]
    steps = step_table(trace_of_calls([optimizer("SGD", 0, 10), *on_device]))
    assert steps.duration_ns.tolist() == [10_000]


def range_with_operators(name: str, start: int, end: int, operators: int) -> list[Call]:
    """Return an optimizer's call with some operators in it."""
    inside = [Call("aten::add_", start + 1 + i, start + 2 + i) for i in range(operators)]
    return [optimizer(name, start, end), *inside]


def test_two_optimizers_that_take_turns_end_one_step_together() -> None:
    calls = []
    for at in range(0, 1_000, 100):
        calls += [
            *range_with_operators("Adam", at + 10, at + 30, 5),
            *range_with_operators("Adam", at + 50, at + 70, 8),
        ]
    steps = step_table(trace_of_calls(calls))
    assert steps.by is StepsBy.OPTIMIZER
    assert steps.end_ns.tolist() == [at * 1000 for at in range(70, 1_000, 100)]


def backward(start: int, functions: int) -> list[Call]:
    """Return a backward pass, as torch.profiler has it."""
    starts = range(start, start + 2 * functions, 2)
    engine = [Call("autograd::engine::evaluate_function: MmBackward0", at, at + 2) for at in starts]
    return [*engine, *(Call("MmBackward0", at, at + 1) for at in starts)]


def test_what_is_done_every_fifth_step_makes_no_turn() -> None:
    calls = []
    for step in range(20):
        calls += [
            *backward(100 * step, 3),
            *range_with_operators("AdamW", 100 * step + 20, 100 * step + 40, 5),
        ]
        if step % 5 == 4:  # a checkpoint
            calls += [
                Call("aten::detach", 100 * step + 50 + i, 100 * step + 51 + i) for i in range(9)
            ]
    assert len(step_table(trace_of_calls(calls))) == 20


def test_equal_optimizers_are_told_apart_by_their_backward_passes() -> None:
    calls = []
    for at in range(0, 1_000, 100):
        calls += [*backward(at, 2), *range_with_operators("Adam", at + 10, at + 30, 5)]
        calls += [*backward(at + 40, 4), *range_with_operators("Adam", at + 50, at + 70, 5)]
    steps = step_table(trace_of_calls(calls))
    assert steps.end_ns.tolist() == [at * 1000 for at in range(70, 1_000, 100)]


def test_paddles_optimizer_ends_a_step() -> None:
    calls = [Call("Optimization Step", at, at + 5, "optimization") for at in (10, 30)]
    steps = step_table(trace_of_calls(calls))
    assert steps.end_ns.tolist() == [15_000, 35_000]


def test_calls_of_the_outermost_module_begin_steps() -> None:
    calls = [Call("Loss", at + 12, at + 13, "module") for at in range(0, 100, 20)]
    calls += [Call("Net", at, at + 10, "module") for at in range(0, 100, 20)]
    calls += [Call("inner", at + 1, at + 9, "module") for at in range(0, 100, 20)]
    steps = step_table(trace_of_calls(calls))
    assert (steps.by, steps.name) == (StepsBy.MODULE, "Net")
    assert steps.start_ns.tolist() == [at * 1000 for at in range(0, 100, 20)]
    assert steps.duration_ns.tolist() == [20_000] * 4 + [10_000]


def test_threads_that_call_one_model_have_steps_of_their_own() -> None:
    calls = [Call("Net", at + t, at + 9, "module", track=t) for t in range(3) for at in (0, 20, 40)]
    calls.append(Call("Net", 0, 90, "module", track=3))  # one call is no loop
    steps = step_table(trace_of_calls(calls))
    assert steps.start_ns.tolist() == [t * 1000 for t in (0, 1, 2, 20, 21, 22, 40, 41, 42)]
    assert steps.track.tolist() == [0, 1, 2] * 3
    assert steps.duration_ns.tolist() == [20_000] * 6 + [9_000, 8_000, 7_000]


def test_threads_that_call_optimizers_have_steps_of_their_own() -> None:
    ends = range(10, 60, 10)
    calls = [replace(optimizer("SGD", at - 5, at + t), track=t) for at in ends for t in (0, 1)]
    steps = step_table(trace_of_calls(calls))
    assert len(steps) == 10
    assert steps.end_ns.tolist()[:4] == [10_000, 11_000, 20_000, 21_000]


def test_another_process_has_no_steps_in_this_ones() -> None:
    calls = [Call("Net", at, at + 9 - t, "module", track=t) for t in (0, 1) for at in (0, 20, 40)]
    steps = step_table(trace_of_calls(calls, pids=("10", "11")))
    assert steps.track.tolist() == [0, 0, 0]


def test_of_two_models_of_one_class_the_larger_one_begins_a_step() -> None:
    models = [(at + 10 * m, at + 13 + 12 * m) for at in range(0, 200, 40) for m in (0, 1)]
    trace = trace_of_calls([Call("Net", start, end, "module") for start, end in models])
    rows = np.arange(10)
    args = Args({MODEL_ID: IntColumn(rows.astype(np.uint32), rows % 2 + 7)}, trace.slices.args.rest)
    steps = step_table(replace(trace, slices=replace(trace.slices, args=args)))
    assert steps.start_ns.tolist() == [at * 1000 for at in range(10, 200, 40)]


def test_the_first_step_begins_when_the_imports_before_the_models_first_call_have_ended() -> None:
    calls = [
        Call("import torch", 10, 400, "user_annotation"),
        Call("import torch._dynamo", 500, 600, "user_annotation"),
        Call("Net", 650, 700, "module"),
        Call("import json", 700, 710, "user_annotation"),
        optimizer("SGD", 800, 900),
    ]
    trace = trace_of_calls(calls)
    steps = step_table(replace(trace, info=replace(trace.info, producer=PRODUCER)))
    assert steps.start_ns.tolist() == [600_000]
    assert steps.duration_ns.tolist() == [300_000]


def test_batches_begin_steps_where_nothing_else_does() -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    calls = [Call(name, at, at + 3, "user_annotation") for at in (0, 10, 20, 30)]
    steps = step_table(trace_of_calls(calls))
    assert steps.by is StepsBy.LOADER
    assert steps.duration_ns.tolist() == [10_000, 10_000, 10_000, 3_000]


def test_requests_are_steps_that_may_overlap() -> None:
    calls = [Call("handle", at, at + 30, "request") for at in (0, 10, 20)]
    steps = step_table(trace_of_calls(calls))
    assert (steps.by, steps.unit) == (StepsBy.REQUEST, "request")
    assert steps.duration_ns.tolist() == [30_000] * 3


def test_what_warms_up_is_not_steady() -> None:
    ends = [100, 150, 170, 190, 210, 230, 250, 270, 290, 310]
    trace = trace_of_calls([optimizer("SGD", end - 5, end) for end in ends])
    assert steady_steps(trace).tolist() == [False, False, *[True] * 8]


def test_nothing_to_go_by_gives_no_steps() -> None:
    assert len(step_table(trace_of_calls([Call("a", 0, 10)]))) == 0
    assert len(step_table(trace_of_calls([]))) == 0
