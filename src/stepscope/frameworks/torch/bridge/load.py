"""Finds a bridge that fits the installed torch: one of the wheel's, else one compiled here."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.torch.bridge.build import (
    BridgeUnavailableError,
    cached_library,
    compiled,
    compiled_anew,
)
from stepscope.frameworks.torch.bridge.cache import Cache
from stepscope.frameworks.torch.bridge.prebuilt import (
    OPERATORS,
    Bridge,
    Prebuilt,
    TorchBuild,
    prebuilt_for,
)
from stepscope.frameworks.torch.bridge.probe import misfit, misfit_in_child
from stepscope.private_folders import cache_places

if TYPE_CHECKING:
    from collections.abc import Callable


_UNTRIED = "nobody has tried it with this torch yet"


class _NoRoomError(BridgeUnavailableError):
    """No bridge loads into this process: its libraries have taken all static TLS."""


def load_library(torch: Any, bridge: Bridge = OPERATORS, *, may_build: bool = True) -> ctypes.CDLL:
    """Load the bridge for an imported torch; raise BridgeUnavailableError if there is none.

    This takes seconds if the bridge must be compiled or tried in another process.
    """
    build = TorchBuild.of(torch)
    refused = ""
    prebuilt = prebuilt_for(build, bridge)
    if prebuilt is not None:
        refused = _refused(prebuilt, build, bridge, may_try=may_build)
        if not refused:
            try:
                return _fitting(_by_path(prebuilt.path), prebuilt.path, torch, bridge)
            except _NoRoomError:
                raise  # a compiled one would need as much
            except BridgeUnavailableError as error:
                refused = str(error)
    try:
        return _compiled_and_loaded(build, bridge, torch, may_build=may_build)
    except BridgeUnavailableError as error:
        if not refused:
            raise
        raise BridgeUnavailableError(
            f"{error}; the wheel's bridge does not work either: {refused}"
        ) from None


def make_ready(bridge: Bridge) -> None:
    """Do all slow work for a torch that is installed but not imported yet.

    Callers are about to start a program, whose time this must not be. Raise
    BridgeUnavailableError if there will be no bridge.
    """
    build = TorchBuild.installed()
    if build is None or not build.has(bridge.libraries):
        return
    prebuilt = prebuilt_for(build, bridge)
    if prebuilt is None or _refused(prebuilt, build, bridge, may_try=True):
        compiled(build, bridge).close()


def _refused(prebuilt: Prebuilt, build: TorchBuild, bridge: Bridge, *, may_try: bool) -> str:
    """Return why not to load a bridge; an untried one is tried in another process."""
    if prebuilt.proven:
        return ""
    if bridge is not OPERATORS:
        return f"torch {build.version} is not a known release"
    return _verdict(prebuilt.path, build, may_try=may_try)


def _verdict(path: Path, build: TorchBuild, *, may_try: bool) -> str:
    """Return what does not fit, as another process found now or earlier."""
    try:
        torch = (build.root / "lib" / "libtorch_cpu.so").stat()
        digest = hashlib.sha256(path.read_bytes())
    except OSError:
        return misfit_in_child(path) if may_try else _UNTRIED
    digest.update(f"{build.root} {torch.st_size} {torch.st_mtime_ns}".encode())
    name = f"torch-{build.version}-{digest.hexdigest()[:16]}.misfit"
    for place in cache_places():
        with contextlib.suppress(OSError), Cache(place, create=False) as cache:
            return cache.text(name)
    if not may_try:
        return _UNTRIED
    problem = misfit_in_child(path)
    for place in cache_places():
        with contextlib.suppress(OSError), Cache(place, create=True) as cache:
            cache.write(name, problem.encode("utf-8", "replace"))
            break
    return problem


def _compiled_and_loaded(
    build: TorchBuild, bridge: Bridge, torch: Any, *, may_build: bool
) -> ctypes.CDLL:
    library = compiled(build, bridge) if may_build else cached_library(build, bridge)
    try:
        loaded = _loaded(library.load, library.where)
    except _NoRoomError:
        raise
    except BridgeUnavailableError:  # the cache holds something else
        if not may_build:
            raise
        library = compiled_anew(build, bridge)
        loaded = _loaded(library.load, library.where)
    library.close()
    return _fitting(loaded, library.where, torch, bridge)


def _by_path(path: Path) -> ctypes.CDLL:
    return _loaded(lambda: ctypes.CDLL(str(path), mode=os.RTLD_NOW), path)


def _loaded(load: Callable[[], ctypes.CDLL], where: Path) -> ctypes.CDLL:
    try:
        return load()
    except OSError as error:
        if "static TLS" not in str(error):
            raise BridgeUnavailableError(f"{where} does not load: {error}") from error
        raise _NoRoomError(
            "the libraries that this program loads leave no static TLS for the bridge to torch. "
            "Start it with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=8192 in its environment"
        ) from error


def _fitting(library: ctypes.CDLL, path: Path, torch: Any, bridge: Bridge) -> ctypes.CDLL:
    if bridge is OPERATORS and (wrong := misfit(library, torch)):
        raise BridgeUnavailableError(f"{path} does not fit torch {torch.__version__}: {wrong}")
    return library


# ---- the bridges that the wheel carries

# Names another folder with bridges; an empty value disables them.
ENVIRONMENT = "STEPSCOPE_BRIDGES_DIR"
_OWN_FOLDER = Path(__file__).parent / "prebuilt"
# A release for the CPU or CUDA; other builds may have different sources.
_RELEASE = re.compile(r"(\d+\.\d+)\.\d+(\+(cpu|cu\d+))?")
_MINOR = re.compile(r"(\d+)\.(\d+)")
