"""Which version of the program a trace is of: the git commit of its folder.

Commit and branch are read from the repository's files: no program runs for that. Whether there are
changes that are not committed only git can tell; ``note_program`` asks it, before a run and if
there is a repository, and what it says is kept for the traces of this process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMIT, BRANCH, CHANGED = "commit", "branch", "changed"

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_POINTER = "gitdir: "
_REFERENCE = "ref: "
_MOST_BYTES = 10_000_000  # of a file with references; a larger one is not git's, or not usual
_PATIENCE_S = 2.0  # a big repository on a slow disk: then it is not known
# What a service that runs tests says of the branch, where the checkout is of a commit alone.
_BRANCH_VARIABLES = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BRANCH_NAME"),
    *("BUILDKITE_BRANCH", "CIRCLE_BRANCH"),
)


class _Noted:
    """What is known of the program that this process runs."""

    folder: Path | None = None
    changed: str = ""


def revision() -> dict[str, str]:
    """Return commit, branch and whether there are changes, of the program that runs; or nothing."""
    try:
        found = revision_of(_Noted.folder or program_folder())
    except OSError:
        return {}
    return {**found, CHANGED: _Noted.changed} if found and _Noted.changed else found


def program_folder() -> Path:
    """Return the folder of the main file; the current one where that is a tool's, or none."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        if isinstance(file, str):
            folder = Path(file).resolve().parent
            if not folder.is_relative_to(Path(sys.prefix).resolve()):
                return folder
        return Path.cwd()
    except OSError:  # the current folder was removed
        return Path("/")


def revision_of(folder: Path) -> dict[str, str]:
    """Return commit and branch of the repository that a folder is in; nothing without one."""
    repository = _repository(folder)
    if repository is None:
        return {}
    head = _text(repository / "HEAD").strip()
    found: dict[str, str] = {}
    if head.startswith(_REFERENCE):
        reference = head.removeprefix(_REFERENCE)
        commit = _resolved(repository, reference)
        found[BRANCH] = reference.removeprefix("refs/heads/")
    else:
        commit = head
        branch = next((os.environ[word] for word in _BRANCH_VARIABLES if os.environ.get(word)), "")
        if branch:
            found[BRANCH] = branch
    if not _HASH.fullmatch(commit):
        return {}  # no commit yet
    return {COMMIT: commit, **found}


def note_program(folder: Path) -> None:
    """Say where the program is, and ask git whether tracked files differ from the commit."""
    _Noted.folder, _Noted.changed = folder, ""
    try:
        if _repository(folder.resolve()) is None:
            return
        done = subprocess.run(
            [
                *("git", "-c", "core.fsmonitor=false", "--no-optional-locks"),
                *("status", "--porcelain", "--untracked-files=no", "--ignore-submodules"),
            ],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return  # there is no git, or it refuses this folder
    _Noted.changed = "yes" if done.stdout.strip() else "no"


def revision_text(told: Mapping[str, str]) -> str:
    """Return a revision for people: ``1a2b3c4d5e on main, with changes``."""
    branch = f" on {told[BRANCH]}" if told.get(BRANCH) else ""
    changed = ", with changes that are not committed" if told.get(CHANGED) == "yes" else ""
    return f"{told.get(COMMIT, '')[:10]}{branch}{changed}"


def _repository(folder: Path) -> Path | None:
    """Return git's own folder of the repository that a folder is in."""
    for above in (folder, *folder.parents):
        inside = above / ".git"
        if inside.is_dir():
            return inside
        if inside.is_file():  # of a worktree or a submodule
            told = _text(inside).strip()
            return (above / told.removeprefix(_POINTER)) if told.startswith(_POINTER) else None
    return None


def _resolved(repository: Path, reference: str) -> str:
    """Return the commit that a reference names; empty where there is none."""
    common = repository
    shared = repository / "commondir"  # a worktree has its branches where the repository is
    if shared.is_file():
        common = repository / _text(shared).strip()
    for place in (repository, common):
        loose = place / reference
        if loose.is_file():
            return _text(loose).strip()
    packed = common / "packed-refs"
    if packed.is_file():
        for line in _text(packed).splitlines():
            commit, _, name = line.partition(" ")
            if name == reference:
                return commit
    return ""


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")
