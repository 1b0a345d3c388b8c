"""Schedules: torch's, action by action."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest

from recording import run_python
from stepscope import ProfilerAction, schedule

STEPS = 24


@pytest.mark.parametrize("wait", [0, 1, 2])
@pytest.mark.parametrize("warmup", [0, 1, 2])
@pytest.mark.parametrize("active", [1, 2, 3])
def test_every_step_is_torchs(wait: int, warmup: int, active: int) -> None:
    profiler = pytest.importorskip("torch.profiler")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for repeat, skip_first, skip_first_wait in itertools.product([0, 1, 2], [0, 1, 3], [0, 1]):
            options = {
                "wait": wait,
                "warmup": warmup,
                "active": active,
                "repeat": repeat,
                "skip_first": skip_first,
                "skip_first_wait": skip_first_wait,
            }
            ours, theirs = schedule(**options), profiler.schedule(**options)
            assert [ours(step).name for step in range(STEPS)] == [
                theirs(step).name for step in range(STEPS)
            ], options


def test_actions_have_torchs_names_and_values() -> None:
    profiler = pytest.importorskip("torch.profiler")
    for action in ProfilerAction:
        assert profiler.ProfilerAction[action.name].value == action.value


def test_a_cycle_reads_as_it_was_written() -> None:
    action = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    assert [action(step).name for step in range(6)] == [
        "NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["wait", "warmup", "repeat", "skip_first", "skip_first_wait"])
def test_a_negative_count_is_named(name: str) -> None:
    options: dict[str, Any] = {"wait": 1, "warmup": 1, "active": 1, name: -1}
    with pytest.raises(AssertionError, match=f"{name}=-1"):
        schedule(**options)


@pytest.mark.parametrize("active", [0, -2])
def test_a_schedule_that_records_nothing_is_refused(active: int) -> None:
    with pytest.raises(AssertionError, match=f"active={active}"):
        schedule(wait=1, warmup=1, active=active)


def test_no_warmup_is_warned_about_where_it_was_written() -> None:
    with pytest.warns(UserWarning, match="warmup") as caught:
        schedule(wait=1, warmup=0, active=1)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_negative_step_is_refused() -> None:
    with pytest.raises(AssertionError, match="-1"):
        schedule(wait=1, warmup=1, active=1)(-1)


def test_arguments_go_by_keyword_only() -> None:
    with pytest.raises(TypeError):
        schedule(1, 1, 1)  # type: ignore[call-arg, misc]


def test_assertions_hold_under_optimisation_too() -> None:
    """The contract's AssertionErrors must not vanish with ``python -O``."""
    done = run_python(
        """
        from stepscope import schedule
        try:
            schedule(wait=1, warmup=1, active=0)
        except AssertionError:
            print("refused")
        """,
        PYTHONOPTIMIZE="1",
    )
    assert done.stdout == "refused\n"
