"""Finds CUPTI, NVIDIA's library that records what devices do."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OVERRIDE = "STEPSCOPE_CUPTI"  # the path of a libcupti.so to use, or "off"

_NAME = "libcupti.so*"
_NUMBERS = re.compile(r"\d+")


def cupti_paths() -> Iterator[Path]:
    """Yield the places where CUPTI may be, the best first.

    A CUPTI that the process has loaded comes first: two of them disturb each other.
    """
    wish = os.environ.get(OVERRIDE)
    if wish:
        yield Path(wish)
        return
    yield from loaded_cupti()
    for folder in _folders():
        yield from sorted(folder.glob(_NAME), key=_version, reverse=True)


def has_driver() -> bool:
    return Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()


def loaded_cupti() -> Iterator[Path]:
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return
    paths = (line.split(maxsplit=5)[-1] for line in maps.splitlines() if "libcupti.so" in line)
    yield from (Path(path) for path in dict.fromkeys(paths))


def _folders() -> Iterator[Path]:
    for package in _nvidia_packages():
        yield from (package / "cuda_cupti" / "lib", *package.glob("cu*/lib"))
    if (torch := find_spec("torch")) and torch.origin:
        yield Path(torch.origin).parent / "lib"
    for toolkit in _toolkits():
        yield from (toolkit / "extras/CUPTI/lib64", toolkit / "lib64")
        yield from toolkit.glob("targets/*/lib")


def _nvidia_packages() -> list[Path]:
    """Return the folders of NVIDIA's wheels, which form a namespace package."""
    return [folder for entry in sys.path if entry and (folder := Path(entry) / "nvidia").is_dir()]


def _toolkits() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), key=_version, reverse=True)


def _version(path: Path) -> list[int]:
    return [int(number) for number in _NUMBERS.findall(path.name)]


def cuda_include_folders() -> Iterator[Path]:
    """Yield the folders with CUDA's headers: the toolkit's, then those of NVIDIA's wheels."""
    wheels = [
        folder
        for package in _nvidia_packages()
        for folder in (package / "cuda_runtime" / "include", *package.glob("cu*/include"))
        if (folder / "cuda_runtime_api.h").exists()
    ]
    toolkits = [
        folder
        for toolkit in _toolkits()
        if ((folder := toolkit / "include") / "cuda_runtime_api.h").exists()
    ]
    # A wheel may lack the compiler's own headers (crt/); a toolkit always has them.
    yield from dict.fromkeys([*toolkits[:1], *wheels])
