"""``stepscope migrate``: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import stat
import sys
from typing import TYPE_CHECKING

import pytest

from stepscope.cli import main

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("libcst")

TORCH = "from torch.profiler import profile\nwith profile(with_stack=True) as p: pass\n"
PADDLE = (
    "from paddle.profiler import Profiler\nwith Profiler() as p: pass  "
    "# stepscope migrate: with_stack has no counterpart in paddle.profiler\n"
)


def program(folder: Path, text: str = TORCH, name: str = "train.py") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_one_file_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(tmp_path)
    assert main(["migrate", str(path), "--to", "paddle"]) == 0
    shown = capsys.readouterr()
    assert shown.out == PADDLE
    assert shown.err == f"stepscope: {path}: 2 names of torch.profiler converted, 1 line marked\n"
    assert path.read_text() == TORCH


def test_several_files_are_printed_as_a_diff(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [program(tmp_path), program(tmp_path, TORCH.replace("_stack", "_flops"), "test.py")]
    assert main(["migrate", *map(str, paths), "--to", "paddle"]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.startswith("---")] == [
        f"--- {path}" for path in paths
    ]
    assert "-from torch.profiler import profile\n" in shown
    assert "+from paddle.profiler import Profiler\n" in shown


def test_diff_is_what_patch_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(tmp_path, "from torch.profiler import profile")
    assert main(["migrate", str(path), "--to", "stepscope", "--diff"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "@@ -1 +1 @@",
        "-from torch.profiler import profile",
        "\\ No newline at end of file",
        "+from stepscope import profile",
        "\\ No newline at end of file",
    ]


def test_write_changes_the_file_and_keeps_its_mode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = program(tmp_path)
    path.chmod(0o750)
    link = tmp_path / "link.py"
    link.symlink_to(path)
    assert main(["migrate", str(link), "--to", "paddle", "--write"]) == 0
    assert path.read_text() == PADDLE
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert link.is_symlink()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link.py", "train.py"]
    assert capsys.readouterr().out == ""


def test_write_keeps_encoding_and_newlines(tmp_path: Path) -> None:
    text = "# coding: latin-1\r\nimport torch.profiler as tp  # für é\r\np = tp.profile()\r\n"
    path = tmp_path / "old.py"
    path.write_bytes(text.encode("latin-1"))
    assert main(["migrate", str(path), "--to", "paddle", "--write"]) == 0
    expected = text.replace("torch", "paddle").replace("profile()", "Profiler()")
    assert path.read_bytes() == expected.encode("latin-1")

    path.write_bytes(b"\xef\xbb\xbfimport torch\r\np = torch.profiler.profile()")
    assert main(["migrate", str(path), "--to", "stepscope", "--write"]) == 0
    assert path.read_bytes() == (
        b"\xef\xbb\xbfimport torch\r\nimport stepscope\r\np = stepscope.profile()"
    )


@pytest.mark.parametrize("how", [[], ["--diff"], ["--write"]])
def test_a_file_without_profiler_code_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: list[str]
) -> None:
    path = program(tmp_path, "import torch\n")
    before = path.stat().st_mtime_ns, path.stat().st_ino
    assert main(["migrate", str(path), "--to", "paddle", *how]) == 0
    shown = capsys.readouterr()
    assert shown.out == ("" if how else "import torch\n")
    assert shown.err == f"stepscope: {path}: no profiler code, left unchanged\n"
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before


def test_a_file_that_is_converted_already_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = program(tmp_path, PADDLE)
    assert main(["migrate", str(path), "--to", "paddle", "--write"]) == 0
    assert capsys.readouterr().err == f"stepscope: {path}: already uses paddle, left unchanged\n"
    assert path.read_text() == PADDLE


def test_a_bad_file_leaves_all_files_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = program(tmp_path)
    broken = program(tmp_path, "from torch.profiler import profile\nprint 'x'\n", "broken.py")
    assert main(["migrate", str(good), str(broken), "--to", "paddle", "--write"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"stepscope: {broken}, line 2: Missing parentheses in call to")
    assert shown.err.count("\n") == 1
    assert good.read_text() == TORCH


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = '\xff'\n", "cannot be decoded"),
        (b"# coding: no-such-code\n", "cannot be decoded (unknown encoding"),
        (b"x = 1\n\x00", "null bytes"),
        (b"def f(:\n", "line 1: invalid syntax"),
        (b"x = (\n", "line 1: '(' was never closed"),
        (b"(" * 30_000 + b")" * 30_000, "too many nested parentheses"),
        (b"x = " + b"-" * 50_000 + b"1", "nested too deeply"),
        (b"if a: pass\n" + b"elif b: pass\n" * 900, "nested too deeply"),
    ],
)
def test_what_is_no_program_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, message: str
) -> None:
    path = tmp_path / "bad.py"
    path.write_bytes(data)
    assert main(["migrate", str(path), "--to", "torch", "--write"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert str(path) in error
    assert error.count("\n") == 1
    assert path.read_bytes() == data


def test_a_missing_file_and_a_folder_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing.py"
    assert main(["migrate", str(missing), str(tmp_path), "--to", "torch"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"stepscope: {missing}: No such file or directory",
        f"stepscope: {tmp_path} is a folder; give the name of a Python file",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.py"], "--to"),
        (["x.py", "--to", "jax"], "jax"),
        (["--to", "torch"], "FILE"),
        (["x.py", "--to", "torch", "--write", "--diff"], "not allowed with"),
    ],
)
def test_wrong_arguments_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["migrate", *words]) == 2
    assert message in capsys.readouterr().err


def test_without_libcst_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("stepscope.migrate")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "libcst", None)
    assert main(["migrate", str(program(tmp_path)), "--to", "torch"]) == 2
    assert "pip install libcst" in capsys.readouterr().err
