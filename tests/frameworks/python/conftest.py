"""Tests of Python's calls begin with frames evaluated by Python itself."""

from __future__ import annotations

import pytest

from python_frames import DEFAULT_EVALUATOR, MONITORED, evaluator, set_evaluator


@pytest.fixture(autouse=True)
def _python_evaluates_frames() -> None:
    """Undo what others left: torch.compile stays the evaluator after an error in the compiler."""
    if not MONITORED and evaluator() != DEFAULT_EVALUATOR:
        set_evaluator(DEFAULT_EVALUATOR)
