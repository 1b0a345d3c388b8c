"""Stored baselines, a folder per branch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from stepscope.errors import StepscopeError
from stepscope.formats.file_names import file_word
from stepscope.trace.model import Trace
from stepscope.trace.placing import TRACE_SUFFIX, staging_folder
from stepscope.trace.revision import BRANCH, revision_of

_MAIN = ("main", "master")
_TARGETS = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME")


def current_branch(root: Path) -> str:
    """Return the checked-out branch; ``main`` if unknown."""
    try:
        return revision_of(root.absolute()).get(BRANCH) or _MAIN[0]
    except OSError:
        return _MAIN[0]


def folder_of(store: Path, branch: str) -> Path:
    """Return the folder of a branch's baseline."""
    return store / file_word(branch)


def stored(store: Path, branch: str = "", root: Path | None = None) -> Path:
    """Return the folder of a branch's baseline.

    The default is the target of the pull request, else the current branch, else main.
    """
    targets = [os.environ[word] for word in _TARGETS if os.environ.get(word)]
    asked = [branch] if branch else [*targets, current_branch(root or Path.cwd()), *_MAIN]
    for name in dict.fromkeys(asked):
        folder = folder_of(store, name)
        if folder.is_dir() and any(folder.glob(f"*{TRACE_SUFFIX}")):
            return folder
    raise StepscopeError(
        f"there is no baseline for {' or '.join(dict.fromkeys(asked))} in {store}: "
        "store one with `stepscope gate --store TRACE`, or give --baseline PATH"
    )


def keep(store: Path, branch: str, traces: Sequence[Trace]) -> Path:
    """Store traces as a branch's baseline, replacing the old one; return its folder."""
    folder = folder_of(store, branch)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with staging_folder(folder.parent) as staged:
        made = staged / "new"
        made.mkdir()
        for number, trace in enumerate(traces, 1):
            trace.save(made / f"{number}{TRACE_SUFFIX}")
        if folder.exists():
            folder.rename(staged / "old")
        made.rename(folder)
        shutil.rmtree(staged / "old", ignore_errors=True)
    return folder
