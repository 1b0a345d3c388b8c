"""What was recorded is saved somewhere, always, and the exit code is the program's."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from command_line import ENVIRONMENT, script, stepscope_run
from made_trace import Call, trace_of_calls
from stepscope import read_trace
from stepscope.cli.base import saving
from stepscope.cli.base.saving import place, save_somewhere
from stepscope.trace.placing import move_new, numbered, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACE = trace_of_calls([Call("aten::mm", 0, 10)])
SUFFIXES = (".stepscope", ".json", ".json.gz", ".html")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder to fall back on."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(saving, "_fallback_folders", lambda _wanted: iter([folder]))
    yield folder
    assert [path.name for path in tmp_path.rglob(".stepscope-*")] == []


# ---- names


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_many_that_want_one_name_get_one_each(tmp_path: Path, suffix: str) -> None:
    wanted = tmp_path / f"x{suffix}"
    with ThreadPoolExecutor(8) as pool:
        saved = list(pool.map(lambda _: save_somewhere(TRACE, wanted, force=False), range(16)))
    expected = {wanted, *(tmp_path / f"x-{i}{suffix}" for i in range(2, 17))}
    assert set(saved) == expected == set(tmp_path.iterdir())
    if suffix != ".html":
        assert all(len(read_trace(str(path))) == 1 for path in saved)


def test_an_empty_folder_or_a_file_of_the_users_is_taken_too(tmp_path: Path) -> None:
    (tmp_path / "x.stepscope").mkdir()
    (tmp_path / "x-2.stepscope").write_text("mine")
    saved = save_somewhere(TRACE, tmp_path / "x.stepscope", force=False)
    assert saved == tmp_path / "x-3.stepscope"
    assert list((tmp_path / "x.stepscope").iterdir()) == []
    assert (tmp_path / "x-2.stepscope").read_text() == "mine"


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    move_new(tmp_path / "a", tmp_path / "target")
    with pytest.raises(FileExistsError):
        move_new(tmp_path / "b", tmp_path / "target")
    assert (tmp_path / "target").read_text() == "a"


def test_names_have_room_for_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 122 + ".json")
    assert numbered(path, ".json", 1) == path
    name = numbered(path, ".json", 1000).name
    assert name.endswith("é-1000.json")
    assert len(os.fsencode(name)) <= 255
    assert shortened("short", "-2.json") == "short"


@pytest.mark.parametrize("suffix", [".stepscope", ".json"])
def test_force_replaces_and_nothing_else_does(tmp_path: Path, suffix: str) -> None:
    wanted = tmp_path / f"x{suffix}"
    for _ in range(2):
        assert save_somewhere(TRACE, wanted, force=True) == wanted
    assert list(tmp_path.iterdir()) == [wanted]


# ---- places


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("where", ["/proc", "gone", "long"])
def test_one_fallback_for_every_format(
    tmp_path: Path,
    temporary: Path,
    capsys: pytest.CaptureFixture[str],
    suffix: str,
    where: str,
) -> None:
    names = {
        "/proc": Path(f"/proc/x{suffix}"),
        "gone": tmp_path / "gone" / f"x{suffix}",
        "long": tmp_path / ("x" * 300 + suffix),
    }
    saved = save_somewhere(TRACE, names[where], force=False)
    assert saved is not None
    assert saved.parent.parent == temporary
    assert saved.name == f"trace{suffix}"
    assert stat.S_IMODE(saved.parent.stat().st_mode) == 0o700
    output = capsys.readouterr().err.splitlines()
    assert len(output) == 1
    assert f"saving the trace to {saved} instead" in output[0]


def test_a_format_that_fails_leaves_the_other(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = saving.write

    def write(trace: object, path: Path, *, force: bool) -> None:
        if path.suffix == ".json":
            raise MemoryError
        plain(trace, path, force=force)  # type: ignore[arg-type]

    monkeypatch.setattr(saving, "write", write)
    saved = save_somewhere(TRACE, tmp_path / "x.json", force=False)
    assert saved is not None
    assert len(read_trace(str(saved))) == 1
    assert len(list(temporary.iterdir())) == 1


def test_one_that_cannot_be_saved_anywhere_is_one_line_and_leaves_nothing(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving, "write", refuse)
    assert save_somewhere(TRACE, temporary / "x.json", force=False) is None
    assert list(temporary.iterdir()) == []
    (line,) = capsys.readouterr().err.splitlines()
    assert "No space left on device" in line
    assert "it is lost" in line


def test_what_is_written_is_its_owners_alone(tmp_path: Path) -> None:
    os.umask(before := os.umask(0))
    for suffix in SUFFIXES:
        saved = save_somewhere(TRACE, tmp_path / f"x{suffix}", force=False)
        assert saved is not None
        files = [saved, *(saved.iterdir() if saved.is_dir() else ())]
        assert [path for path in files if path.stat().st_mode & 0o077] == [], before
    with pytest.raises(saving.NotPlacedError):
        place(Path("/proc/x.json"), Path.touch, force=False)


# ---- whole runs


def test_odd_names_and_streams_change_nothing_for_the_program(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xff"))
    folder.mkdir()
    code = "open('x.json', 'w').write('mine')\nprint('µ out')\nraise SystemExit(3)"
    path = script(folder, code, f"{'n' * 250}.py")
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "run", "-o", "x.json", path.name],
        cwd=folder,
        env={**ENVIRONMENT, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout == "µ out\n".encode("latin-1")
    assert (folder / "x.json").read_text() == "mine"
    assert path.name in read_trace(str(folder / "x-2.json")).names()
    assert b"Traceback" not in done.stderr


def test_a_stream_that_cannot_show_our_words(tmp_path: Path) -> None:
    script(tmp_path, "raise SystemExit(3)")
    words = ("--no-report", "-o", "/proc/x.json", "program.py")
    done = stepscope_run(*words, cwd=tmp_path, PYTHONIOENCODING="ascii", TMPDIR=str(tmp_path))
    assert done.returncode == 3
    assert done.stdout == ""
    assert re.search(r"\d (ns|us|ms|s)\b", done.stderr)
    assert done.stderr.isascii()
    assert "/proc/x.json cannot be written" in done.stderr.splitlines()[0]  # before the run
    assert len(list(tmp_path.glob("stepscope-*/trace.json"))) == 1


def test_what_cannot_work_is_said_before_the_run(tmp_path: Path) -> None:
    script(tmp_path, "print('ran')")
    (tmp_path / "x.stepscope").write_text("a file")
    (tmp_path / "y.json").mkdir()
    for name in ("x.stepscope", "y.json"):
        done = stepscope_run("--force", "-o", name, "program.py", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
        assert name in done.stderr


def test_without_standard_streams_nothing_of_ours_goes_into_the_programs_files(
    tmp_path: Path,
) -> None:
    """The first files that it opens have the streams' numbers."""
    script(tmp_path, "files = [open(str(i), 'w') for i in range(3)]\nraise SystemExit(3)")
    words = [sys.executable, "-m", "stepscope", "run", "program.py"]
    command = f"exec {shlex.join(words)} <&- >&- 2>&-"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=ENVIRONMENT, check=False)
    assert done.returncode == 3
    assert [(tmp_path / str(i)).read_text() for i in range(3)] == ["", "", ""]
    assert len(list(tmp_path.glob("*.stepscope"))) == 1


def test_quiet_is_quiet_and_code_can_be_run(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv, __name__); sys.exit(4)"
    done = stepscope_run("-q", "-c", code, "a", "-b", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (4, "['-c', 'a', '-b'] __main__\n", "")
    assert [path.name[:5] for path in tmp_path.iterdir()] == ["code-"]
