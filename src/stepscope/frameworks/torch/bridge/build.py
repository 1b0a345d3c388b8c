"""Compiles the bridge against the installed torch, and caches it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import StepscopeError
from stepscope.frameworks.torch.bridge.cache import Cache, Library, private_folder
from stepscope.frameworks.torch.bridge.prebuilt import OPERATORS
from stepscope.notices import notify
from stepscope.private_folders import cache_places

if TYPE_CHECKING:
    from stepscope.frameworks.torch.bridge.prebuilt import Bridge, TorchBuild

_SOURCE_DIR = Path(__file__).parent
# Headers shared by bridge and core: in the installed package, else in the repository.
_PACKAGE = Path(__file__).parents[3]
_INSTALLED, _REPOSITORY = _PACKAGE / "include", _PACKAGE.parents[1] / "native" / "include"
_INCLUDE = _INSTALLED if _INSTALLED.exists() else _REPOSITORY
_STANDARDS = ("c++17", "c++20")  # torch's headers need one or the other, depending on the version
_TIMEOUT_S = 300


class BridgeUnavailableError(StepscopeError):
    """The bridge cannot be built or loaded here; the message says why."""


def key_of(build: TorchBuild, bridge: Bridge) -> str:
    """Name a compiled bridge: another version, ABI, processor or source is another file."""
    digest = hashlib.sha256()
    headers = [*_SOURCE_DIR.glob("*.h"), *_INCLUDE.glob("stepscope/*.h")]
    for path in (_SOURCE_DIR / bridge.source, *sorted(headers)):
        digest.update(path.read_bytes())
    abi = "abi1" if build.cxx11_abi else "abi0"
    return f"torch-{build.version}-{abi}-{platform.machine()}-{digest.hexdigest()[:16]}"


def compiled(build: TorchBuild, bridge: Bridge = OPERATORS) -> Library:
    """Return the bridge compiled for this torch, compiling it if necessary.

    Raise BridgeUnavailableError if that fails for any reason.
    """
    try:
        key = key_of(build, bridge)
        return _uncached.get(key) or _cached_or_compiled(build, bridge, key)
    except OSError as error:
        raise BridgeUnavailableError(f"the bridge cannot be compiled: {error}") from error


def cached_library(build: TorchBuild, bridge: Bridge) -> Library:
    """Return a bridge that was compiled before; raise BridgeUnavailableError if there is none."""
    with contextlib.suppress(OSError):
        key = key_of(build, bridge)
        if key in _uncached:
            return _uncached[key]
        for place in cache_places():
            with contextlib.suppress(OSError), Cache(place, create=False) as cache:
                if (library := cache.library(key)) is not None:
                    return library
    raise BridgeUnavailableError(f"no bridge to {bridge.what} {build.version} was built beforehand")


def compiled_anew(build: TorchBuild, bridge: Bridge) -> Library:
    """Compile the bridge again because the cached one does not load."""
    try:
        return _compile(build, bridge)
    except OSError as error:
        raise BridgeUnavailableError(f"the bridge cannot be compiled: {error}") from error


# Bridges that were compiled but could not be cached; they stay open for the next caller.
_uncached: dict[str, Library] = {}


def _cached_or_compiled(build: TorchBuild, bridge: Bridge, key: str) -> Library:
    """Return a cached bridge, also from a read-only cache, or compile one."""
    began, library = time.monotonic(), None
    for place in cache_places():
        with contextlib.suppress(OSError), Cache(place, create=True) as cache:
            ready = cache.library(key)
            if ready is not None:
                return ready
            if not cache.is_writable():
                continue
            with cache.only_one(key):
                ready = cache.library(key)  # another process was faster
                if ready is not None:
                    return ready
                library = library or _compile(build, bridge)
                cached = cache.stored(key, library)
            notify(f"the bridge was built in {time.monotonic() - began:.1f} s: {cached.where}")
            return cached
    library = library or _compile(build, bridge)
    took = f"{time.monotonic() - began:.1f} s"
    notify(f"the bridge was built in {took}, for this process only: it cannot be cached")
    _uncached[key] = library = replace(library, stays_open=True)
    return library


def _compiler() -> list[str]:
    chosen = os.environ.get("CXX")
    if chosen:
        import shlex  # programs that find a bridge do not need it

        return shlex.split(chosen)
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise BridgeUnavailableError("no C++ compiler was found (set CXX, or install g++ or clang++)")


def _compile(build: TorchBuild, bridge: Bridge) -> Library:
    """Compile in a private folder, which is removed once the library is open."""
    import shlex

    compiler = _compiler()
    if error := _run([*compiler, "--version"]):
        raise BridgeUnavailableError(f"`{shlex.join(compiler)}` does not work: {error}")
    to = f"{bridge.what} {build.version}"
    notify(f"building the bridge to {to} (once; this takes a few seconds) ...")
    errors = []
    with private_folder() as folder:
        made = folder / "bridge.so"
        for standard in _STANDARDS:
            error = _run(_command(compiler, standard, build, bridge, str(made)))
            if error is None:
                made.chmod(0o700)
                return Library.opened(made, made)
            errors.append(error)
    raise BridgeUnavailableError(f"`{compiler[0]}` could not compile the bridge: {errors[0]}")


def _command(
    compiler: list[str], standard: str, build: TorchBuild, bridge: Bridge, output: str
) -> list[str]:
    # NDEBUG: without it torch's accessors assert inside the callback.
    return [
        *compiler,
        f"-std={standard}",
        "-O2",
        "-DNDEBUG",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-fno-plt",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(build.cxx11_abi)}",
        "-isystem",
        str(build.root / "include"),
        *(word for folder in bridge.includes() for word in ("-isystem", str(folder))),
        "-I",
        str(_INCLUDE),
        str(_SOURCE_DIR / bridge.source),
        f"-L{build.root / 'lib'}",
        *(f"-l{library}" for library in bridge.libraries),
        "-o",
        output,
    ]


def _run(command: list[str]) -> str | None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except OSError as error:
        return str(error)
    except subprocess.TimeoutExpired:
        return f"it did not finish in {_TIMEOUT_S} s"
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()]
    return (telling or lines or [f"it exited with {done.returncode}"])[0][:300]
