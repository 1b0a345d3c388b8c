"""What is known of this process without any of its events; nothing here imports NumPy."""

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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WORTH_NAMING = ("torch", "paddle", "numpy", "jax", "cupy")


def process_facts(job: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the fields of a TraceInfo that this process can tell at any time.

    ``job`` is what frameworks tell of its place in one.
    """
    return {
        **place_facts(job),
        "wall_offset_ns": _native.wall_offset_ns(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "versions": _versions(),
        "libraries": _libraries(),
        "revision": revision(),
        "parallelism": parallelism_of_process(),
    }


def place_facts(job: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return those that say which process of a job it is: as frameworks and the launcher tell."""
    known = described(job or {})
    return {
        "rank": known.get("rank"),
        "world_size": known.get("world_size"),
        "user": {"distributedInfo": known} if known else {},
    }


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
