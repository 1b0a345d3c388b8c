"""The Pythons of this machine that Stepscope is made for, and virtual environments of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def pythons_at_hand() -> dict[str, Path]:
    """Return the interpreters by version, and say which there are none of."""
    by_name = {}
    for version in VERSIONS:
        path = next(
            (candidate for candidate in _candidates(version) if _works(candidate, version)), None
        )
        if path is None:
            print(f"--- Python {version}: NOT at hand, nothing is built or run for it")
        else:
            by_name[version] = path
    return by_name


def _candidates(version: str) -> Iterator[Path]:
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        yield Path(sys.executable)
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)
    yield from sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))


def _works(python: Path, version: str) -> bool:
    """Tell whether it starts, is of that version, and has a GIL."""
    code = (
        "import sys, sysconfig, venv;"
        "print('%d.%d' % sys.version_info[:2], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
    )
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.stdout.split() == [version, "0"]


def environment(python: Path, folder: Path, *packages: str) -> Path:
    """Return the Python of a virtual environment that has these packages; it is made if needed."""
    own = folder / "bin/python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip(own, "install", "--upgrade", "pip>=25.1")
    if packages:
        pip(own, "install", *packages)
    return own


def pip(python: Path, *words: str) -> None:
    """Run pip there; raise CalledProcessError when it fails."""
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([python, "-m", "pip", *quiet, *words], cwd=ROOT, check=True)
