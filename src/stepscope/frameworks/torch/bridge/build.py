"""Compiles the torch bridge against the installed torch, once, and keeps it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.cache import cache_candidates
from stepscope.errors import StepscopeError
from stepscope.notices import notify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_SOURCE_DIR = Path(__file__).parent
# The headers that bridge and core share: in the package where it is installed, else in the
# repository.
_PACKAGE = Path(__file__).parents[3]
_INSTALLED, _REPOSITORY = _PACKAGE / "include", _PACKAGE.parents[1] / "native" / "include"
_INCLUDE = _INSTALLED if _INSTALLED.exists() else _REPOSITORY
_STANDARDS = ("c++17", "c++20")  # what torch's headers ask for depends on its version
_TIMEOUT_S = 300


class BridgeUnavailableError(StepscopeError):
    """The bridge cannot be built or loaded here; the message says why."""


@dataclass(frozen=True, slots=True)
class Bridge:
    """One C++ file over torch's headers, and what it needs besides them."""

    name: str
    source: str
    what: str  # it leads to
    libraries: tuple[str, ...]
    includes: Callable[[], Sequence[Path]] = tuple  # asked when it is compiled; it may raise
    one_a_minor: bool = False  # no two minors of torch are the same to it


OPERATORS = Bridge("operators", "torch_bridge.cpp", "torch", ("torch_cpu", "c10"))


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """What the bridge depends on in the installed torch."""

    version: str
    root: Path
    cxx11_abi: bool

    @staticmethod
    def of(torch: Any) -> TorchBuild:
        """Describe an imported torch."""
        abi = bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
        return TorchBuild(str(torch.__version__), Path(torch.__file__).parent, abi)

    @staticmethod
    def installed() -> TorchBuild | None:
        """Describe a torch that is not imported, by its files; None when there is none."""
        spec = PathFinder.find_spec("torch")
        if spec is None or spec.origin is None:
            return None
        root = Path(spec.origin).parent
        version = _found(root / "version.py", r"__version__ = ['\"]([^'\"]+)")
        abi = _found(root / "share/cmake/Torch/TorchConfig.cmake", r"_USE_CXX11_ABI=(\d)")
        return TorchBuild(version, root, abi != "0") if version else None

    def has(self, libraries: Sequence[str]) -> bool:
        """Tell whether it has all of them: without CUDA it has not."""
        return all((self.root / "lib" / f"lib{name}.so").exists() for name in libraries)

    def key(self, bridge: Bridge) -> str:
        """Name the build: another version, ABI, processor or source is another file."""
        digest = hashlib.sha256()
        headers = [*_SOURCE_DIR.glob("*.h"), *_INCLUDE.glob("stepscope/*.h")]
        for path in (_SOURCE_DIR / bridge.source, *sorted(headers)):
            digest.update(path.read_bytes())
        abi = "abi1" if self.cxx11_abi else "abi0"
        return f"torch-{self.version}-{abi}-{platform.machine()}-{digest.hexdigest()[:16]}"


def compiled(build: TorchBuild, bridge: Bridge = OPERATORS) -> Path:
    """Return the bridge that was compiled for this torch, compiling it when there is none."""
    path = cache_folder() / f"{build.key(bridge)}.so"
    if _is_whole(path):
        return path
    with _exclusive(path.with_suffix(".lock")):
        if not _is_whole(path):
            _compile(build, bridge, path)
    return path


def _found(path: Path, pattern: str) -> str:
    try:
        match = re.search(pattern, path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return match[1] if match else ""


def _is_whole(path: Path) -> bool:
    """Tell whether the file is as it was built: loading half a library kills the process."""
    try:
        return path.with_suffix(".sha256").read_text() == _digest(path)
    except OSError:
        return False


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def cache_folder() -> Path:
    """Return a folder that we can write and nobody else can."""
    tried = []
    for folder in cache_candidates():
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            tried.append(f"{folder} ({error.strerror or error})")
            continue
        owner = folder.stat()
        if owner.st_uid == os.getuid() and not owner.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return folder
        tried.append(f"{folder} (others can write to it)")
    raise BridgeUnavailableError(f"no folder to cache the bridge in: {', '.join(tried)}")


@contextlib.contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    """Let one process compile while the others wait for it."""
    import fcntl

    with lock.open("w") as file:
        with contextlib.suppress(OSError):  # a file system without locks: both compile
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compiler() -> list[str]:
    chosen = os.environ.get("CXX")
    if chosen:
        return shlex.split(chosen)
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise BridgeUnavailableError("no C++ compiler was found (set CXX, or install g++ or clang++)")


def _compile(build: TorchBuild, bridge: Bridge, target: Path) -> None:
    compiler = _compiler()
    if error := _run([*compiler, "--version"]):
        raise BridgeUnavailableError(f"`{shlex.join(compiler)}` does not work: {error}")
    to = f"{bridge.what} {build.version}"
    notify(f"building the bridge to {to} (once; this takes a few seconds) ...")
    began = time.monotonic()
    errors = []
    for standard in _STANDARDS:
        # Compiled beside the target and moved into place: nobody loads half a file.
        handle, made = tempfile.mkstemp(dir=target.parent, suffix=".so.part")
        os.close(handle)
        try:
            error = _run(_command(compiler, standard, build, bridge, made))
            if error is None:
                target.with_suffix(".sha256").write_text(_digest(Path(made)))
                Path(made).replace(target)
                notify(f"the bridge was built in {time.monotonic() - began:.1f} s: {target}")
                return
            errors.append(error)
        finally:
            Path(made).unlink(missing_ok=True)
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
    """Run the compiler; return the one line that says most about a failure."""
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
