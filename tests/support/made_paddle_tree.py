"""Result trees of Paddle written down by hand, and the Trace that the same run would be."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.build import build
from stepscope.trace.model import Args, IntColumn, Memory, Trace, TraceInfo, Track
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PID = 7
US = 1000
CPU_USE = {"Process Cpu Utilization": "0.5", "System Cpu Utilization": "0.25"}


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


def host(name: str, event_type: str, start_us: int, end_us: int, *inside: object) -> Host:
    """Return a host event; what is in it goes where Paddle has it."""
    return Host(
        name,
        event_type,
        start_us * US,
        end_us * US,
        children_node=[one for one in inside if isinstance(one, Host)],
        runtime_node=[one for one in inside if isinstance(one, Runtime)],
        mem_node=[one for one in inside if isinstance(one, Bytes)],
    )


def call(name: str, start_us: int, end_us: int, *launched: Device) -> Runtime:
    return Runtime(name, start_us * US, end_us * US, list(launched))


def device(name: str, start_us: int, end_us: int, event_type: str = "Kernel") -> Device:
    return Device(name, start_us * US, end_us * US, event_type)


def one_step() -> Host:
    """Return a step with a phase of each kind, an exchange, a copy and a range of the user's."""
    gemm = call("cudaLaunchKernel", 25, 30, device("void gemm<float, 128>(float*, int)", 30, 90))
    exchange = call("cudaLaunchKernel", 60, 65, device("ncclKernel_AllReduce", 80, 150))
    copy = call("cudaMemcpyAsync", 81, 84, device("MEMCPY_HtoD", 90, 98, "Memcpy"))
    launch = host("matmul kernel launch", "DygraphKernelLaunch", 20, 45, gemm)
    block = host(
        *("my_block", "PythonUserDefined", 6, 91),
        host("matmul dygraph", "Operator", 10, 50, launch),
        host("c_allreduce_sum dygraph", "Operator", 55, 75, exchange),
        host("GpuMemcpyAsync:CPU->GPU", "UserDefined", 80, 86, copy),
    )
    return host(
        *("ProfileStep#0", "ProfileStep", 0, 200),
        host("DataLoader", "Dataloader", 0, 2),
        host("Linear", "Forward", 5, 93, block),
        host("backward", "Backward", 100, 120),
    )


def as_paddle(threads: Mapping[int, Sequence[Host]]) -> dict[int, Any]:
    """Return the same trees as nodes that Paddle's statistics can walk."""
    from paddle.base.core import TracerEventType, TracerMemEventType

    def node(event: Any, tid: int) -> Any:
        parts = {
            part: [node(one, tid) for one in getattr(event, part, [])]
            for part in ("children_node", "runtime_node", "device_node")
        }
        given = {key: value for key, value in vars(event).items() if key not in parts}
        given["type"] = getattr(TracerEventType, event.type)
        given["mem_node"] = [memory(one) for one in getattr(event, "mem_node", [])]
        return SimpleNamespace(**{**given, **parts, "thread_id": tid})

    def memory(event: Bytes) -> Any:
        taken = event.increase_bytes > 0
        kind = TracerMemEventType.Allocate if taken else TracerMemEventType.Free
        return SimpleNamespace(**vars(event), type=kind, peak_allocated=0, peak_reserved=0)

    roots = {tid: Host("root", "UserDefined", 0, 0, list(tops)) for tid, tops in threads.items()}
    return {tid: node(root, tid) for tid, root in roots.items()}


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
