"""Shortens the paths of files in stacks, relative to the folders that modules are imported from."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path

from stepscope import _native

_OWN_FOLDER = str(Path(__file__).parents[2]) + os.sep


def set_paths() -> tuple[str, ...]:
    """Have frames named relative to the folders of modules; return those of the program's code."""
    prefixes = _path_prefixes()
    library = sysconfig.get_path("stdlib") + os.sep
    _native.set_paths([_shown(prefix) for prefix in prefixes], _shown(_OWN_FOLDER), _shown(library))
    return tuple(prefix for prefix in prefixes if "site-packages" not in prefix)


def _shown(path: str) -> str:
    """Return a path as frames show it; undecodable bytes are replaced."""
    return path.encode("utf-8", "replace").decode("utf-8")


def _path_prefixes() -> list[str]:
    """Return the folders that modules are imported from: files are named relative to them."""
    folders = [*site.getsitepackages(), *sys.path, site.getuserbase(), site.getusersitepackages()]
    paths = {str(Path(folder).absolute()) for folder in folders}
    return [path + os.sep for path in paths if path != os.sep]
