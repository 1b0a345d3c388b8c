"""Result trees of Paddle written down by hand, and the Trace that the same run would be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.build import build
from stepscope.trace.model import Args, IntColumn, Memory, Trace, TraceInfo, Track
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PID = 7


@dataclass
class Device:
    """A kernel, copy or fill; times in ns here and below."""

    name: str
    start_ns: int
    end_ns: int
    type: str = "Kernel"
    device_id: int = 0
    stream_id: int = 0


@dataclass
class Runtime:
    """A call of the device's runtime, and what it launched."""

    name: str
    start_ns: int
    end_ns: int
    device_node: list[Device] = field(default_factory=list)
    type: str = "CudaRuntime"


@dataclass
class Bytes:
    """Memory that was taken or, when negative, given back."""

    timestamp_ns: int
    increase_bytes: int
    place: str = "Place(cpu)"


@dataclass
class Host:
    """An event on the host and what is in it."""

    name: str
    type: str
    start_ns: int
    end_ns: int
    children_node: list[Host] = field(default_factory=list)
    runtime_node: list[Runtime] = field(default_factory=list)
    mem_node: list[Bytes] = field(default_factory=list)

    def all(self) -> Iterator[Host]:
        """Yield the event and all in it."""
        yield self
        for child in self.children_node:
            yield from child.all()


def trace_of_threads(threads: Mapping[int, Sequence[Host]], **info: Any) -> Trace:
    """Return the trace of some threads' events, by the number of the thread."""
    table = _Table()
    for tid, events in threads.items():
        for host in (one for top in events for one in top.all()):
            table.add(host, ("host", tid))
            for memory in host.mem_node:
                table.memory.append((memory, ("host", tid)))
            for call in host.runtime_node:
                table.correlation += 1
                table.add(call, ("host", tid), table.correlation)
                for work in call.device_node:
                    at = ("device", work.device_id, work.stream_id)
                    table.add(work, at, table.correlation)
    return table.trace(TraceInfo("paddle", **info))


class _Table:
    def __init__(self) -> None:
        self.ids: dict[str, int] = {"": 0}
        self.places: dict[tuple[Any, ...], int] = {}
        self.rows: list[tuple[int, ...]] = []
        self.devices: list[tuple[int, int]] = []
        self.memory: list[tuple[Bytes, tuple[Any, ...]]] = []
        self.correlation = 0

    def add(self, event: Any, place: tuple[Any, ...], correlation: int = -1) -> None:
        if isinstance(event, Device):
            self.devices.append((len(self.rows), event.device_id))
        duration_ns = event.end_ns - event.start_ns
        words = self.text(event.type), self.text(event.name)
        track = self.places.setdefault(place, len(self.places))
        self.rows.append((*words, event.start_ns, duration_ns, track, correlation))

    def text(self, text: str) -> int:
        return self.ids.setdefault(text, len(self.ids))

    def trace(self, info: TraceInfo) -> Trace:
        columns = np.array(self.rows, np.int64).reshape(-1, 6).T
        category, name, start_ns, duration_ns, track, correlation = columns
        rows, devices = np.array(self.devices, np.int64).reshape(-1, 2).T
        raw = Slices.of(
            category=category.astype(np.uint32),
            name=name.astype(np.uint32),
            start_ns=start_ns.copy(),
            duration_ns=duration_ns.copy(),
            track=track.astype(np.uint32),
            correlation=correlation.copy(),
            args=Args({"device": IntColumn(rows.astype(np.uint32), devices.copy())}),
        )
        memory = self.made_memory()
        tracks = tuple(
            Track(str(PID), str(place[1]))
            if place[0] == "host"
            else Track(str(place[1]), str(place[2]))
            for place in self.places
        )
        return build(Captured(raw, tracks, Strings.of(self.ids), memory=memory), info)

    def made_memory(self) -> Memory:
        events = sorted(self.memory, key=lambda pair: pair[0].timestamp_ns)
        size = np.array([event.increase_bytes for event, _ in events], np.int64)
        device = [event.place[len("Place(") : -1] for event, _ in events]
        return Memory(
            time_ns=np.array([event.timestamp_ns for event, _ in events], np.int64),
            address=np.zeros(len(size), np.int64),
            size=size,
            device=np.array([self.text(one) for one in device], np.uint32),
            track=np.array([self.places[place] for _, place in events], np.uint32),
            slice=np.full(len(size), -1, np.int32),
            allocated=np.cumsum(size),
            reserved=np.cumsum(size),
        )
