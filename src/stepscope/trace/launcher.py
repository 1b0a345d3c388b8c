"""This process's place in a job, as whoever started it says in the environment."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Who sets the variables of rank, world size, local rank and local world size.
_VARIABLES = (
    ("environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("paddle", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_RANK_IN_NODE", ""),
    *(
        ("mpi", f"{name}_RANK", f"{name}_SIZE", f"{name}_LOCAL_RANK", f"{name}_LOCAL_SIZE")
        for name in ("OMPI_COMM_WORLD", "MV2_COMM_WORLD")
    ),
    ("mpi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", ""),
    ("flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""),
    # A batch script itself has a SLURM_PROCID, but is no task of a step.
    ("slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)  # fmt: skip
_NO_ID = "none"  # torchrun's, where the user gave none

run_id_given = ""
"""The run that `stepscope run` in a parent process has made this process a part of."""


@dataclass(frozen=True, slots=True)
class Place:
    """A rank of a job."""

    rank: int
    world_size: int
    local_rank: int | None = None
    local_world_size: int | None = None
    launcher: str = ""
    is_on_many_hosts: bool = False


place_given: Place | None = None
"""The place that the program itself has given this process, a child of its own."""


def place_of_process(environ: Mapping[str, str] = os.environ) -> Place | None:
    """Return the place that the environment names; None for a process on its own."""
    if place_given is not None:
        return place_given
    for launcher, *names in _VARIABLES:
        rank, world, local_rank, local_world = (_number(environ.get(name, "")) for name in names)
        if rank is None or world is None or not 0 <= rank < world:
            continue
        if launcher == "environment" and "TORCHELASTIC_RUN_ID" in environ:
            launcher = "torchrun"  # noqa: PLW2901
        spread = _is_spread(world, local_world, environ)
        return Place(rank, world, local_rank, local_world, launcher, spread)
    return None


def _is_spread(world: int, local_world: int | None, environ: Mapping[str, str]) -> bool:
    hosts = _number(environ.get("SLURM_STEP_NUM_NODES", ""))
    if hosts is not None:
        return hosts > 1
    return local_world is not None and local_world < world


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None


def run_id() -> str:
    """Return what all processes of this run have in common, and no other run has."""
    if run_id_given:
        return run_id_given
    shared = shared_id()
    parent = f"{socket.gethostname()}-{os.getppid()}-{launched_at_ns()}"
    return shared if shared is not None else parent


def shared_id(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the launcher's own number of this run, which its processes on all hosts have."""
    elastic = environ.get("TORCHELASTIC_RUN_ID", _NO_ID)
    if elastic != _NO_ID:
        restart = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return elastic if restart == "0" else f"{elastic}-restart{restart}"
    if "SLURM_STEP_ID" in environ and "SLURM_JOB_ID" in environ:
        return f"slurm-{environ['SLURM_JOB_ID']}.{environ['SLURM_STEP_ID']}"
    for name in ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "FLUX_JOB_ID"):
        if environ.get(name):
            return environ[name]
    return None


def job_name(environ: Mapping[str, str] = os.environ) -> str:
    """Return what people call the job that this process is part of; empty where there is none.

    Unlike a run's id it stays over restarts, and is that of all steps of a Slurm job.
    """
    given = environ.get("STEPSCOPE_JOB", "")
    if given.startswith("{"):  # what `stepscope run` tells the processes that a program starts
        given = run_id_given
    names = (given, environ.get("TORCHELASTIC_RUN_ID"), environ.get("SLURM_JOB_ID"))
    return next((each for each in names if each and each != _NO_ID), shared_id(environ) or "")


def launched_at_ns() -> int:
    """Return the Unix time at which our parent process was started: that of a launcher on one host.

    It is ours where the system does not say.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        words = Path(f"/proc/{os.getppid()}/stat").read_text("utf-8", "replace").rpartition(")")[2]
        ticks = int(words.split()[19])  # since the system was started
        booted = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text("ascii").splitlines()
            if line.startswith("btime ")
        )
        return booted * 10**9 + ticks * 10**9 // os.sysconf("SC_CLK_TCK")
    return time.time_ns()


def described(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``distributedInfo``: what a framework has told, and what the launcher says."""
    place = place_of_process()
    if place is None and not told:
        return {}
    by_launcher: dict[str, Any] = {}
    if place is not None:
        by_launcher = {
            "rank": place.rank,
            "world_size": place.world_size,
            "local_rank": place.local_rank,
            "local_world_size": place.local_world_size,
            "launcher": place.launcher,
        }
    known = {key: value for key, value in by_launcher.items() if value is not None}
    return {**known, **told, "run_id": run_id()}
