"""Converts Paddle's profiler result (a protobuf message NodeTreesProto) to columns.

This is no reader of files, as the source that records Paddle gets such bytes, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import _native
from stepscope.frameworks.paddle.memory_events import MemoryBefore, memory_of
from stepscope.trace.model import Args, IntColumn, Track
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.trace.model import Int64

    Columns = Mapping[str, Any]  # the result of _native.read_paddle_trees

PRODUCER = "paddle"  # TraceInfo.producer of Paddle's files
# Paddle keeps device work only below a runtime call. This name stands for a call that was not
# recorded; our writer adds it and our reader skips it.
NO_LAUNCH = "launch not recorded"

# The fields of a device in the protobuf, and their keys in Paddle's JSON.
PROPERTIES = {
    1: "id",
    3: "totalGlobalMem",
    4: "computeMajor",
    5: "computeMinor",
    6: "maxThreadsPerBlock",
    7: "maxThreadsPerMultiprocessor",
    8: "regsPerBlock",
    9: "regsPerMultiprocessor",
    10: "warpSize",
    11: "sharedMemPerBlock",
    12: "sharedMemPerMultiprocessor",
    13: "smCount",
    14: "sharedMemPerBlockOptin",
}


@dataclass(frozen=True, slots=True)
class PaddleFile:
    """A result file: its events, ready to build a Trace, and its other contents."""

    captured: Captured
    version: str = ""
    span_index: int = 0
    extra_info: Mapping[str, str] = field(default_factory=dict)
    device_properties: tuple[Mapping[str, Any], ...] = ()
    memory_before: Mapping[str, MemoryBefore] = field(default_factory=dict)  # by device
    anomalies: Mapping[str, int] = field(default_factory=dict)
    damage: str = ""  # what is wrong with the file; empty if nothing is
    first_ns: int = 0  # the start of the first event
    # The slice that each slice and each memory event is in: NO_PARENT for none, less if the file
    # does not say.
    parent: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    memory_parent: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))

    def user(self) -> dict[str, Any]:
        """Return the content of TraceInfo.user, under the keys of Paddle's JSON."""
        user: dict[str, Any] = {
            "schemaVersion": self.version,
            "span_index": str(self.span_index),
            "ExtraInfo": dict(self.extra_info),
        }
        if self.device_properties:
            user["deviceProperties"] = [dict(device) for device in self.device_properties]
        if self.memory_before:
            user["memoryBefore"] = {
                device: before._asdict() for device, before in self.memory_before.items()
            }
        return user


def captured_from_pb(data: bytes, *, shift_ns: int) -> Captured:
    """Return the events of a result file; ``shift_ns`` is added to their times."""
    return paddle_file(data, shift_ns=shift_ns).captured


def paddle_file(data: bytes, *, shift_ns: int = 0, from_first: bool = False) -> PaddleFile:
    """Decode a result file; times are Unix time in ns plus ``shift_ns``.

    With ``from_first``, times count from the first event. Damaged bytes are decoded as far as
    possible; ``damage`` describes the problem.
    """
    columns = _native.read_paddle_trees(data)
    first_ns = _first_ns(columns)
    if from_first:
        shift_ns = -first_ns
    slices = columns["slices"]
    integers, rest = slices["args"]
    raw = Slices.of(
        category=slices["category"],
        name=slices["name"],
        start_ns=slices["start_ns"] + shift_ns,
        duration_ns=slices["duration_ns"],
        track=slices["track"],
        correlation=slices["correlation"],
        args=Args({key: IntColumn(*column) for key, column in integers.items()}, rest),
    )
    strings, memory, before = memory_of(columns["memory"], Strings(*columns["strings"]), shift_ns)
    extra = dict(columns["extra_info"])
    return PaddleFile(
        captured=Captured(raw, _tracks(columns["tracks"], extra), strings, memory=memory),
        version=columns["version"] or "",
        span_index=columns["span_index"],
        extra_info=extra,
        device_properties=tuple(map(_device, columns["device_properties"])),
        memory_before=before,
        anomalies=columns["anomalies"],
        damage=_damage(columns),
        first_ns=first_ns,
        parent=slices["parent"],
        memory_parent=columns["memory"]["parent"],
    )


def _first_ns(columns: Columns) -> int:
    slices, memory = columns["slices"], columns["memory"]
    times = slices["start_ns"] if len(slices["start_ns"]) else memory["time_ns"]
    return int(times.min(initial=np.iinfo(np.int64).max)) if len(times) else 0


def _damage(columns: Columns) -> str:
    if columns["ends_early"]:
        return "the file ends early"
    if columns["broken_at"] is not None:
        return f"not valid protobuf from byte {columns['broken_at']} on"
    skipped = columns["anomalies"].get("malformed events skipped", 0)
    return f"{skipped} malformed events" if skipped else ""


def _tracks(
    places: list[tuple[bool, int, int]], thread_names: Mapping[str, str]
) -> tuple[Track, ...]:
    return tuple(
        device_track(process, thread)
        if is_device
        else thread_track(process, thread, thread_names.get(str(thread), ""))
        for is_device, process, thread in places
    )


def thread_track(pid: int, tid: int, name: str) -> Track:
    return Track(
        pid=str(pid),
        tid=str(tid),
        process_name=f"Process {pid} (CPU)",
        thread_name=name,
        process_sort=pid,
        thread_sort=tid,
    )


def device_track(device: int, stream: int) -> Track:
    return Track(
        pid=str(device),
        tid=str(stream),
        process_name=f"Device {device} (GPU)",
        thread_name=f"stream {stream}",
        process_sort=device + 0x2000000,
        thread_sort=stream,
    )


def _device(properties: tuple[str, list[int]]) -> dict[str, Any]:
    name, numbers = properties
    values: dict[str, Any] = {key: numbers[at] for at, key in PROPERTIES.items()}
    return {"id": values.pop("id"), "name": name, **values}
