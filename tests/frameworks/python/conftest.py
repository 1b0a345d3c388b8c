"""Tests of Python's calls begin with frames evaluated by Python itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import python_frames
from python_frames import DEFAULT_EVALUATOR, MONITORED, evaluator, set_evaluator

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _python_evaluates_frames() -> None:
    """Undo what others left: torch.compile stays the evaluator after an error in the compiler."""
    if not MONITORED and evaluator() != DEFAULT_EVALUATOR:
        set_evaluator(DEFAULT_EVALUATOR)


@pytest.fixture
def no_calls_left_on() -> Iterator[None]:
    with python_frames.no_calls_left_on():
        yield
