"""Small traces with something in every table, from which damaged ones are made."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from made_databases import write_nsight, write_rocpd, write_rpd
from made_ncu import NCU_LONG, NCU_WIDE
from made_snapshot import snapshot
from made_trace import Bytes, Call, Sample, trace_of_calls
from made_xplane import profile
from sample_traces import HOSTILE, recording
from stepscope.formats import export_trace, read_trace
from stepscope.trace.join import join_traces
from stepscope.trace.model import Args, Held, IntColumn, Owners, ThreadState

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

SHAPES = '"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]'
FRAMES = ("/home/me/model.py(12): forward", "/home/me/train.py(30): step", "train.py(1): <module>")


def training() -> Trace:
    """Three steps of a loop, with modules, a backward pass, memory, samples and what is held."""
    calls, memory, samples = [], [], []
    for step in range(3):
        at = 1000 * step
        calls += [
            Call(f"ProfilerStep#{step}", at, at + 950, "user_annotation"),
            Call("Net", at + 10, at + 300, "module", rest='"Class": "Net"'),
            Call("aten::linear", at + 20, at + 200, rest=SHAPES, stack=FRAMES, sequence=step),
            Call("aten::addmm", at + 30, at + 150, rest=SHAPES, stack=FRAMES[1:], sequence=step),
            Call("AddmmBackward0", at + 400, at + 500, track=1, sequence=step, flags=4),
            Call("aten::copy_", at + 420, at + 450, track=1),
            Call("Optimizer.step#SGD.step", at + 600, at + 700, "user_annotation"),
        ]
        memory += [Bytes(at + 40, 4096), Bytes(at + 425, 1024), Bytes(at + 430, -1024)]
        samples += [
            Sample(at + 20, at + 200, FRAMES, ThreadState.NATIVE),
            Sample(at + 700, at + 950, FRAMES[1:], ThreadState.BLOCKED),
        ]
    trace = trace_of_calls(calls, memory, samples, ["10"] * 4, host="here", pid=10)
    blocks = Held.of(
        time_ns=np.array([40_000, 425_000]),
        duration_ns=np.array([2_000_000, 900_000]),
        size=np.array([1 << 20, 1 << 20]),
        device=trace.memory.device[:2],
        track=np.zeros(2, np.uint32),
        stack=np.array([1, 2], np.uint32),
        is_held=np.array([1, 0], np.uint8),
    )
    owners = Owners.of(
        time_ns=np.array([50_000]),
        address=np.array([0]),
        size=np.array([4096]),
        device=trace.memory.device[:1],
        owner=np.array([1], np.uint8),
    )
    info = replace(trace.info, producer="stepscope", end_ns=3_000_000, versions={"torch": "2.13"})
    return replace(trace, held=blocks, owners=owners, info=info)


def kineto_events() -> dict[str, Any]:
    """Return Chrome JSON of a device's work, as torch.profiler writes it."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": 1, "args": {"sort_index": 3}},
    ]
    for step in range(3):
        at = step * 1000
        place = {"pid": 1, "tid": 1}
        device = {"pid": 0, "tid": 7}
        name = f"ProfilerStep#{step}"
        tie = {"External id": 10 + step, "correlation": 20 + step}
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": tie}
        kernel = {"device": 0, "stream": 7, "grid": [8, 1, 1], "block": [128, 1, 1], **tie}
        talk = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 1024,
                "Group size": 8, **kernel}  # fmt: skip
        flow = {"name": "ac2g", "cat": "ac2g", "id": 20 + step}
        shapes = {"Input Dims": [[8, 8], [8, 8]], "Input type": ["float", "float"]}
        events += [
            {"ph": "X", "cat": "user_annotation", "name": name, "ts": at, "dur": 900, **place},
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": at + 1, "dur": 50, **place,
             "args": {**shapes, "External id": 10 + step, "Sequence number": step}},
            {**launch, "ts": at + 10, "dur": 5, **place},
            {"ph": "X", "cat": "kernel", "name": "gemm", "ts": at + 20, "dur": 80, **device,
             "args": kernel},
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": at + 110,
             "dur": 70, **device, "args": talk},
            {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": at + 200, "dur": 20.5,
             **device, "args": {"bytes": 4096, **kernel}},
            {"ph": "s", "ts": at + 10, **place, **flow},
            {"ph": "f", "ts": at + 20, "bp": "e", **device, **flow},
            {"ph": "i", "name": "[memory]", "s": "t", "ts": at + 30, **place,
             "args": {"Bytes": 512, "Addr": 7, "Device Type": 0, "Total Allocated": 512}},
            {"ph": "C", "name": "counter", "ts": at + 30, "args": {"value": step}, **place},
            {"ph": "B", "name": "open", "ts": at + 300, **place},
            {"ph": "E", "name": "open", "ts": at + 310, **place},
        ]  # fmt: skip
    properties = [{"id": 0, "name": "H100", "totalGlobalMem": 1 << 36, "numSms": 132}]
    expected = {"schemaVersion": 1, "deviceProperties": properties}
    return {**expected, "distributedInfo": {"rank": 0, "world_size": 8}, "traceEvents": events}


def async_events() -> dict[str, Any]:
    """Return a file with operations that belong to no thread, in both forms."""
    events: list[dict[str, Any]] = []
    for step in range(4):
        expected = {"cat": "load", "pid": 1, "tid": 2 + step % 2, "id": step}
        old = {"cat": "net", "name": "sent", "pid": 1, "tid": 2, "id": "0x1f"}
        at = step * 100
        events += [
            {"ph": "X", "name": "work", "pid": 1, "tid": 2, "ts": at, "dur": 80},
            {"ph": "b", "name": "fetch", "ts": at + 5, "args": {"url": "x"}, **expected},
            {"ph": "b", "name": "connect", "ts": at + 6, "id2": {"local": "0x1"}, **expected},
            {"ph": "n", "name": "byte", "ts": at + 7, **expected},
            {"ph": "e", "name": "connect", "ts": at + 20, "id2": {"local": "0x1"}, **expected},
            {"ph": "e", "ts": at + 130, "tts": 7, "args": {"bytes": 3}, **expected},
            {"ph": "S", "ts": at + 1, **old},
            {"ph": "F", "ts": at + 90, **old, "pid": 1 + step % 2},
        ]
    return {"traceEvents": events}


def hostile() -> Trace:
    """Names and arguments that nobody would choose."""
    numbers = IntColumn(np.array([0, 2], np.uint32), np.array([-(2**63), 2**63 - 1]))
    return recording(HOSTILE, args=Args({"External id": numbers, HOSTILE[0]: numbers}))


def save_folders(folder: Path) -> list[Path]:
    """Write five traces as our own folders."""
    device = folder / "device.json"
    device.write_text(json.dumps(kineto_events()))
    one = training()
    paddle = folder / "paddle.pb"
    export_trace(one, paddle)
    traces = {
        "training": one,
        "device": read_trace(device),
        "hostile": hostile(),
        "joined": join_traces([training(), training()]),
        "paddle": read_trace(paddle),
    }
    for name, trace in traces.items():
        trace.save(folder / f"{name}.stepscope")
    return [folder / f"{name}.stepscope" for name in traces]


def save_files(folder: Path) -> list[Path]:
    """Write a file of each format that is read."""
    (folder / "kineto.json").write_text(json.dumps(kineto_events()))
    (folder / "list.json").write_text(json.dumps(kineto_events()["traceEvents"]))
    (folder / "async.json").write_text(json.dumps(async_events()))
    trace = training()
    for name in ("ours.json", "paddle.paddle_trace.json", "paddle.pb"):
        export_trace(trace, folder / name)
    export_trace(read_trace(folder / "kineto.json"), folder / "device.paddle_trace.json")
    export_trace(read_trace(folder / "kineto.json"), folder / "device.pb")
    return sorted(folder.glob("*.json")) + sorted(folder.glob("*.pb"))


def save_foreign_files(folder: Path) -> list[Path]:
    """Write a file of each format of another profiler that is not JSON."""
    (folder / "memory.pickle").write_bytes(pickle.dumps(snapshot(60)))
    (folder / "old.pickle").write_bytes(pickle.dumps(snapshot(20, devices=1), 2))
    (folder / "vm.xplane.pb").write_bytes(profile(6)[0])
    write_nsight(folder / "nsight.sqlite")
    write_rocpd(folder / "rocpd.db")
    write_rocpd(folder / "tracks.db", by_track=True)
    write_rpd(folder / "old.rpd")
    (folder / "compute.csv").write_text(NCU_LONG)
    (folder / "raw.csv").write_text(NCU_WIDE)
    return sorted(folder.iterdir())
