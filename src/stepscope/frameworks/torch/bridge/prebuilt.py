"""The bridges that the wheel carries, and which of them is for the installed torch."""

from __future__ import annotations

import os
import re
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.frameworks.torch.bridge.families import FAMILIES, family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Names another folder to look in; an empty one: none.
ENVIRONMENT = "STEPSCOPE_BRIDGES_DIR"
_OWN_FOLDER = Path(__file__).parent / "prebuilt"
# A release, for the CPU or for CUDA; all else may have been built of other sources.
_RELEASE = re.compile(r"(\d+\.\d+)\.\d+(\+(cpu|cu\d+))?")
_MINOR = re.compile(r"(\d+)\.(\d+)")


class Bridge(NamedTuple):
    """One C++ file over torch's headers, and its other requirements."""

    name: str
    source: str
    what: str  # what it connects to
    libraries: tuple[str, ...]
    includes: Callable[[], Sequence[Path]] = tuple  # called before compiling; may raise
    one_a_minor: bool = False  # every minor of torch needs its own build


OPERATORS = Bridge("operators", "torch_bridge.cpp", "torch", ("torch_cpu", "c10"))


class TorchBuild(NamedTuple):
    """What a bridge depends on in the installed torch."""

    version: str
    root: Path
    cxx11_abi: bool

    @staticmethod
    def of(torch: Any) -> TorchBuild:
        abi = bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
        return TorchBuild(str(torch.__version__), Path(torch.__file__).parent, abi)

    @staticmethod
    def installed() -> TorchBuild | None:
        """Describe an installed torch by its files, without importing it; None if there is none."""
        spec = PathFinder.find_spec("torch")
        if spec is None or spec.origin is None:
            return None
        root = Path(spec.origin).parent
        version = _first_match(root / "version.py", r"__version__ = ['\"]([^'\"]+)")
        abi = _first_match(root / "share/cmake/Torch/TorchConfig.cmake", r"_USE_CXX11_ABI=(\d)")
        return TorchBuild(version, root, abi != "0") if version else None

    def has(self, libraries: Sequence[str]) -> bool:
        """Tell whether torch has all of these libraries: builds without CUDA lack some."""
        return all((self.root / "lib" / f"lib{name}.so").exists() for name in libraries)


class Prebuilt(NamedTuple):
    """A bridge that need not be compiled."""

    path: Path
    proven: bool  # its accesses were checked against this release's headers


def is_at_hand(bridge: Bridge) -> bool:
    """Tell whether the wheel has the bridge for the installed torch, if there is one."""
    build = TorchBuild.installed()
    if build is None or not build.has(bridge.libraries):
        return True
    prebuilt = prebuilt_for(build, bridge)
    return prebuilt is not None and prebuilt.proven


def prebuilt_for(build: TorchBuild, bridge: Bridge) -> Prebuilt | None:
    """Return the prebuilt bridge to try with this torch, or None."""
    chosen = os.environ.get(ENVIRONMENT)
    if chosen == "" or not build.cxx11_abi:
        return None
    release = _RELEASE.fullmatch(build.version)
    minor = _headers_of(build, bridge)
    if minor is None:
        return None
    path = Path(chosen or _OWN_FOLDER) / f"{bridge.name}-{minor}.so"
    is_known = release is not None and family_of(release[1]) is not None
    return Prebuilt(path, is_known and not chosen) if path.exists() else None


def _headers_of(build: TorchBuild, bridge: Bridge) -> str | None:
    """Return the minor whose headers a bridge for this torch is compiled with."""
    minor = _MINOR.match(build.version)
    if minor is None:
        return None
    family = family_of(minor[0])
    if bridge.one_a_minor:
        return minor[0] if family else None
    if family is None and _number(minor[0]) > _number(FAMILIES[-1].name):
        family = FAMILIES[-1]
    return family.name if family else None


def _number(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))


def _first_match(path: Path, pattern: str) -> str:
    try:
        match = re.search(pattern, path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return match[1] if match else ""
