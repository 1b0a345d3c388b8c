"""A host and its GPUs, simulated, that write what they do in Kineto's JSON form.

The host runs operators one after the other and launches work; a stream runs its work in order, not
before it was launched. So gaps, overlaps and waits come about as they do on a real machine.
Times are in µs, as in the file.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LAUNCH_US, DELAY_US, CALL_US = 4.0, 3.0, 6.0
"""A launching call; from its end to the start of its work; an operator besides its launches."""

COMPUTE, COMMUNICATION = 7, 20  # streams


@dataclass(frozen=True)
class Gpu:
    """What Kineto says of a device."""

    name: str = "NVIDIA H100 80GB HBM3"
    major: int = 9
    minor: int = 0
    memory: int = 85_018_279_936
    runtime: str = "cuda"  # or hip: how its calls begin

    def properties(self, number: int) -> dict[str, Any]:
        return {
            "id": number,
            "name": self.name,
            "totalGlobalMem": self.memory,
            "computeMajor": self.major,
            "computeMinor": self.minor,
            "warpSize": 64 if self.runtime == "hip" else 32,
            "numSms": 132,
        }


H100 = Gpu()
A100 = Gpu("NVIDIA A100-SXM4-80GB", 8, 0, 84_974_829_568)
V100 = Gpu("Tesla V100-SXM2-32GB", 7, 0, 34_079_637_504)
MI300 = Gpu("AMD Instinct MI300X", 9, 4, 206_141_652_992, "hip")


@dataclass
class Rank:
    """A process with one GPU; ``now`` is its host's clock."""

    gpu: Gpu = H100
    number: int = 0
    pid: int = 1000
    world: int = 1
    now: float = 1_000_000.0
    events: list[dict[str, Any]] = field(default_factory=list)
    ends: dict[int, float] = field(default_factory=dict)  # of each stream's last work
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def slice(self, cat: str, name: str, start: float, end: float, **args: Any) -> None:
        """Write a slice of the host's thread."""
        on = {"pid": self.pid, "tid": self.pid}
        self._write(cat, name, (start, end), on, args)

    def python(self, us: float) -> None:
        """Let the host do something that no event tells of."""
        self.now += us

    @contextlib.contextmanager
    def range(self, name: str, cat: str = "user_annotation") -> Iterator[None]:
        """Mark what the host does meanwhile."""
        began = self.now
        yield
        self.slice(cat, name, began, self.now)

    def op(
        self, name: str, *kernels: tuple[str, float], stream: int = COMPUTE, **args: Any
    ) -> None:
        """Run an operator that launches kernels: their names and durations."""
        with self._operator(name, args) as external:
            self.now += CALL_US / 2
            for kernel, us in kernels:
                self.launch(kernel, us, stream=stream, external=external)
            self.now += CALL_US / 2

    def launch(
        self, kernel: str, us: float, *, stream: int = COMPUTE, external: int = 0, **args: Any
    ) -> None:
        """Launch a kernel."""
        correlation = self.call(f"{self.gpu.runtime}LaunchKernel", LAUNCH_US, external)
        shape = {"grid": [132, 1, 1], "block": [256, 1, 1], "registers per thread": 64}
        shape["shared memory"] = 49_152
        self.work("kernel", kernel, us, stream, correlation, External_id=external, **shape, **args)

    def graph(self, kernels: Sequence[tuple[str, float]], host_us: float = 30.0) -> None:
        """Launch a CUDA graph: one call, all kernels one behind the other."""
        correlation = self.call(f"{self.gpu.runtime}GraphLaunch", host_us)
        for node, (kernel, us) in enumerate(kernels):
            more = {"graph id": 1, "graph node id": node, "grid": [132, 1, 1], "block": [256, 1, 1]}
            self.work("kernel", kernel, us, COMPUTE, correlation, **more)

    def call(self, name: str, us: float, external: int = 0) -> int:
        """Call the runtime; return the correlation of what it starts."""
        correlation = next(self._ids)
        more = {"External id": external} if external else {}
        self.slice("cuda_runtime", name, self.now, self.now + us, correlation=correlation, **more)
        self.now += us
        return correlation

    def work(
        self, cat: str, name: str, us: float, stream: int, correlation: int, **args: Any
    ) -> float:
        """Put work into a stream's queue; return when it ends."""
        external = args.pop("External_id", 0)
        if external:
            args["External id"] = external
        start = max(self.now + DELAY_US, self.ends.get(stream, 0.0) + 1.0)
        self.ends[stream] = start + us
        on = {"pid": self.number, "tid": stream}
        args |= {"device": self.number, "stream": stream, "correlation": correlation}
        self._write(cat, name, (start, start + us), on, args)
        call = {"id": correlation, "cat": "ac2g", "name": "ac2g"}
        host = {"pid": self.pid, "tid": self.pid, "ts": round(self.now, 3)}
        self.events.append({"ph": "s", **host, **call})
        self.events.append({"ph": "f", **on, "ts": round(start, 3), "bp": "e", **call})
        return start + us

    def copy(
        self, kind: str, size: int, rate: float, *, waits: bool, stream: int = COMPUTE
    ) -> None:
        """Copy memory: ``HtoD (Pageable -> Device)``, bytes, GB/s."""
        with self._operator("aten::copy_", {}) as external:
            us = size / rate / 1e3
            name = "hipMemcpyWithStream" if self.gpu.runtime == "hip" else "cudaMemcpyAsync"
            correlation, began = next(self._ids), self.now
            more = {"bytes": size, "memory bandwidth (GB/s)": rate, "External_id": external}
            self.now += LAUNCH_US
            end = self.work("gpu_memcpy", f"Memcpy {kind}", us, stream, correlation, **more)
            if waits:
                self.now = end + 2
            self.slice("cuda_runtime", name, began, self.now, correlation=correlation)
            if waits and self.gpu.runtime == "cuda":
                self.call("cudaStreamSynchronize", 2.0)

    def read(self, operator: str = "aten::_local_scalar_dense") -> None:
        """Read a value of the device, and wait for it."""
        with self.range("aten::item", "cpu_op"), self._operator(operator, {}):
            self.now += LAUNCH_US
            correlation = next(self._ids)
            kind = "Memcpy DtoH (Device -> Pageable)"
            self.slice(
                "cuda_runtime", "cudaMemcpyAsync", self.now, self.now + 5,
                correlation=correlation,
            )  # fmt: skip
            end = self.work("gpu_memcpy", kind, 1.2, COMPUTE, correlation, bytes=8)
            self.now += 5
            self.call("cudaStreamSynchronize", max(end - self.now, 0) + 2)

    def wait(self, name: str = "cudaDeviceSynchronize") -> None:
        """Wait until all streams are empty."""
        name = name.replace("cuda", self.gpu.runtime)
        self.call(name, max(max(self.ends.values(), default=0) - self.now, 0) + 3)

    def after(self, stream: int, other: int) -> None:
        """Let a stream wait for what another one has to do."""
        self.call(f"{self.gpu.runtime}StreamWaitEvent", 1.0)
        self.ends[stream] = max(self.ends.get(stream, 0.0), self.ends.get(other, 0.0))

    def memory(self, address: int, size: int, allocated: int, reserved: int) -> None:
        """Write that a tensor was allocated, or freed (a negative size)."""
        self.events.append(
            {
                "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",
                "pid": self.pid, "tid": self.pid, "ts": round(self.now, 3),
                "args": {
                    "Device Type": 1, "Device Id": self.number, "Addr": address, "Bytes": size,
                    "Total Allocated": allocated, "Total Reserved": reserved,
                },
            }
        )  # fmt: skip

    @contextlib.contextmanager
    def _operator(self, name: str, args: dict[str, Any]) -> Iterator[int]:
        external, began = next(self._ids), self.now
        yield external
        self.slice("cpu_op", name, began, self.now, **{"External id": external}, **args)

    def _write(
        self,
        cat: str,
        name: str,
        time: tuple[float, float],
        on: dict[str, int],
        args: dict[str, Any],
    ) -> None:
        self.events.append(
            {
                "ph": "X", "cat": cat, "name": name, **on,
                "ts": round(time[0], 3), "dur": round(time[1] - time[0], 3), "args": args,
            }
        )  # fmt: skip


def write(path: Path, *ranks: Rank) -> None:
    """Write the file of one rank, or of several that were merged into one."""
    events: list[dict[str, Any]] = []
    for rank in ranks:
        for pid, label in ((rank.pid, "CPU"), (rank.number, f"GPU {rank.number}")):
            for kind, value in (("process_name", "python"), ("process_labels", label)):
                key = "name" if kind == "process_name" else "labels"
                events.append(
                    {"ph": "M", "name": kind, "pid": pid, "tid": 0, "ts": 0, "args": {key: value}}
                )
        events += rank.events
    first = ranks[0]
    document = {
        "schemaVersion": 1,
        "deviceProperties": [first.gpu.properties(rank.number) for rank in ranks],
        "distributedInfo": {"backend": "nccl", "rank": first.number, "world_size": first.world},
        "traceEvents": events,
        "traceName": path.name,
        "displayTimeUnit": "ms",
    }
    if first.world == 1:
        del document["distributedInfo"]
    path.write_text(json.dumps(document))
