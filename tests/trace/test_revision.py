"""The commit that a trace is of, read from git's own files."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from stepscope.trace import revision
from stepscope.trace.revision import note_program, revision_of, revision_text
from stepscope.trace.variables import BRANCH_VARIABLES

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "1a2b3c4d5e6f7081920a3b4c5d6e7f8091a2b3c4"


@pytest.fixture(autouse=True)
def _no_program_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what a test notes: later tests of this process would take its folder for theirs."""
    monkeypatch.setattr(revision._Program, "folder", None)
    monkeypatch.setattr(revision._Program, "changed", "")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for word in BRANCH_VARIABLES:
        monkeypatch.delenv(word, raising=False)
    git = tmp_path / "project" / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/feature/fast\n")
    (git / "refs" / "heads" / "feature").mkdir()
    (git / "refs" / "heads" / "feature" / "fast").write_text(f"{COMMIT}\n")
    return tmp_path / "project"


def test_a_branch_that_is_a_file(repository: Path) -> None:
    (repository / "src").mkdir()
    assert revision_of(repository / "src") == {"commit": COMMIT, "branch": "feature/fast"}


def test_a_branch_that_is_packed(repository: Path) -> None:
    (repository / ".git" / "refs" / "heads" / "feature" / "fast").unlink()
    (repository / ".git" / "packed-refs").write_text(
        f"# pack-refs with: peeled\n{'0' * 40} refs/heads/other\n{COMMIT} refs/heads/feature/fast\n"
    )
    assert revision_of(repository)["commit"] == COMMIT


def test_a_commit_alone_has_the_branch_of_the_service(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / ".git" / "HEAD").write_text(f"{COMMIT}\n")
    assert revision_of(repository) == {"commit": COMMIT}
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    assert revision_of(repository) == {"commit": COMMIT, "branch": "main"}


def test_a_worktree(repository: Path, tmp_path: Path) -> None:
    own = repository / ".git" / "worktrees" / "second"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/feature/fast\n")
    (own / "commondir").write_text("../..\n")
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / ".git").write_text(f"gitdir: {own}\n")
    assert revision_of(tmp_path / "second") == {"commit": COMMIT, "branch": "feature/fast"}


def test_nothing_is_known_without_a_commit(repository: Path, tmp_path: Path) -> None:
    (repository / ".git" / "refs" / "heads" / "feature" / "fast").unlink()
    assert revision_of(repository) == {}
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / ".git").write_bytes(b"\xff\x00 what")
    assert revision_of(tmp_path / "broken") == {}


def test_no_program_runs_where_there_is_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if revision._repository(tmp_path.resolve()) is not None:
        pytest.skip("the temporary folder is in a repository")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("git was run"))
    note_program(tmp_path)
    assert revision.revision("", str(tmp_path), "/usr", {}) == {}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_changes_are_told_by_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch", "trunk")
    (tmp_path / "train.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    note_program(tmp_path)
    assert revision.revision("", str(tmp_path), "/usr", {})["changed"] == "no"
    (tmp_path / "train.py").write_text("2")
    note_program(tmp_path)
    result = revision.revision("", str(tmp_path), "/usr", {})
    assert (result["branch"], result["changed"]) == ("trunk", "yes")
    assert revision_text(result).endswith(" on trunk, with changes that are not committed")
