"""Steps that wait for their data: each planted in a recording that is written down by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from host_findings import (
    LOADER,
    assert_found,
    finding_of,
    spend,
    training,
)
from stepscope.analysis.findings import Severity
from stepscope.trace.model import ThreadState
from training_program import (
    MS,
    Program,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[Program], None]

PYTHON = ThreadState.PYTHON


def loading(ns: int, iterator: str) -> Work:
    def load(program: Program) -> None:
        with program.recorded(f"enumerate(DataLoader)#{iterator}.__next__"):
            program.sample(LOADER, PYTHON, ns)

    return load


@pytest.mark.parametrize(
    ("iterator", "fix"),
    [
        ("_SingleProcessDataLoaderIter", "Load in the background"),
        ("_MultiProcessingDataLoaderIter", "workers do not keep up"),
    ],
)
def test_data_loading_that_the_steps_wait_for(iterator: str, fix: str) -> None:
    program = training(loading(50 * MS, iterator))
    finding = assert_found(program, "data-loading", "train.py:20", 50 * MS)
    assert fix in finding.fix
    assert "--workers" not in finding.fix
    few = finding_of(training(loading(20 * MS, iterator)), "data-loading")
    assert few is not None
    assert few.severity is Severity.LOW
    assert finding_of(training(loading(10 * MS, iterator)), "data-loading") is None


def test_data_loading_that_only_samples_know_of() -> None:
    """Nothing marks a wait where operators are not recorded."""
    finding = assert_found(
        training(spend(LOADER, PYTHON, 50 * MS)), "data-loading", "train.py:20", 50 * MS
    )
    assert finding.evidence["page"] == "source"


@pytest.mark.parametrize("function", ["_MultiProcessingDataLoaderIter.__init__", "_get_iterator"])
def test_workers_that_start_anew_in_each_epoch(function: str) -> None:
    starts = (*LOADER[:-1], f"torch/utils/data/dataloader.py(1): {function}")
    program = training(spend(starts, PYTHON, 50 * MS))
    finding = assert_found(program, "data-loading", "train.py:20", 50 * MS)
    assert ("persistent_workers=True), or, with so" in finding.fix) == ("__init__" in function)


def test_data_loading_by_the_programs_own_code() -> None:

    def load(program: Program) -> None:
        with program.recorded("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            program.sample((*LOADER, "train.py(5): collate"), PYTHON, 20 * MS)

    finding = assert_found(training(load), "data-loading", "train.py:5", 20 * MS)
    assert finding.severity is Severity.LOW
