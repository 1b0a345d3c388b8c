"""A trace's description of the recorded process."""

from __future__ import annotations

import os
import platform
import socket
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.trace.cores import parallelism_of_process
from stepscope.trace.launcher import described
from stepscope.trace.revision import revision
from stepscope.trace.schema import PRODUCER, TraceInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepscope.trace.schema import Losses

_WORTH_NAMING = ("torch", "paddle", "numpy", "jax", "cupy")


def describe_process(
    *,
    start_ns: int,
    end_ns: int,
    losses: Losses,
    sources: Mapping[str, str],
    overhead_ns: float,
    devices: Sequence[Mapping[str, Any]] = (),
    code_folders: Sequence[str] = (),
    parallelism: Mapping[str, float] | None = None,
    job: Mapping[str, Any] | None = None,
) -> TraceInfo:
    """Describe this process for a trace that ends now; ``job`` is what frameworks tell of it."""
    job = described(job or {})
    return TraceInfo(
        producer=PRODUCER,
        start_ns=start_ns,
        end_ns=end_ns,
        wall_offset_ns=_native.wall_offset_ns(),
        host=socket.gethostname(),
        pid=os.getpid(),
        rank=job.get("rank"),
        world_size=job.get("world_size"),
        versions=_versions(),
        sources=sources,
        losses=losses,
        overhead_ns=overhead_ns,
        devices=devices,
        code_folders=code_folders,
        libraries=_libraries(),
        revision=revision(),
        parallelism={**parallelism_of_process(), **(parallelism or {})},
        user={"distributedInfo": job} if job else {},
    )


def _libraries() -> list[str]:
    """Return the imported top-level modules that come from an installed package or from Python."""
    folders = (sysconfig.get_path("stdlib") + os.sep, *_installed_into())
    found = set()
    for name, module in list(sys.modules.items()):
        if "." in name or name == "__main__":
            continue
        spec = getattr(module, "__spec__", None)
        file = getattr(spec, "origin", None) or getattr(module, "__file__", None)
        if isinstance(file, str) and (
            "-packages" + os.sep in file or file.startswith(folders) or file == "frozen"
        ):
            found.add(name)
    return sorted(found)


def _installed_into() -> Iterator[str]:
    """Yield the folders of sys.path that packages were installed into: ``pip install --target``."""
    for folder in map(Path, sys.path):
        try:
            is_one = any(path.name.endswith(".dist-info") for path in folder.iterdir())
        except OSError:  # an archive, or nothing
            continue
        if is_one:
            yield str(folder.absolute()) + os.sep


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "stepscope": own_version()}
    for name in _WORTH_NAMING:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            versions[name] = str(version)
    return versions


def own_version() -> str:
    """Return the installed version of Stepscope."""
    try:
        return metadata.version("stepscope")
    except metadata.PackageNotFoundError:
        return "unknown"
