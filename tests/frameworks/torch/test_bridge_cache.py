"""The cache of bridges: nobody's library is loaded but ours, and its failures are never fatal.

Without torch: what is kept is any library, and the compiler one that copies it.
"""

from __future__ import annotations

import _ctypes
import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stepscope.frameworks.torch.bridge import build as bridge_build
from stepscope.frameworks.torch.bridge.build import compiled, key_of
from stepscope.frameworks.torch.bridge.cache import Cache
from stepscope.frameworks.torch.bridge.prebuilt import OPERATORS, TorchBuild
from stepscope.private_folders import (
    cache_places,
    is_safe_parent,
    new_private_folder,
    open_private_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIBRARY = Path(str(_ctypes.__file__))  # any that loads, and may be loaded often
NOBODY = 65534
BUILD = TorchBuild("0.0.0", Path("/nowhere"), cxx11_abi=True)
KEY = key_of(BUILD, OPERATORS)
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs another user's id")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only place for a cache; what is compiled is a copy of ``LIBRARY``."""
    log, compiler = tmp_path / "log", tmp_path / "c++"
    compiler.write_text(
        f"""#!/bin/sh
        [ "$1" = --version ] && exit
        echo compiled >> {shlex.quote(str(log))}
        while [ "$1" != -o ]; do shift; done
        exec cp {shlex.quote(str(LIBRARY))} "$2"
        """
    )
    compiler.chmod(0o755)
    folder = tmp_path / "cache"
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("STEPSCOPE_CACHE_DIR", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    monkeypatch.setattr(bridge_build, "_uncached", {})
    return folder


def compilations(cache: Path) -> int:
    log = cache.parent / "log"
    return len(log.read_text().split()) if log.exists() else 0


def compiled_whole() -> Path:
    """Return where the library is that would be loaded, and check that it is ours."""
    library = compiled(BUILD)
    assert library.content() == LIBRARY.read_bytes()
    library.load()
    library.close()
    return library.where


def test_what_was_compiled_is_kept_for_the_next(cache: Path) -> None:
    first, second = compiled_whole(), compiled_whole()
    assert first == second == cache / f"{KEY}.so"
    assert compilations(cache) == 1
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert sorted(path.suffix for path in cache.iterdir()) == [".lock", ".sha256", ".so"]


# ---- what is wrong with a cache


def _a_folder(path: Path) -> None:
    path.mkdir()
    (path / "full").touch()


def _a_pipe(path: Path) -> None:
    os.mkfifo(path)


def _a_link(path: Path) -> None:
    path.symlink_to(LIBRARY)


def _rubbish(path: Path) -> None:
    path.write_bytes(b"no library")


@pytest.mark.parametrize("suffix", [".so", ".sha256", ".lock"])
@pytest.mark.parametrize("what", [_a_folder, _a_pipe, _a_link, _rubbish])
def test_something_else_where_a_file_should_be(
    cache: Path, suffix: str, what: Callable[[Path], None]
) -> None:
    cache.mkdir(mode=0o700)
    what(cache / f"{KEY}{suffix}")
    compiled_whole()
    assert compilations(cache) == 1
    assert not list(cache.glob("*.part"))


def test_a_disk_that_is_full_at_the_wrong_moment(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: object, _name: str, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Cache, "write", full)
    assert not compiled_whole().exists()  # in a folder that is gone
    compiled_whole()
    assert compilations(cache) == 1  # it stays open for the next who wants it
    assert list(cache.glob("*.so")) == []


def test_a_ready_one_is_used_where_nothing_can_be_written(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled_whole()
    monkeypatch.setattr(Cache, "write", None)
    monkeypatch.setattr(Cache, "only_one", None)
    assert compiled_whole() == cache / f"{KEY}.so"


def test_no_place_at_all_is_no_obstacle(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCOPE_CACHE_DIR", "/dev/null/cache")
    compiled_whole()
    assert compilations(cache) == 1


# ---- who may write there


def test_no_cache_is_in_a_folder_that_users_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPSCOPE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_places() == [Path("/home/somebody/.cache/stepscope")]


def test_parents_count(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    inner = shared / "mine" / "cache"
    inner.mkdir(parents=True, mode=0o700)
    os.close(open_private_folder(inner))
    shared.chmod(0o777)
    with pytest.raises(OSError, match="others can write"):
        open_private_folder(inner)
    assert not is_safe_parent(inner)
    shared.chmod(0o1777)  # in a sticky one nobody can rename what is ours
    os.close(open_private_folder(inner))
    assert is_safe_parent(shared)
    with pytest.raises(OSError, match="others can write"):
        open_private_folder(shared)


def test_new_folders_are_where_nobody_can_exchange_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those for bridges, for traces and for what child processes leave, which is unpickled."""
    for mode, is_used in ((0o777, False), (0o1777, True), (0o700, True)):
        tmp_path.chmod(mode)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        folder = new_private_folder("test-")
        assert (folder.parent == tmp_path) == is_used
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        folder.rmdir()


@as_root
def test_owners_count(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "cache").mkdir(parents=True, mode=0o755)
    os.close(open_private_folder(theirs / "cache"))
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(OSError, match="somebody else owns"):
        open_private_folder(theirs / "cache")


@as_root
@pytest.mark.parametrize("whose", ["library", "digest"])
def test_a_file_of_somebody_else_is_not_used(cache: Path, whose: str) -> None:
    compiled_whole()
    path = cache / f"{KEY}{'.so' if whose == 'library' else '.sha256'}"
    os.chown(path, NOBODY, NOBODY)
    compiled_whole()
    assert compilations(cache) == 2


def test_a_file_that_others_can_write_is_not_used(cache: Path) -> None:
    path = compiled_whole()
    path.chmod(0o666)
    compiled_whole()
    assert compilations(cache) == 2


# ---- another user who exchanges folders all the time

ATTACKER = """
import os, sys
os.setgid(65534); os.setuid(65534)
shared, evil = sys.argv[1:]
print("ready", flush=True)
while True:  # until it is killed
    for act in (
        lambda: os.rename(f"{shared}/cache", f"{shared}/aside"),
        lambda: os.symlink(evil, f"{shared}/cache"),
        lambda: os.unlink(f"{shared}/cache"),
        lambda: os.rename(f"{shared}/aside", f"{shared}/cache"),
    ):
        try:
            act()
        except OSError:
            pass
"""


@pytest.fixture
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that another user may write to, who exchanges what is in it for a folder of his."""
    base = tmp_path_factory.mktemp("attack")
    for folder in (base, *base.parents[:-1]):
        if not folder.stat().st_mode & stat.S_IXOTH:
            folder.chmod(0o711)
    shared, evil = base / "shared", base / "evil"
    for folder in (shared, evil):
        folder.mkdir()
        folder.chmod(0o777)
    wrong = b"\\x7fELF of somebody else"
    (evil / f"{KEY}.so").write_bytes(wrong)
    (evil / f"{KEY}.sha256").write_text(hashlib.sha256(wrong).hexdigest())
    for path in evil.iterdir():
        os.chown(path, NOBODY, NOBODY)
    attacker = subprocess.Popen(
        [sys.executable, "-c", ATTACKER, shared, evil], stdout=subprocess.PIPE
    )
    assert attacker.stdout is not None
    attacker.stdout.readline()
    yield shared
    attacker.kill()
    attacker.communicate()


@as_root
def test_another_user_in_a_race_is_never_loaded(
    cache: Path, attacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by ``tools/stress_cache.py``, a thousand times."""
    evil = attacked.parent / "evil"
    before = sorted(path.name for path in evil.iterdir())
    monkeypatch.setenv("STEPSCOPE_CACHE_DIR", str(attacked / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent / "good"))
    good = cache.parent / "good" / "stepscope"
    for _ in range(100):
        shutil.rmtree(attacked / "cache", ignore_errors=True)
        assert compiled_whole().parent == good
    assert sorted(path.name for path in evil.iterdir()) == before
