"""What a finding advises fits the program: its framework, its trainer, its event loop."""

from __future__ import annotations

import pytest

from host_findings import assert_found, finding_of, spend, training
from stepscope.trace.model import ThreadState, WaitReason
from training_program import LOOP, MIB, MS, STEPS, Program

TRAINER = (*LOOP, "transformers/trainer.py(9): Trainer._inner_training_loop")
LOADER = "torch/utils/data/dataloader.py(1): _BaseDataLoaderIter.__next__"
HANDLES = (*LOOP, "asyncio/events.py(80): Handle._run")


@pytest.mark.parametrize(
    ("caller", "call"),
    [
        (LOOP, "DataLoader(..., num_workers="),
        (TRAINER, "TrainingArguments(..., dataloader_num_workers="),
    ],
)
def test_the_loader_of_a_trainer_has_other_arguments(caller: tuple[str, ...], call: str) -> None:
    program = training(spend((*caller, LOADER), ThreadState.PYTHON, 50 * MS))
    finding = finding_of(program, "data-loading")
    assert finding is not None
    assert call in finding.fix


@pytest.mark.parametrize(("caller", "blocks"), [(LOOP, False), (HANDLES, True)])
def test_a_sleep_in_a_coroutine_blocks_the_event_loop(
    caller: tuple[str, ...], blocks: bool
) -> None:
    sleeps = (*caller, "train.py(5): handle")

    def sleep(program: Program) -> None:
        program.sample(sleeps, ThreadState.BLOCKED, 50 * MS, wait=WaitReason.SLEEP)

    finding = assert_found(training(sleep), "waiting-sleep", "train.py:5", 50 * MS)
    assert ("blocks the event loop" in finding.title) == blocks
    assert ("asyncio.sleep()" in finding.fix) == blocks


def test_work_in_a_few_steps_is_not_work_in_every_step() -> None:
    program = Program()
    for number in range(STEPS):
        if number in (4, 9, 14):
            program.sample(
                (*LOOP, "train.py(5): pause"), ThreadState.BLOCKED, 100 * MS, wait=WaitReason.SLEEP
            )
        program.step()
    finding = finding_of(program, "waiting-sleep")
    assert finding is not None
    assert f"In 3 of {STEPS - 1} steps, 100 ms" in finding.text
    assert "of every step" not in finding.text


def test_growth_states_no_gain_of_time() -> None:
    program = Program()
    for number in range(STEPS):
        program.resident(500 * MIB + 10 * MIB * number)
        program.step()
    finding = finding_of(program, "memory-growth")
    assert finding is not None
    assert "Would save" not in finding.text
    assert finding.saves_ns == 0
