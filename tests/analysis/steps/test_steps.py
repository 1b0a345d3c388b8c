"""Where one step of a loop ends and the next begins."""

from __future__ import annotations

from made_trace import Call, trace_of_calls
from stepscope.analysis.steps.steps import step_table


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


def test_nothing_to_go_by_gives_no_steps() -> None:
    assert len(step_table(trace_of_calls([Call("a", 0, 10)]))) == 0
    assert len(step_table(trace_of_calls([]))) == 0
