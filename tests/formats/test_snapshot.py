"""PyTorch's memory snapshots, beside sums by plain Python over the same file."""

from __future__ import annotations

import gzip
import os
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from made_snapshot import FIRST_US, peak_of, snapshot, stack
from stepscope.analysis.memory.peak import peak_memory
from stepscope.analysis.memory.timeline import memory_timeline
from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.formats import read_trace
from stepscope.trace.model import SliceFlags

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace


def written(path: Path, snapshot: Any, protocol: int = pickle.DEFAULT_PROTOCOL) -> Path:
    path.write_bytes(pickle.dumps(snapshot, protocol))
    return path


def frames(trace: Trace, row: int) -> list[str]:
    return [trace.strings[i] for i in trace.stacks.frames(row)]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_peaks_equal_plain_sums(tmp_path: Path, protocol: int) -> None:
    document = snapshot(1500)
    trace = read_trace(written(tmp_path / "s.pickle", document, protocol))
    for device in (0, 1):
        peak, end = peak_of(document, device)
        result = peak_memory(trace, f"cuda:{device}")
        assert result is not None
        assert result.bytes == peak
        rows = trace.memory.device == trace.strings.ids_of([f"cuda:{device}"])[f"cuda:{device}"]
        assert trace.memory.allocated[rows][-1] == end
        assert trace.memory.reserved[rows][-1] == 2 << 30
    changes = [
        event["size"] * (1 if event["action"] == "alloc" else -1)
        for part in document["device_traces"]
        for event in part
        if event["action"] in {"alloc", "free_completed"}
    ]
    in_history = trace.memory.take(trace.memory.time_ns >= 0)
    assert sorted(in_history.size[in_history.size != 0].tolist()) == sorted(changes)


def test_events_have_their_stacks_times_and_neighbours(tmp_path: Path) -> None:
    document = snapshot()
    trace = read_trace(written(tmp_path / "s.pickle", document))
    first = next(e for e in document["device_traces"][0] if e["action"] == "alloc")
    row = int(np.flatnonzero(trace.memory.address == first["addr"])[0])
    assert frames(trace, trace.memory.stack[row]) == [
        f"{f['filename']}({f['line']}): {f['name']}" for f in first["frames"]
    ]
    assert trace.info.wall_offset_ns == FIRST_US * 1000
    assert trace.memory.time_ns[row] // 1000 == first["time_us"] - FIRST_US
    assert trace.names and [trace.name_of(i) for i in range(len(trace))] == [
        "ProfilerStep#0",
        "open",
    ]
    assert trace.slices.flags.tolist() == [0, SliceFlags.UNFINISHED]
    assert [trace.strings[int(i)] for i in trace.marks.name] == ["out of memory"] * 2
    assert trace.info.user["allocator_settings"]["ratio"] == 0.5
    trace.save(tmp_path / "copy.stepscope")  # stacks and all
    again = read_trace(tmp_path / "copy.stepscope")
    assert frames(again, again.memory.stack[row]) == frames(trace, trace.memory.stack[row])


def test_what_holds_memory_is_named_by_its_line(tmp_path: Path) -> None:
    here = stack(("/lib/python3/site-packages/torch/nn.py", 3, "f"), ("/home/me/train.py", 7, "go"))
    values = {
        "segments": [],
        "device_traces": [
            [{"action": "alloc", "addr": 1 << 63, "size": 10, "stream": 0, "frames": here}]
        ],
    }
    trace = read_trace(written(tmp_path / "s.pickle", values))
    peak = peak_memory(trace, "cuda:0")
    assert peak is not None
    assert [(h.line, h.bytes) for h in peak.holders] == [("/home/me/train.py(7): go", 10)]
    assert memory_timeline(trace).blocks.address.tolist() == [-(1 << 63)]


def test_early_layouts(tmp_path: Path) -> None:
    """Blocks without addresses follow each other; their history tells size and stack."""
    history = [{"addr": 5, "real_size": 100, "frames": stack(("a.py", 1, "f"))}]
    blocks = [
        {"size": 512, "state": "inactive"},
        {"size": 512, "state": "active_allocated", "history": history},
    ]
    segment = {"device": 1, "address": 4096, "total_size": 1024, "stream": 0, "blocks": blocks}
    for item in ([segment], {"segments": [segment], "device_traces": [[], []]}):
        trace = read_trace(written(tmp_path / "s.pickle", item))
        assert trace.memory.address.tolist() == [4096 + 512]
        assert trace.memory.size.tolist() == [100]
        assert frames(trace, trace.memory.stack[0]) == ["a.py(1): f"]


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch was-here",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_runs_something_is_refused(
    tmp_path: Path, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = {**snapshot(20), "device_traces": [[Evil()]]}
    with pytest.raises(TraceReadError) as error:
        read_trace(written(tmp_path / "evil.pickle", expected, protocol))
    assert not (tmp_path / "was-here").exists()
    if protocol >= 2:
        assert "posix.system" in str(error.value)
        assert "was not run" in str(error.value)


def test_damaged_and_other_pickles(tmp_path: Path) -> None:
    whole = pickle.dumps(snapshot(4000))
    (tmp_path / "cut.pickle").write_bytes(whole[: len(whole) // 2])
    with pytest.warns(TraceReadWarning, match="ends early"):
        assert len(read_trace(tmp_path / "cut.pickle").memory) > 100
    (tmp_path / "s.pickle.gz").write_bytes(gzip.compress(whole))
    assert len(read_trace(tmp_path / "s.pickle.gz").memory) > 3000
    with pytest.raises(TraceReadError, match="not a memory snapshot"):
        read_trace(written(tmp_path / "other.pickle", {"weights": [1.5, None, b"x", 10**30]}))
    (tmp_path / "bad.pickle").write_bytes(b"\x80\x04]e.")
    with pytest.raises(TraceReadError, match=r"ends a container that it did not begin \(byte 3\)"):
        read_trace(tmp_path / "bad.pickle")
