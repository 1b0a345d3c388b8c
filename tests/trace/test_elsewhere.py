"""Bytes that are not those that were saved are read elsewhere: they cannot end this process."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from made_trace import Call, trace_of_calls
from stepscope.errors import TraceReadError
from stepscope.trace import elsewhere, store
from stepscope.trace.elsewhere import Trial, checksum, read_elsewhere
from stepscope.trace.model import Trace

if TYPE_CHECKING:
    from pathlib import Path

_LENGTH = re.compile(rb"[\0-\xff]{3}\0{5}\x28\xb5\x2f\xfd")  # before a frame of zstd


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "run.stepscope"
    trace_of_calls([Call(f"call {i}", 10 * i, 10 * i + 9) for i in range(1000)]).save(path)
    return path


def damage_length(path: Path, length: int) -> None:
    """Change what the first buffer of the slices unpacks to."""
    file = path / "slices.arrow"
    data = file.read_bytes()
    at = next(match.start() for match in _LENGTH.finditer(data))
    file.write_bytes(data[:at] + length.to_bytes(8, "little") + data[at + 8 :])


def test_what_was_saved_is_read_here(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "read_elsewhere", pytest.fail)
    assert len(Trace.load(saved).slices) == 1000


@pytest.mark.slow  # one process a table
@pytest.mark.parametrize("checksums", [None, [], {}, {"slices": "x"}, {"slices": -1}])
def test_a_trace_without_checksums_is_read(saved: Path, checksums: object) -> None:
    """Those of an earlier Stepscope have none."""
    meta = json.loads((saved / "meta.json").read_text())
    meta["checksums"] = checksums
    (saved / "meta.json").write_text(json.dumps(meta))
    assert len(Trace.load(saved).slices) == 1000


def test_a_table_that_another_tool_wrote_is_read(saved: Path) -> None:
    file = saved / "slices.arrow"
    frame = pl.read_ipc(file.read_bytes())
    frame.write_ipc(file, compression="lz4")
    known = json.loads((saved / "meta.json").read_text())["checksums"]["slices"]
    assert checksum(file.read_bytes()) != known
    assert len(Trace.load(saved).slices) == 1000


@pytest.mark.parametrize("length", [1 << 40, 1 << 50, (1 << 63) - 1])
def test_a_length_that_no_machine_has_ends_nothing(saved: Path, length: int) -> None:
    damage_length(saved, length)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "summary", saved],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = "is incomplete: slices.arrow is truncated or damaged\n"
    if done.returncode:  # later releases of Polars do not need that length, and read the rest
        assert done.returncode == 2, done.stderr
        assert done.stderr.endswith(told)
        assert done.stderr.count("\n") == 1
    else:
        assert "call 29" in done.stdout


def test_one_that_takes_too_long_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "_CODE", "import time; time.sleep(60)")
    monkeypatch.setattr(elsewhere, "_SECONDS", 0.1)
    assert read_elsewhere(b"x", 9) == Trial(None, None)
    damage_length(saved, 5)
    with pytest.raises(TraceReadError, match=r"slices.arrow is truncated or damaged"):
        Trace.load(saved)


def test_without_an_interpreter_it_is_read_here(
    saved: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    assert len(Trace.load(saved).slices) == 1000
    shutil.copy(saved / "owners.arrow", saved / "held.arrow")
    with pytest.raises(TraceReadError, match=r"is damaged: held.arrow"):
        Trace.load(saved)
