"""What readers refuse: pipes and devices, values of any length, more than memory holds."""

from __future__ import annotations

import gzip
import json
import os
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.errors import TraceReadError
from stepscope.formats import read_trace
from stepscope.formats.base import gzip as reading
from stepscope.formats.chrome import read as chrome
from stepscope.trace.kinds import step_number

if TYPE_CHECKING:
    from pathlib import Path

EVENT = '{"ph": "X", "ts": 1, "dur": 2, "name": "a"}'


@pytest.mark.parametrize("suffix", [".json", ".pb"])
def test_pipes_and_devices_are_refused(tmp_path: Path, suffix: str) -> None:
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    with pytest.raises(TraceReadError, match="it is a named pipe, not a regular file"):
        read_trace(pipe)
    device = tmp_path / f"device{suffix}"
    device.symlink_to("/dev/zero")
    with pytest.raises(TraceReadError, match="it is a device, not a regular file"):
        read_trace(device)


def test_a_value_is_no_longer_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chrome, "_LONGEST_EVENT_BYTES", 4 << 20)
    monkeypatch.setattr(chrome, "_LONGEST_VALUE_BYTES", 8 << 20)
    long = "x" * (6 << 20)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(f'[{EVENT}, {{"ph": "X", "name": "{long}"}}]'.encode(), 1))
    too_long = r"one event of more than 4.00 MiB, the limit \(after 1 "
    with pytest.raises(TraceReadError, match=too_long):
        read_trace(path)
    path.write_bytes(gzip.compress(f'{{"a": "{long}", "traceEvents": [{EVENT}]}}'.encode(), 1))
    assert len(read_trace(path)) == 1
    text = f'{{"a": "{long}{long}", "traceEvents": [{EVENT}]}}'
    path.write_bytes(gzip.compress(text.encode(), 1))
    with pytest.raises(TraceReadError, match=r"one value of more than 8.00 MiB, the limit"):
        read_trace(path)


def test_reading_ends_where_memory_would_not_suffice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = iter(range(0, 100_000_000_000, 1_000_000_000))
    monkeypatch.setattr(reading, "own_memory_bytes", lambda: next(taken))
    monkeypatch.setattr(reading, "free_memory_bytes", lambda: 4_000_000_000)
    monkeypatch.setattr(reading, "_CHUNKS_A_LOOK", 1)
    path = tmp_path / "t.json"
    path.write_text(f"[{', '.join([EVENT] * 150_000)}]")
    needed = r"needs more memory than is free here: 2.79 GiB of 3.73 GiB"
    with pytest.raises(TraceReadError, match=needed):
        read_trace(path)


def test_memory_that_nobody_has_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(chrome, "_columns", fail)
    path = tmp_path / "t.json"
    path.write_text(f"[{EVENT}]")
    with pytest.raises(TraceReadError, match="needs more memory than this process can have"):
        read_trace(path)


@pytest.mark.parametrize(
    "name", ["ProfilerStep#99999999999", "ProfilerStep#2147483648", "ProfileStep#" + "9" * 5000]
)
def test_a_step_number_beyond_the_column_is_none(tmp_path: Path, name: str) -> None:
    assert step_number(name) is None
    assert step_number("ProfilerStep#2147483647") == 2**31 - 1
    event = {"ph": "X", "ts": 1, "dur": 2, "cat": "user_annotation", "name": name}
    path = tmp_path / "t.json"
    path.write_text(json.dumps([event]))
    assert read_trace(path).slices.step.tolist() == [-1]


@pytest.mark.parametrize("value", [1e308, float("inf"), float("nan"), -5, 10**30, "soon", None])
@pytest.mark.parametrize("key", ["ts", "weight"])
def test_samples_of_impossible_times_are_left_out(tmp_path: Path, key: str, value: Any) -> None:
    sample = {"name": "running", "pid": 1, "tid": 1, "ts": 1.0, "weight": 2.0, "sf": "0"}
    text = {
        "traceEvents": [{"ph": "X", "ts": 1, "dur": 2, "name": "a", "pid": 1, "tid": 1}],
        "stepscope": {},
        "stackFrames": {},
        "samples": [sample | {key: value}],
    }
    path = tmp_path / "t.json"
    path.write_text(json.dumps(text))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace = read_trace(path)
    if len(trace.samples):  # -5 µs is a time, if an odd one
        assert (key, value) == ("ts", -5)
