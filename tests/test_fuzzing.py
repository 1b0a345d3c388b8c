"""Some seconds of what `make fuzz` does, and every case that has ever failed."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fuzzing import files, folders, seeds, verbs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
_FOREIGN_SECONDS = 3.0
_SECONDS = 7.0  # of processor time for our own folders, and for other tools' files

# What failed once, by seed and case; case N of a seed is the same as long as fuzzing/ is.
FAILED_FOLDERS: tuple[str, ...] = ("2/273", "2/706", "2/1250")
FAILED_FILES: tuple[str, ...] = (
    "3/144",
    "3/322",
    "3/850",
    "3/2083",
    "3/2652",
    "3/4769",
    "3/5811",
    "3/7270",
    "3118/8395",
)
FAILED_FOREIGN: tuple[str, ...] = ("3119/1555",)


@pytest.fixture(scope="module")
def whole_folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return seeds.save_folders(tmp_path_factory.mktemp("folders"))


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return seeds.save_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def foreign_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return seeds.save_foreign_files(tmp_path_factory.mktemp("foreign"))


def one_folder(name: str, wholes: list[Path], place: Path) -> None:
    rng = random.Random(name)
    path = folders.copy(rng.choice(wholes), place / "case.stepscope")
    what = folders.mutate(path, rng)
    try:
        verbs.use(path, verbs.some_verbs(rng, 2), place / "out")
    except verbs.Problem as problem:
        pytest.fail(f"case {name}: {what}: {problem}")


def one_file(name: str, wholes: list[Path], place: Path) -> None:
    rng = random.Random(name)
    whole = rng.choice(wholes)
    path = place / f"case{whole.suffix}"
    what = files.mutate(whole, path, rng)
    try:
        verbs.use(path, verbs.some_verbs(rng, 2), place / "out")
    except verbs.Problem as problem:
        pytest.fail(f"case {name}: {whole.name}: {what}: {problem}")


def test_damaged_folders_are_used_or_refused(whole_folders: list[Path], tmp_path: Path) -> None:
    for name in FAILED_FOLDERS:
        one_folder(name, whole_folders, tmp_path)
    case, end = 0, time.process_time() + _SECONDS
    while time.process_time() < end:
        one_folder(f"1/{case}", whole_folders, tmp_path)
        case += 1
    assert case


def test_damaged_files_are_used_or_refused(whole_files: list[Path], tmp_path: Path) -> None:
    for name in FAILED_FILES:
        one_file(name, whole_files, tmp_path)
    case, end = 0, time.process_time() + _SECONDS
    while time.process_time() < end:
        one_file(f"1/{case}", whole_files, tmp_path)
        case += 1
    assert case


def test_damaged_files_of_other_profilers_are_used_or_refused(
    foreign_files: list[Path], tmp_path: Path
) -> None:
    for name in FAILED_FOREIGN:
        one_file(name, foreign_files, tmp_path)
    case, end = 0, time.process_time() + _FOREIGN_SECONDS
    while time.process_time() < end:
        one_file(f"1/{case}", foreign_files, tmp_path)
        case += 1
    assert case


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler here")
def test_verbs_say_in_one_line_which_operation_failed() -> None:
    """One of many operations: `make fuzz` makes each of them fail."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "fail_files.py", "--no-run", "--every", "29"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
