"""Modules of other packages that add to Stepscope: entry points of the group ``stepscope``."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from stepscope.notices import notify

_GROUP = "stepscope"
_METADATA = (".dist-info", ".egg-info")


def load_extensions() -> None:
    """Import all extensions; each registers what it adds."""
    if not _may_have_extensions():
        return
    from importlib.metadata import entry_points

    for extension in entry_points(group=_GROUP):
        try:
            extension.load()
        except Exception as error:  # a broken extension must not cost a recording
            notify(f"the extension {extension.value} is skipped: {type(error).__name__}: {error}")


def _may_have_extensions() -> bool:
    """Tell whether an installed package names the group.

    `stepscope run` asks at every start; ``importlib.metadata`` would take as long as NumPy.
    """
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if len(finders) > 1:  # beside the one that looks in the folders of sys.path
        return True
    return any(_names_group(folder or ".") for folder in dict.fromkeys(sys.path))


def _names_group(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            packages = [entry.path for entry in entries if entry.name.endswith(_METADATA)]
    except NotADirectoryError:  # an archive, which importlib.metadata can read
        return True
    except OSError:
        return False
    for package in packages:
        with suppress(OSError):  # it is a single file, or has no entry points
            if f"[{_GROUP}]".encode() in Path(package, "entry_points.txt").read_bytes():
                return True
    return False
