"""Schedulers: make_scheduler, pairs of steps, functions, and what is none of them."""

from __future__ import annotations

import warnings
from enum import Enum
from typing import Any

import pytest

import stepscope
from stepscope.paddle import Profiler, ProfilerState, make_scheduler

CODE = {"C": "CLOSED", "R": "READY", "REC": "RECORD", "RET": "RECORD_AND_RETURN"}


def states(words: str) -> list[ProfilerState]:
    return [ProfilerState[CODE[word]] for word in words.split()]


def run_of(scheduler: Any, steps: int) -> list[ProfilerState]:
    return [scheduler(step) for step in range(steps)]


def scheduler_of(scheduler: Any) -> Any:
    return Profiler(scheduler=scheduler, on_trace_ready=lambda prof: None).scheduler


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"closed": 1, "ready": 2, "record": 3, "repeat": 1}, "C R R REC REC RET C C C"),
        ({"closed": 1, "ready": 3, "record": 3, "repeat": 3}, "C R R R REC REC RET C R R R"),
        ({"closed": 1, "ready": 1, "record": 4, "skip_first": 1}, "C C R REC REC REC RET C R"),
    ],
)
def test_make_scheduler_gives_the_states_of_the_contract(
    arguments: dict[str, int], expected: str
) -> None:
    wanted = states(expected)
    assert run_of(make_scheduler(**arguments), len(wanted)) == wanted


def test_the_first_return_of_1_3_3_is_step_6_and_not_5_as_paddle_documents() -> None:
    scheduler = make_scheduler(closed=1, ready=3, record=3, repeat=3)
    assert run_of(scheduler, 12).index(ProfilerState.RECORD_AND_RETURN) == 6


def test_repeat_ends_the_cycles() -> None:
    scheduler = make_scheduler(closed=0, ready=1, record=1, repeat=2)
    assert run_of(scheduler, 6) == states("R RET R RET C C")


@pytest.mark.parametrize(
    "wrong", [{"record": 0}, {"closed": -1}, {"ready": -1}, {"repeat": -1}, {"skip_first": -2}]
)
def test_wrong_arguments_are_an_assertion_error_that_names_them(wrong: dict[str, int]) -> None:
    arguments = {"closed": 1, "ready": 1, "record": 1, **wrong}
    ((name, value),) = wrong.items()
    message = f"Invalid profiler scheduler arguments: {name}={value}"
    with pytest.raises(AssertionError, match=message):
        make_scheduler(**arguments)


def test_ready_0_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="ready=0") as caught:
        make_scheduler(closed=1, ready=0, record=1)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_negative_step_is_an_assertion_error() -> None:
    scheduler = make_scheduler(closed=1, ready=1, record=1)
    with pytest.raises(AssertionError, match="-1"):
        scheduler(-1)


# ---- the pair (a, b): steps a to b-1 are recorded


@pytest.mark.parametrize("pair", [(5, 9), [5, 9], (1, 2), (2, 10)])
def test_a_pair_equals_the_scheduler_of_the_contract(pair: Any) -> None:
    first, end = pair
    same = make_scheduler(closed=first - 1, ready=1, record=end - first, repeat=1)
    assert run_of(scheduler_of(pair), 12) == run_of(same, 12)


@pytest.mark.parametrize("pair", [(0, 3), (-4, 3)])
def test_a_pair_from_0_on_records_at_once(pair: Any) -> None:
    with pytest.warns(UserWarning, match="ready=0"):
        scheduler = scheduler_of(pair)
    assert run_of(scheduler, 5) == states("REC REC RET C C")


@pytest.mark.parametrize("pair", [(3, 3), (4, 3), (-2, 0), (-3, -1)])
def test_a_pair_that_records_nothing_is_an_error(pair: Any) -> None:
    with pytest.raises(ValueError, match="records nothing") as caught:
        scheduler_of(pair)
    assert repr(pair) in str(caught.value)


@pytest.mark.parametrize("pair", [(), (1,), (1, 2, 3), (1.5, 3), ("1", "2"), (None, 3)])
def test_what_is_no_pair_of_whole_numbers_is_an_error(pair: Any) -> None:
    with pytest.raises(ValueError, match=r"\(first, end\)") as caught:
        scheduler_of(pair)
    assert repr(pair) in str(caught.value)


@pytest.mark.parametrize("scheduler", [3, "5,9", {5, 9}, object()])
def test_anything_else_is_a_type_error_that_names_it(scheduler: Any) -> None:
    with pytest.raises(TypeError, match="scheduler=") as caught:
        scheduler_of(scheduler)
    assert repr(scheduler) in str(caught.value)


def test_without_a_scheduler_every_step_is_recorded() -> None:
    assert run_of(scheduler_of(None), 3) == states("REC REC REC")


# ---- functions


def test_a_function_is_taken_as_it_is() -> None:
    def mine(step: int) -> ProfilerState:
        return ProfilerState.CLOSED

    assert scheduler_of(mine) is mine


def test_a_function_may_return_another_enum_of_that_name() -> None:
    """As paddle.profiler.make_scheduler does."""
    theirs = Enum("ProfilerState", {"CLOSED": 0, "READY": 1, "RECORD": 2, "RECORD_AND_RETURN": 3})
    prof = Profiler(scheduler=lambda step: theirs["READY"], on_trace_ready=print)
    assert prof.current_state is ProfilerState.READY
    assert prof.current_state == theirs["READY"]
    assert theirs["READY"] == prof.current_state
    assert {theirs["READY"]: 1}[prof.current_state] == 1  # type: ignore[index]


def test_a_function_may_return_the_actions_of_the_other_dialect() -> None:
    schedule = stepscope.schedule(wait=1, warmup=1, active=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prof = Profiler(scheduler=schedule, on_trace_ready=print)
    assert prof.current_state is ProfilerState.CLOSED


@pytest.mark.parametrize("wrong", [2, "RECORD", None, True])
def test_a_function_that_returns_something_else_is_a_clear_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="step 0: it must return a ProfilerState") as caught:
        Profiler(scheduler=lambda step: wrong)
    assert repr(wrong) in str(caught.value)
