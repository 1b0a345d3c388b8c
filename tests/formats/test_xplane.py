"""XPlane files of JAX and XLA, beside sums over what was written into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from made_xplane import bytes_of, number, plane, profile
from stepscope.analysis.work.work import device_work
from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.formats import read_trace
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from pathlib import Path


def union_ns(spans: list[tuple[int, int]]) -> int:
    total, last = 0, 0
    for start, end in sorted(spans):
        total += max(end - max(start, last), 0)
        last = max(last, end)
    return total


def spans_of(line: tuple[int, list[Any]]) -> list[tuple[int, int]]:
    """Return starts and ends in whole ns."""
    start_ns, events = line
    ends = [(start_ns * 1000 + at, start_ns * 1000 + at + took) for _, at, took, _ in events]
    return [(start // 1000, end // 1000) for start, end in ends]


def test_device_time_equals_a_plain_sum(tmp_path: Path) -> None:
    data, planes = profile(200)
    (tmp_path / "vm.xplane.pb").write_bytes(data)
    trace = read_trace(tmp_path / "vm.xplane.pb")
    work = device_work(trace)
    for at, device in enumerate(work.devices):
        lines = planes[f"/device:GPU:{device}"]
        values = [s for name, line in lines.items() if "Stream" in name for s in spans_of(line)]
        mine = work.device == at
        assert work.busy(mine).total_ns == union_ns(values)
        assert mine.sum() == len(values)
    kinds = trace.slices.kind
    assert (kinds == SliceKind.MEMCPY).sum() == 3 * 50
    assert (kinds == SliceKind.DEVICE_RANGE).sum() == 1


def test_names_steps_frames_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "vm.xplane.pb").write_bytes(profile()[0])
    trace = read_trace(tmp_path / "vm.xplane.pb")
    assert trace.info.host == "node3"
    assert trace.info.wall_offset_ns == 1_700_000_000_000_000_000
    by_name = {trace.name_of(row): row for row in range(len(trace))}
    kinds = {name: SliceKind(int(trace.slices.kind[row])) for name, row in by_name.items()}
    assert kinds["ProfilerStep#3"] is SliceKind.STEP
    assert kinds["$train.py:12 step"] is SliceKind.PYTHON
    assert kinds["cuLaunchKernel"] is SliceKind.RUNTIME
    arguments = trace.slices.args.of_row(by_name["fusion.1"], trace.strings)
    assert arguments["hlo_op"] == "dot.1"
    row = by_name["fusion.1"]
    assert device_work(trace).operator_names(np.array([row])).texts


def test_what_is_told_once_for_a_name_is_an_argument_of_each_event(tmp_path: Path) -> None:
    """A TPU's operators have their FLOPs and category there."""
    stats = bytes_of(5, number(1, 1) + number(3, 4096)) + bytes_of(5, number(1, 2) + number(7, 3))
    name = number(1, 7) + bytes_of(2, number(1, 7) + bytes_of(2, "fusion.7") + stats)
    words = [(1, "flops"), (2, "hlo_category"), (3, "convolution")]
    expected = b"".join(
        bytes_of(5, number(1, key) + bytes_of(2, number(1, key) + bytes_of(2, word)))
        for key, word in words
    )
    events = b"".join(
        bytes_of(4, number(1, 7) + number(2, at * 10_000) + number(3, 5_000)) for at in range(2)
    )
    line = bytes_of(3, number(1, 1) + bytes_of(2, "XLA Ops") + number(3, 10**18) + events)
    data = bytes_of(2, "/device:TPU:0") + line + bytes_of(4, name) + expected
    (tmp_path / "tpu.xplane.pb").write_bytes(bytes_of(1, data))
    trace = read_trace(tmp_path / "tpu.xplane.pb")
    assert trace.slices.kind.tolist() == [SliceKind.KERNEL] * 2
    for row in range(2):
        arguments = trace.slices.args.of_row(row, trace.strings)
        assert arguments == {"flops": 4096, "hlo_category": "convolution"}


def test_damaged_and_other_files(tmp_path: Path) -> None:
    data, _ = profile(50)
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(data[:-40])
    with pytest.warns(TraceReadWarning, match="could be read"):
        assert len(read_trace(path)) > 50
    path.write_bytes(bytes_of(1, number(1, 1) + bytes_of(2, "/host:CPU")))
    with pytest.raises(TraceReadError, match="without an event"):
        read_trace(path)
    huge = plane("/host:CPU", {"a": (1 << 62, [("x", 1 << 62, 1 << 62, {})])})
    path.write_bytes(bytes_of(1, huge))
    with pytest.raises(TraceReadError, match="without an event"):
        read_trace(path)
