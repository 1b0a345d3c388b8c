"""The bridges that the wheel carries, and which of them is for the installed torch."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.frameworks.torch.bridge.families import FAMILIES, family_of

if TYPE_CHECKING:
    from stepscope.frameworks.torch.bridge.build import Bridge, TorchBuild

# Names another folder to look in; an empty one: none.
ENVIRONMENT = "STEPSCOPE_BRIDGES_DIR"
_OWN_FOLDER = Path(__file__).parent / "prebuilt"
# A release, for the CPU or for CUDA; all else may have been built of other sources.
_RELEASE = re.compile(r"(\d+\.\d+)\.\d+(\+(cpu|cu\d+))?")
_MINOR = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Prebuilt:
    """A bridge that need not be compiled."""

    path: Path
    proven: bool  # what it touches was compared with the headers of this release


def prebuilt_for(build: TorchBuild, bridge: Bridge) -> Prebuilt | None:
    """Return the bridge to try with this torch; None when there is none."""
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
    found = _MINOR.match(build.version)
    if found is None:
        return None
    family = family_of(found[0])
    if bridge.one_a_minor:
        return found[0] if family else None
    if family is None and _number(found[0]) > _number(FAMILIES[-1].name):
        family = FAMILIES[-1]
    return family.name if family else None


def _number(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))
