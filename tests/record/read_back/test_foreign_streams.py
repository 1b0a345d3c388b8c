"""A stream folder that somebody sends is data: nothing that it names is run, written or removed."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscope.errors import TraceReadError
from stepscope.record.read_back.sealing import sealed
from stepscope.record.stream.places import MEMORY_VARIABLE, StreamFolders, read_folders
from stepscope.record.stream.processes import ProcessId
from stepscope.trace.plain import PlainError, packed, unpacked
from stepscope.trace.table import IntColumn

DEAD = ProcessId(1 << 22, 1, image=1, boot="", namespace="", host=os.uname().nodename)


class Touch:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def foreign_folder(place: Path, **claims: object) -> Path:
    """Make the folder of a stream whose description says what the test wants."""
    folder = place / "sent.stepscope"
    folder.mkdir()
    StreamFolders(str(folder), "", DEAD, {"program": "sent"}).write()
    described = json.loads((folder / "stream.json").read_text())
    (folder / "stream.json").write_text(json.dumps({**described, **claims}))
    return folder


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where runs of this test have their memory."""
    monkeypatch.setenv(MEMORY_VARIABLE, str(tmp_path / "memory"))
    base = tmp_path / "memory" / f"stepscope-{os.getuid()}"
    base.mkdir(parents=True, mode=0o700)
    return base


def test_a_folder_that_names_another_one_neither_runs_nor_removes_it(
    tmp_path: Path, memory: Path
) -> None:
    decoy = tmp_path / "wandb" / "run-abc"
    (decoy / "children" / "1").mkdir(parents=True, mode=0o700)
    (decoy / "children" / "1" / "1-1.pickle").write_bytes(pickle.dumps(Touch(tmp_path / "ran")))
    (decoy / "notes.txt").write_text("precious")
    before = tree(decoy)
    folder = foreign_folder(tmp_path, memory=str(decoy), disk=str(decoy), version=2)
    with pytest.raises(TraceReadError, match="holds no process"):
        sealed(folder)
    assert tree(decoy) == before
    assert not (tmp_path / "ran").exists()
    assert (folder / "stream.json").is_file(), "what is not provably ours is only read"


def test_the_memory_of_another_run_is_not_taken(tmp_path: Path, memory: Path) -> None:
    own = tmp_path / "own.stepscope"
    own.mkdir()
    (memory / "run-1").mkdir()
    true = StreamFolders(str(own), str(memory / "run-1"), DEAD)
    true.write()
    assert read_folders(own).memory == str(memory / "run-1")
    # The same owner, and even the same place in the file system, but not the secret of both.
    folder = foreign_folder(tmp_path, owner={**DEAD._asdict()})
    number = [folder.stat().st_dev, folder.stat().st_ino]
    inside = json.loads((memory / "run-1" / "stream.json").read_text())
    (memory / "run-1" / "stream.json").write_text(json.dumps({**inside, "disk_number": number}))
    assert read_folders(folder).memory == ""
    assert not read_folders(folder).is_ours


@pytest.mark.parametrize(
    "claims",
    [
        {"owner": {"pid": "../../x"}},
        {"owner": {**DEAD._asdict(), "pid": "1"}},
        {"owner": {**DEAD._asdict(), "start_time": 1.5}},
        {"about": []},
        {"secret": None},
        {"format": "a song"},
        {"version": 1},
    ],
)
def test_a_description_of_other_types_is_refused(
    tmp_path: Path, memory: Path, claims: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=r"stream\.json"):
        read_folders(foreign_folder(tmp_path, **claims))


def test_a_description_that_is_a_link_or_a_pipe_is_refused(tmp_path: Path, memory: Path) -> None:
    folder = foreign_folder(tmp_path)
    described = folder / "stream.json"
    described.rename(tmp_path / "elsewhere.json")
    described.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ValueError, match=r"stream\.json cannot be read"):
        read_folders(folder)
    described.unlink()
    os.mkfifo(described)
    with pytest.raises(ValueError, match=r"stream\.json cannot be read"):
        read_folders(folder)


def test_summary_of_a_foreign_folder_changes_nothing_and_starts_no_process(
    tmp_path: Path, memory: Path
) -> None:
    folder = foreign_folder(tmp_path, about={"output": str(tmp_path / "x"), "suffix": "/../../y"})
    before = tree(tmp_path)
    code = """
import sys
def watch(event, args):
    if event.partition(".")[0] in {"subprocess", "pickle"} or event in {
        "os.exec", "os.fork", "os.posix_spawn", "os.remove", "os.rename", "shutil.rmtree",
    }:
        raise SystemExit(f"{event} {args}")
from stepscope.cli import main
sys.addaudithook(watch)
main(["summary", sys.argv[1]])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
    )
    assert "it holds no process that recorded anything" in done.stderr
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path) == before


def test_plain_bytes_make_only_the_classes_that_the_reader_names() -> None:
    value = {"rows": IntColumn(np.arange(3, dtype=np.uint32), np.ones(3, np.int64)), "n": (1, None)}
    again = unpacked(packed(value), [IntColumn])
    assert again["n"] == (1, None)
    assert again["rows"].rows.tolist() == [0, 1, 2]
    with pytest.raises(PlainError, match="IntColumn"):
        unpacked(packed(value), [])
    with pytest.raises(PlainError):
        unpacked(pickle.dumps(value), [IntColumn])
    objects = packed(value).replace(b"<i8", b"|O ")
    with pytest.raises(PlainError):
        unpacked(objects, [IntColumn])
    with pytest.raises(TypeError, match="is no plain value"):
        packed(object())
