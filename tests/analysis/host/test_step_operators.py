"""The first table: what ran in an average step, or in the run."""

from __future__ import annotations

from made_trace import Call, trace_of_calls
from stepscope.analysis.host.step_operators import step_operators


def test_tasks_that_take_turns_on_a_thread_last_as_long_as_one_of_them_ran() -> None:
    tasks = [Call("handle", 10 + i, 110 + i, "user_annotation") for i in range(8)]
    rows = step_operators(trace_of_calls([Call("serve", 0, 1000, "user_annotation"), *tasks]))
    assert rows.name == ("handle",)  # "serve" is the whole run
    assert rows.calls.tolist() == [8]
    assert rows.total_ns.tolist() == rows.self_ns.tolist() == [107_000]


def test_calls_on_several_threads_add_up() -> None:
    calls = [Call("load", 0, 100, "user_annotation", track) for track in range(3)]
    assert step_operators(trace_of_calls(calls)).total_ns.tolist() == [300_000]
