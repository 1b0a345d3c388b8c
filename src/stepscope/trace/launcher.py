"""This process's place in a job, according to its launcher's environment variables."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.trace.variables import NAMESPACE_VARIABLES, PLACE_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_ID = "none"  # torchrun's value without --rdzv-id

run_id_given = ""
"""The run whose ranks `stepscope run` saves."""


class Place(NamedTuple):
    rank: int
    world_size: int
    local_rank: int | None = None
    local_world_size: int | None = None
    launcher: str = ""
    is_on_many_hosts: bool = False


def place_of_process(environ: Mapping[str, str] = os.environ) -> Place | None:
    """Return the process's place according to the environment; None outside of a job."""
    for launcher, *names in PLACE_VARIABLES:
        rank, world, local_rank, local_world = (_number(environ.get(name, "")) for name in names)
        if rank is None or world is None or not 0 <= rank < world:
            continue
        is_torchrun = launcher == "environment" and "TORCHELASTIC_RUN_ID" in environ
        name = "torchrun" if is_torchrun else launcher
        spread = _is_spread(world, local_world, environ)
        return Place(rank, world, local_rank, local_world, name, spread)
    return None


def _is_spread(world: int, local_world: int | None, environ: Mapping[str, str]) -> bool:
    hosts = _number(environ.get("SLURM_STEP_NUM_NODES", ""))
    if hosts is not None:
        return hosts > 1
    return local_world is not None and local_world < world


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None


def shared_id(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the launcher's id of this run, which all hosts share."""
    elastic = environ.get("TORCHELASTIC_RUN_ID", _NO_ID)
    if elastic != _NO_ID:
        restart = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return elastic if restart == "0" else f"{elastic}-restart{restart}"
    if "SLURM_STEP_ID" in environ and "SLURM_JOB_ID" in environ:
        return f"slurm-{environ['SLURM_JOB_ID']}.{environ['SLURM_STEP_ID']}"
    for name in NAMESPACE_VARIABLES:
        if environ.get(name):
            return environ[name]
    return None


def job_name(environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of the process's job; empty outside of one.

    Unlike a run's id it survives restarts, and all steps of a Slurm job share it.
    """
    names = (
        environ.get("STEPSCOPE_JOB"),
        environ.get("TORCHELASTIC_RUN_ID"),
        environ.get("SLURM_JOB_ID"),
    )
    return next(
        (variable for variable in names if variable and variable != _NO_ID),
        shared_id(environ) or "",
    )


def wall_ns_of_ticks(ticks: int) -> int:
    """Return the Unix time of kernel ticks since boot; now if ``ticks`` is 0."""
    if ticks > 0:
        with contextlib.suppress(OSError, ValueError, StopIteration):
            booted_s = next(
                int(line.split()[1])
                for line in Path("/proc/stat").read_text("ascii").splitlines()
                if line.startswith("btime ")
            )
            return booted_s * 10**9 + ticks * 10**9 // os.sysconf("SC_CLK_TCK")
    return time.time_ns()


def described(
    by_frameworks: Mapping[str, Any], environ: Mapping[str, str], parent: str
) -> dict[str, Any]:
    """Return ``distributedInfo``: what frameworks and the launcher say.

    All processes of a run share its id, and no other run has it. If no launcher defines one, it is
    the ``parent`` process.
    """
    place = place_of_process(environ)
    if place is None and not by_frameworks:
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
    by_launcher = {key: value for key, value in by_launcher.items() if value is not None}
    run_id = run_id_given or shared_id(environ) or parent
    return {**by_launcher, **by_frameworks, "run_id": run_id}
