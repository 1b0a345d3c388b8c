"""What a framework registers of its code is known to every analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepscope.analysis.base.landmarks import LANDMARKS, Landmarks, landmarks
from stepscope.analysis.code.own_lines import Place, is_own_file
from stepscope.analysis.code.sampled_stacks import SampledStack
from stepscope.analysis.steps.causes import Cause, cause_of_stack, phase_of_stack

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE = Place("train.py", 7, "main")
ACME = Landmarks(
    packages=frozenset({"acme"}),
    loaders=("acme/data.py",),
    backward=(("acme/tape.py", frozenset({"gradient"})),),
    savers=(("acme/files.py", frozenset({"save"})),),
)


@pytest.fixture
def _acme() -> Iterator[None]:
    entry = LANDMARKS.register(lambda: ACME)
    yield
    LANDMARKS.unregister(entry)


def stack(*beyond: Place) -> SampledStack:
    return SampledStack((LINE, *beyond), (LINE,), beyond, "", "acme")


@pytest.mark.usefixtures("_acme")
def test_a_framework_from_outside_is_known() -> None:
    assert not is_own_file("acme/tape.py")
    assert phase_of_stack(stack(Place("acme/data.py", 3, "Batches.__next__"))) is Cause.DATA_LOADING
    assert phase_of_stack(stack(Place("acme/tape.py", 3, "Tape.gradient"))) is Cause.BACKWARD
    assert phase_of_stack(stack(Place("acme/tape.py", 3, "Tape.watch"))) is None
    assert cause_of_stack(stack(Place("acme/files.py", 3, "save"))) is Cause.CHECKPOINT


def test_what_nobody_has_registered_is_the_programs_own() -> None:
    assert is_own_file("acme/tape.py")
    assert phase_of_stack(stack(Place("acme/data.py", 3, "Batches.__next__"))) is None


def test_every_framework_has_registered_its_own() -> None:
    assert {"torch", "paddle", "jax", "transformers"} <= landmarks().packages
    assert {"torch", "paddle"} == landmarks().with_operators


@pytest.mark.parametrize("printed_by", ["torch/_tensor_str.py", "paddle/tensor/to_string.py"])
def test_a_tensor_that_is_printed(printed_by: str) -> None:
    assert cause_of_stack(stack(Place(printed_by, 3, "to_string"))) is Cause.TENSOR_TEXT
