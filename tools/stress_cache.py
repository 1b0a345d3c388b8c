"""Plays another user who exchanges the cache of bridges for his own: ``stress_cache.py [tries]``.

Needs root, to become that user. Each try looks for a bridge while he renames the folder, puts links
in its place and takes them away; whatever is found must be ours, and nothing of ours may end up in
his folders. The same for the folders to which traces are saved when theirs cannot be written.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import _ctypes

from made_trace import Call, trace_of_calls
from stepscope.cli.base import saving
from stepscope.frameworks.torch.bridge.build import compiled, key_of
from stepscope.frameworks.torch.bridge.prebuilt import OPERATORS, TorchBuild

NOBODY = 65534
LIBRARY = Path(_ctypes.__file__)
BUILD = TorchBuild("0.0.0", Path("/nowhere"), cxx11_abi=True)
TRACE = trace_of_calls([Call("aten::mm", 0, 10)])

ATTACKER = """
import os, sys
os.setgid(65534); os.setuid(65534)
shared, evil = sys.argv[1:]
print("ready", flush=True)
while True:
    for name in ("cache", "temporary"):
        for act in (
            lambda: os.rename(f"{shared}/{name}", f"{shared}/{name}-aside"),
            lambda: os.symlink(evil, f"{shared}/{name}"),
            lambda: os.unlink(f"{shared}/{name}"),
            lambda: os.rename(f"{shared}/{name}-aside", f"{shared}/{name}"),
        ):
            try:
                act()
            except OSError:
                pass
"""


def main() -> int:
    """Try, and tell how often he got in; return 1 when he did."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tries", type=int, nargs="?", default=1000)
    tries = parser.parse_args().tries
    with tempfile.TemporaryDirectory(prefix="stress-") as name:
        base = Path(name)
        base.chmod(0o711)
        shared, evil = base / "shared", base / "evil"
        _prepare(base, shared, evil)
        before = _content(evil)
        words = [sys.executable, "-c", ATTACKER, str(shared), str(evil)]
        attacker = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert attacker.stdout is not None
        attacker.stdout.readline()
        try:
            loads = sum(_loads_his(i) for i in range(tries))
            astray = sum(_saves_astray(shared, evil) for _ in range(tries // 10))
        finally:
            attacker.kill()
            attacker.communicate()
        written = _content(evil) != before
    print(f"{loads} of {tries} loads were his; {astray} traces went astray; written: {written}")
    return int(bool(loads or astray or written))


def _prepare(base: Path, shared: Path, evil: Path) -> None:
    for folder in (shared, evil, shared / "cache", shared / "temporary"):
        folder.mkdir()
        folder.chmod(0o777)
    key = key_of(BUILD, OPERATORS)
    wrong = b"a library of somebody else"
    (evil / f"{key}.so").write_bytes(wrong)
    (evil / f"{key}.sha256").write_text(hashlib.sha256(wrong).hexdigest())
    for path in evil.iterdir():
        os.chown(path, NOBODY, NOBODY)
    compiler = base / "c++"
    compiler.write_text(
        f"""#!/bin/sh
        [ "$1" = --version ] && exit
        while [ "$1" != -o ]; do shift; done
        exec cp {shlex.quote(str(LIBRARY))} "$2"
        """
    )
    compiler.chmod(0o755)
    os.environ.update(
        CXX=str(compiler),
        STEPSCOPE_CACHE_DIR=str(shared / "cache"),
        XDG_CACHE_HOME=str(base / "good"),
    )


def _content(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_size) for path in folder.rglob("*"))


def _loads_his(number: int) -> bool:
    if number % 10 == 0:  # now and then there is none that is ready
        for path in Path(os.environ["XDG_CACHE_HOME"]).rglob("*.so"):
            path.unlink()
    library = compiled(BUILD)
    is_his = library.content() != LIBRARY.read_bytes()
    library.close()
    return is_his


def _saves_astray(shared: Path, evil: Path) -> bool:
    tempfile.tempdir = str(shared / "temporary")
    saved = saving.save_somewhere(TRACE, Path("/proc/x.json"), force=False)
    assert saved is not None
    real = Path(os.path.realpath(saved))
    is_astray = shared in real.parents or evil in real.parents
    saved.unlink()
    saved.parent.rmdir()
    return is_astray


if __name__ == "__main__":
    sys.exit(main())
