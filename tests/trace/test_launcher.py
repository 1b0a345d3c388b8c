"""Who started a process, and which rank it is."""

from __future__ import annotations

import pytest

from stepscope.trace.launcher import job_name, place_of_process, shared_id

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
SLURM = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"}, (5, 8, 1, "torchrun")),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1, None, "environment")),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"},
            (2, 4, None, "mpi"),
        ),
        ({"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0"}, (2, 4, 0, "mpi")),
        ({"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2"}, (1, 2, None, "paddle")),
        (SLURM, (3, 4, 1, "slurm")),
    ],
)
def test_a_launcher_names_the_place(
    environment: dict[str, str], expected: tuple[int, int, int | None, str]
) -> None:
    place = place_of_process(environment)
    assert place is not None
    assert (place.rank, place.world_size, place.local_rank, place.launcher) == expected


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RANK": "0"},
        {"RANK": "x", "WORLD_SIZE": "8"},
        {"RANK": "8", "WORLD_SIZE": "8"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"},  # a batch script, of no step
    ],
)
def test_a_process_on_its_own_has_none(environment: dict[str, str]) -> None:
    assert place_of_process(environment) is None


def test_ranks_of_many_hosts_know_it() -> None:
    first = place_of_process({**TORCHRUN, "TORCHELASTIC_RUN_ID": "abc"})
    assert first is not None
    assert first.is_on_many_hosts
    one = place_of_process({**TORCHRUN, "WORLD_SIZE": "4", "RANK": "1"})
    assert one is not None
    assert not one.is_on_many_hosts


def test_a_run_has_the_number_that_its_launcher_gave_it() -> None:
    assert shared_id({"TORCHELASTIC_RUN_ID": "none"}) is None
    assert shared_id({"TORCHELASTIC_RUN_ID": "a"}) == "a"
    again = {"TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "2"}
    assert shared_id(again) == "a-restart2"
    assert shared_id({**SLURM, "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}) == "slurm-7.0"


def test_a_job_has_a_name_that_outlives_its_runs() -> None:
    restarted = {"TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "2"}
    assert job_name(restarted) == "a"
    assert job_name({**SLURM, "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}) == "7"
    assert job_name({"PMIX_NAMESPACE": "prterun-1@1"}) == "prterun-1@1"
    assert job_name({**restarted, "STEPSCOPE_JOB": "mine"}) == "mine"
    assert job_name({"TORCHELASTIC_RUN_ID": "none"}) == job_name({}) == ""
