"""The version of the program in a trace: the git commit of its folder.

Commit and branch are read from the repository's files, without running a program. Only git can tell
whether there are uncommitted changes; ``note_program`` asks it for a run's answer, and the result
is kept for the traces of this process.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.trace.regular_file import open_regular
from stepscope.trace.variables import BRANCH_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMIT, BRANCH, CHANGED = "commit", "branch", "changed"

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_POINTER = "gitdir: "
_REFERENCE = "ref: "
_MOST_BYTES = 10_000_000  # a larger file with references is unlikely to be git's
_PATIENCE_S = 2.0  # a big repository on a slow disk takes longer: then the state is unknown


class _Program:
    """The program that this process runs."""

    folder: Path | None = None
    changed: str = ""


def revision(
    main_file: str, folder: str, prefix: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return commit, branch and whether files are changed, of a program; or nothing.

    ``prefix`` is that of the program's Python.
    """
    try:
        program = _Program.folder or _program_folder(main_file, folder, prefix)
        commit = revision_of(program, environ)
    except (OSError, ValueError):  # for example a name with a NUL character
        return {}
    return {**commit, CHANGED: _Program.changed} if commit and _Program.changed else commit


def _program_folder(main_file: str, folder: str, prefix: str) -> Path:
    """Return the main file's folder; the current one if that is a tool's, or missing."""
    if main_file:
        of_program = Path(folder, main_file).resolve().parent
        if not of_program.is_relative_to(Path(prefix).resolve()):
            return of_program
    return Path(folder)


def revision_of(folder: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return commit and branch of the repository around a folder; empty without one."""
    repository = _repository(folder)
    if repository is None:
        return {}
    head = _text(repository / "HEAD").strip()
    about: dict[str, str] = {}
    if head.startswith(_REFERENCE):
        reference = head.removeprefix(_REFERENCE)
        commit = _resolved(repository, reference)
        about[BRANCH] = reference.removeprefix("refs/heads/")
    else:
        commit = head
        branch = next((environ[name] for name in BRANCH_VARIABLES if environ.get(name)), "")
        if branch:
            about[BRANCH] = branch
    if not _HASH.fullmatch(commit):
        return {}  # no commit yet
    return {COMMIT: commit, **about}


def note_program(folder: Path) -> None:
    """Note the program's folder, and ask git whether tracked files differ from the commit."""
    _Program.folder, _Program.changed = folder, ""
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
        return  # git is missing, or refuses this folder
    _Program.changed = "yes" if done.stdout.strip() else "no"


def revision_text(about: Mapping[str, str]) -> str:
    """Return a revision for people: ``1a2b3c4d5e on main, with changes``."""
    branch = f" on {about[BRANCH]}" if about.get(BRANCH) else ""
    changed = ", with changes that are not committed" if about.get(CHANGED) == "yes" else ""
    return f"{about.get(COMMIT, '')[:10]}{branch}{changed}"


def _repository(folder: Path) -> Path | None:
    """Return git's folder for the repository around a folder."""
    for above in (folder, *folder.parents):
        inside = above / ".git"
        if inside.is_dir():
            return inside
        if inside.is_file():  # of a worktree or a submodule
            pointer = _text(inside).strip()
            return (
                (above / pointer.removeprefix(_POINTER)) if pointer.startswith(_POINTER) else None
            )
    return None


def _resolved(repository: Path, reference: str) -> str:
    """Return the commit of a reference; empty if it is unknown."""
    common = repository
    shared = repository / "commondir"  # a worktree's branches are in the main repository
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
    with open_regular(path) as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")
